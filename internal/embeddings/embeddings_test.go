package embeddings

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/encoder"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A fake is a model with the vectors of hashed words.
type fake struct {
	name  string
	texts []string // that it was asked for since the last time
	err   error
}

func (f *fake) Name() string { return f.name }

func (f *fake) Embed(_ context.Context, texts []string) (all []encoder.Vector, err error) {
	if f.texts = append(f.texts, texts...); f.err != nil {
		return nil, f.err
	}
	for _, text := range texts {
		v := make(encoder.Vector, 16)
		v[0] = 0.1
		for word := range strings.FieldsSeq(text) {
			h := fnv.New32()
			h.Write([]byte(word))
			v[h.Sum32()%16]++
		}
		by := float32(1 / math.Sqrt(float64(v.Dot(v))))
		for i := range v {
			v[i] *= by
		}
		all = append(all, v)
	}
	return all, nil
}

func (f *fake) Task(ctx context.Context, texts []string) ([]encoder.Vector, error) {
	return f.Embed(ctx, texts)
}

// asked returns the texts that it was asked for since the last time.
func (f *fake) asked() []string {
	texts := f.texts
	f.texts = nil
	return texts
}

func described(n int) (all []*registry.NormalizedTool) {
	for i := range n {
		all = append(all, &registry.NormalizedTool{ID: fmt.Sprintf("s:t%d", i), Name: fmt.Sprintf("t%d", i), Description: fmt.Sprintf("does %d", i)})
	}
	return all
}

func tools(n int) []Tool { return Tools(described(n)) }

func has(s *Set, id string) bool {
	_, ok := s.Number(id)
	return ok
}

// A vector is made once, also across starts, and again by another model.
func TestStoreKeepsVectors(t *testing.T) {
	folder, a := t.TempDir(), &fake{name: "m"}
	set, err := Open(a, folder).Build(t.Context(), tools(200))
	if err != nil || !has(set, "s:t199") || has(set, "s:none") {
		t.Fatalf("%v, %v", set, err)
	}
	if n := len(a.asked()); n != 200 {
		t.Errorf("%d texts were sent", n)
	}
	edited := described(200)
	edited[1].Description = "does something else entirely"
	changed := Tools(edited)
	again, err := Open(a, folder).Build(t.Context(), changed)
	if sent := a.asked(); err != nil || !slices.Equal(sent, []string{changed[1].text}) {
		t.Errorf("%v; sent %q", err, sent)
	}
	task, err := a.Embed(t.Context(), []string{changed[0].text})
	if err != nil {
		t.Fatal(err)
	}
	a.asked()
	near := func(s *Set, id string) float32 {
		i, _ := s.Number(id)
		return s.Cosines(task)[0][i]
	}
	if near(again, "s:t7") != near(set, "s:t7") || near(again, "s:t1") == near(set, "s:t1") {
		t.Error("the vectors differ where the texts do not, or the other way round")
	}
	if _, err := Open(a, folder).Build(t.Context(), nil); err != nil { // before servers are listed
		t.Fatal(err)
	}
	if _, err := Open(a, folder).Build(t.Context(), changed); err != nil || len(a.asked()) != 0 {
		t.Errorf("%v; vectors were made again", err)
	}
	other := &fake{name: "other"}
	if _, err := Open(other, folder).Build(t.Context(), changed); err != nil || len(other.texts) != 200 {
		t.Errorf("%v; another model has made none", err)
	}
}

// Vectors that can't be saved are used.
func TestStoreWithoutFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a := &fake{name: "m"}
	s := Open(a, filepath.Join(file, "folder"))
	set, err := s.Build(t.Context(), tools(3))
	if err == nil || set == nil || !has(set, "s:t2") {
		t.Fatalf("%v, %v", set, err)
	}
	a.asked()
	if set, err := s.Build(t.Context(), tools(3)); err != nil || !has(set, "s:t2") || len(a.asked()) != 0 {
		t.Errorf("%v, %v; they are made again", set, err)
	}
}

