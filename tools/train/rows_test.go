package main

import (
	"compress/gzip"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/analysis"
	"github.com/mcp-metarouter/metarouter/internal/index"
)

// A splitter, which splits part by part, has the words of the whole text.
func TestSplitter(t *testing.T) {
	s := make(splitter)
	for _, text := range []string{"", "the", "to be or not", "The getHTTPUrl of a file.", "delete  it\tnow", "ファイル を 読む", "it is", "a b-c/d.EFg"} {
		for range 2 { // the second time from memory
			if got, want := s.of(text), analysis.Words(text); !slices.Equal(got, want) {
				t.Errorf("%q: %q, want %q", text, got, want)
			}
		}
	}
}

func TestReadRows(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "tasks-a.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	z.Write([]byte(`{"source": "x", "query": "wake me", "positive": {"name": "set_alarm", "server": "clock", "params": ["time"]}}
{"source": "x", "query": "get me up", "positive": {"name": "set_alarm", "server": "clock"}}
{"source": "y", "name": "git", "description": "a version control system", "server": "git"}
`))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	rows, err := readRows(dir, tuning{Sources: map[string]source{"tasks-a/y": {}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 {
		t.Fatalf("%d rows instead of 2, since two rows have the same positive: %v", len(rows), rows)
	}
	alarm, git := rows[0], rows[1]
	if alarm.source != "tasks-a" || git.source != "tasks-a/y" {
		t.Errorf("the sources are %q and %q", alarm.source, git.source)
	}
	if len(alarm.queries) != 2 || !slices.Equal(alarm.fields[index.NameField], []string{"set", "alarm"}) ||
		!slices.Equal(alarm.fields[index.ParameterField], []string{"time"}) || !slices.Equal(alarm.fields[index.ServerField], []string{"clock"}) {
		t.Errorf("the first row is %+v", alarm)
	}
	if len(git.fields[index.ServerField]) != 0 {
		t.Errorf("a server with the tool's name has words: %v", git.fields)
	}
}

// Pairs of a group stand together, at most so many, and none is lost.
func TestArrange(t *testing.T) {
	var all []pair
	for i := range 100 {
		all = append(all, pair{id: i, group: i%10 - 1})
	}
	arranged := arrange(all, 5, rand.New(rand.NewPCG(1, 2)))
	seen := make(map[int]bool)
	next := 0
	for i, p := range arranged {
		seen[p.id] = true
		if i > 0 && p.group >= 0 && arranged[i-1].group == p.group {
			next++
		}
	}
	if len(seen) != 100 {
		t.Errorf("%d pairs of 100", len(seen))
	}
	if next < 9*2*4 {
		t.Errorf("only %d pairs stand next to one of their group", next)
	}
}

// Another right tool in the batch is not held against a pair.
func TestAlsoRight(t *testing.T) {
	start, weight, pairs := tinyWorld(rand.New(rand.NewPCG(3, 3)))
	m := tinyModel(start, weight)
	before := m.loss(pairs)
	for i := range pairs {
		for j := range pairs {
			pairs[i].also = append(pairs[i].also, pairs[j].id, pairs[j].other)
		}
	}
	if loss := m.loss(pairs); before < 0.1 || loss > 1e-5 {
		t.Errorf("the loss is %v if all tools are right, and else %v", loss, before)
	}
}

func TestWordFile(t *testing.T) {
	words, vectors, err := wordFile([]byte(`{"size":2,"words":["a\"","]"],"vectors":{"a\"":[1,-2.5,7],"]":[0.5,1,2]},"unkVector":[0]}`))
	if err != nil || !slices.Equal(words, []string{`a"`, "]"}) || string(vectors[`a"`]) != "1,-2.5,7" || string(vectors["]"]) != "0.5,1,2" {
		t.Errorf("%q %q %v", words, vectors, err)
	}
	for _, broken := range []string{"", `{"words":["a"]}`, `{"words":["a"],"vectors":{"a":[1`} {
		if _, _, err := wordFile([]byte(broken)); err == nil {
			t.Errorf("%s is read", broken)
		}
	}
}