func TestStoreSurvivesDamage(t *testing.T) {
	folder, a := t.TempDir(), &fake{name: "m"}
	if _, err := Open(a, folder).Build(t.Context(), tools(3)); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(folder, "*.vectors"))
	data, err := os.ReadFile(files[0])
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.WriteFile(files[0], data[:len(data)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	a.asked()
	if set, err := Open(a, folder).Build(t.Context(), tools(3)); err != nil || !has(set, "s:t2") || len(a.asked()) != 3 {
		t.Errorf("%v, %v", set, err)
	}
}

// Vectors that were made before a failure are kept.
func TestStoreKeepsVectorsBeforeFailure(t *testing.T) {
	folder, a := t.TempDir(), &fake{name: "m"}
	s := Open(a, folder)
	if _, err := s.Build(t.Context(), tools(2)); err != nil {
		t.Fatal(err)
	}
	a.err = errors.New("down")
	if set, err := s.Build(t.Context(), tools(3)); !errors.Is(err, a.err) || set != nil {
		t.Errorf("%v, %v", set, err)
	}
	a.asked()
	a.err = nil
	if _, err := Open(a, folder).Build(t.Context(), tools(3)); err != nil || !slices.Equal(a.asked(), []string{"t2. does 2"}) {
		t.Errorf("%v; more was sent than was missing", err)
	}
}

// A text that the model can't read has no vector, and the other tools have one.
func TestUnreadableText(t *testing.T) {
	set, err := Open(unreadable{&fake{name: "m"}}, "").Build(t.Context(), tools(3))
	if err != nil || has(set, "s:t0") || !has(set, "s:t2") {
		t.Errorf("%v, %v", set, err)
	}
}

// An unreadable is a model that can't read the first text.
type unreadable struct{ *fake }

func (u unreadable) Embed(ctx context.Context, texts []string) ([]encoder.Vector, error) {
	all, err := u.fake.Embed(ctx, texts)
	all[0] = nil
	return all, err
}

// A damaged file has no vectors, or sound ones.
func FuzzDecode(f *testing.F) {
	var data bytes.Buffer
	if err := gob.NewEncoder(&data).Encode(map[string]encoder.Vector{"a": {0.6, 0.8}, "b": {0, 0}}); err != nil {
		f.Fatal(err)
	}
	f.Add(data.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, v := range decode(data) {
			if length := v.Dot(v); !(length > 0.99 && length < 1.01) {
				t.Errorf("a vector of length %v", length)
			}
		}
	})
}

// The model in the program ends with the context, between two texts.
func TestBuiltinEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if all, err := Builtin().Task(ctx, []string{"read a file"}); !errors.Is(err, context.Canceled) || all[0] != nil {
		t.Errorf("%v, %v", all, err)
	}
}

func TestApart(t *testing.T) {
	for name, want := range map[string]string{
		"getUser_id": "get User id", "HTTPServer": "HTTP Server", "parseJSON2XML": "parse JSON2 XML", "a.b/c-d:e": "a b c d e",
		"iPhone": "i Phone", "ABc": "A Bc", "": "", "überÄrger": "über Ärger", "listMCPs": "list MC Ps",
	} {
		if got := apart(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestBeginning(t *testing.T) {
	long := strings.Repeat("word ", 50)
	for text, want := range map[string]string{
		"Reads a file. Fast!": "Reads a file. Fast!", "Reads. " + long: "Reads.", long + ". Reads.": long[:near], "": "",
	} {
		if got := beginning(text); got != want {
			t.Errorf("%.20q: %q, want %q", text, got, want)
		}
	}
}

// A task vector of another length says nothing: the model was exchanged under the same name.
func TestOtherLength(t *testing.T) {
	set, err := Open(&fake{name: "m"}, "").Build(t.Context(), tools(3))
	if err != nil {
		t.Fatal(err)
	}
	if got := set.Cosines([]encoder.Vector{make(encoder.Vector, 7)}); got != nil {
		t.Errorf("cosines %v", got)
	}
}
