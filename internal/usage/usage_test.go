package usage

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
)

var start = time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC)

const aDay = 24 * time.Hour

// inMemory returns an empty store.
func inMemory(t testing.TB) *Store {
	t.Helper()
	s, err := Open("", []string{"config"}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// call records that the client called the tool after the query.
func call(s *Store, client, query, tool string, at time.Time) {
	s.Record(Use{Client: client, Words: strings.Fields(query), Tool: tool, At: at})
}

// fail records that the call failed.
func fail(s *Store, client, query, tool string, at time.Time) {
	s.Record(Use{Client: client, Words: strings.Fields(query), Tool: tool, Failed: true, At: at})
}

// want checks the evidence for a tool.
func want(t *testing.T, s *Store, query, tool string, at time.Time, evidence float64) {
	t.Helper()
	if got := s.Match(strings.Fields(query), at)[tool]; math.Abs(got-evidence) > 0.001 {
		t.Errorf("evidence of %s for %q is %.3f, want %.3f", tool, query, got, evidence)
	}
}

func TestEvidence(t *testing.T) {
	s := inMemory(t)
	if got := s.Match([]string{"creat", "issu"}, start); len(got) != 0 {
		t.Errorf("an empty store knows %v", got)
	}
	call(s, "a", "creat issu", "gh:issue", start)
	want(t, s, "creat issu", "gh:issue", start, 0.3)
	want(t, s, "issu creat issu", "gh:issue", start, 0.3) // order and repetition do not matter
	want(t, s, "send mail", "gh:issue", start, 0)
	for i, evidence := range []float64{0.6, 0.9, 1, 1} { // by one client more each
		call(s, fmt.Sprint("b", i), "issu creat", "gh:issue", start)
		want(t, s, "creat issu", "gh:issue", start, evidence)
	}
	call(s, "a", "creat issu", "jira:create", start)
	want(t, s, "creat issu", "jira:create", start, 0.3)
	want(t, s, "creat issu", "gh:issue", start, 1)
}

func TestSimilarity(t *testing.T) {
	s := inMemory(t)
	call(s, "a", "list github issu", "gh:list", start)
	for _, q := range []string{"list file", "list mail", "list event", "list user"} {
		call(s, "a", q, strings.ReplaceAll(q, " ", ":"), start)
	}
	of := func(query string) float64 { return s.Match(strings.Fields(query), start)["gh:list"] }
	same, rare, common := of("list github issu"), of("github issu"), of("list")
	if !(same > rare && rare > of("github pull") && of("github pull") > common) {
		t.Errorf("same %.2f, two rare words %.2f, one %.2f, a common one %.2f: want less each time", same, rare, of("github pull"), common)
	}
	if got := of("list file mail event"); got != 0 {
		t.Errorf("one common word among others gives %.2f", got)
	}
	if got := of("unseen"); got != 0 {
		t.Errorf("an unseen word gives %.2f", got)
	}
	if longer := of("list github issu now pleas"); longer >= same || longer <= 0.1 {
		t.Errorf("unseen words turn %.2f into %.2f", same, longer)
	}
}

func TestOneClientIsCapped(t *testing.T) {
	s := inMemory(t)
	for range 1000 {
		call(s, "a", "send mail", "evil:tool", start)
	}
	want(t, s, "send mail", "evil:tool", start, 0.3) // as one call does
	at := start
	for range 100 {
		at = at.Add(aDay)
		for i := range 20 {
			call(s, "a", "send mail", "evil:tool", at)
			call(s, "a", fmt.Sprint("send mail ", i), "evil:tool", at)
		}
	}
	want(t, s, "send mail", "evil:tool", at, 0.6)
	call(s, "b", "send mail", "evil:tool", at)
	want(t, s, "send mail", "evil:tool", at, 0.9)
}

func TestOneClientCannotPullDownOthers(t *testing.T) {
	s := inMemory(t)
	for _, client := range []string{"a", "b", "c", "d", "e", "f"} {
		call(s, client, "send mail", "mail:send", start)
	}
	for range 1000 {
		fail(s, "evil", "send mail", "mail:send", start)
	}
	want(t, s, "send mail", "mail:send", start, 1)
	two := inMemory(t)
	call(two, "a", "send mail", "mail:send", start)
	call(two, "b", "send mail", "mail:send", start)
	for range 1000 {
		fail(two, "evil", "send mail", "mail:send", start)
	}
	want(t, two, "send mail", "mail:send", start, 0.3)
}

// The queries that a client floods a tool with take the place of one that is
// well known at most.
func TestFloodOfQueries(t *testing.T) {
	s := inMemory(t)
	for i := range maxQueries {
		for _, client := range []string{"a", "b"} {
			call(s, client, fmt.Sprint("known", i), "x:y", start)
		}
	}
	for i := range 1000 {
		call(s, "evil", fmt.Sprint("flood", i), "x:y", start.Add(time.Hour))
	}
	known := 0
	for i := range maxQueries {
		if s.Match([]string{fmt.Sprint("known", i)}, start)["x:y"] > 0.5 {
			known++
		}
	}
	if known < maxQueries-1 {
		t.Errorf("%d of %d known queries are left", known, maxQueries)
	}
	want(t, s, "flood999", "x:y", start.Add(time.Hour), 0.3) // the newest always has a place
}

func TestFailures(t *testing.T) {
	s := inMemory(t)
	at := start
	for range 5 {
		at = at.Add(aDay)
		call(s, "a", "send mail", "x:y", at)
	}
	want(t, s, "send mail", "x:y", at, 0.6)
	at = at.Add(aDay)
	for _, evidence := range []float64{0.29, -0.01, -0.01} { // what the client gave is taken back
		fail(s, "a", "send mail", "x:y", at)
		if got := s.Match([]string{"send", "mail"}, at)["x:y"]; math.Abs(got-evidence) > 0.03 {
			t.Errorf("evidence is %.3f, want %.3f", got, evidence)
		}
	}
	for range 10 {
		at = at.Add(aDay)
		fail(s, "a", "send mail", "x:y", at)
		fail(s, "b", "send mail", "x:y", at)
	}
	want(t, s, "send mail", "x:y", at, -0.3)
	if got := s.Match([]string{"send", "letter"}, at)["x:y"]; got >= 0 || got <= -0.3 {
		t.Errorf("for a query that is alike it is %.2f", got)
	}
	call(s, "a", "write letter", "x:y", at) // works for another query
	if got := s.Match([]string{"write", "letter"}, at)["x:y"]; got < 0.2 {
		t.Errorf("for another query it is %.2f", got)
	}

	fail(s, "a", "send letter", "x:y", at)
	if got := s.Match([]string{"send", "mail"}, at)["x:y"]; got != -0.3 {
		t.Errorf("with another failure it is %.2f", got) // the worst counts
	}

	retried := inMemory(t)
	fail(retried, "a", "send mail", "x:y", start)
	want(t, retried, "send mail", "x:y", start, -0.3)
	call(retried, "a", "send mail", "x:y", start)
	want(t, retried, "send mail", "x:y", start, 0.3)
}

func TestDecay(t *testing.T) {
	s := inMemory(t)
	call(s, "a", "send mail", "x:y", start)
	call(s, "b", "send mail", "x:y", start)
	want(t, s, "send mail", "x:y", start, 0.6)
	want(t, s, "send mail", "x:y", start.Add(30*aDay), 0.3)
	want(t, s, "send mail", "x:y", start.Add(60*aDay), 0.15)
	want(t, s, "send mail", "x:y", start.Add(-aDay), 0.6) // the clock was set back
	if got := s.Match([]string{"send", "mail"}, start.Add(300*aDay)); len(got) != 0 {
		t.Errorf("still known after 300 days: %v", got)
	}
	if got := ranked(s.memory.lines(), start.Add(300*aDay).UnixMilli()); len(got) != 0 {
		t.Errorf("would still be saved after 300 days: %v", got)
	}
	call(s, "a", "send mail", "x:y", start.Add(30*aDay)) // 0.5 + 1, and 0.5 of b
	want(t, s, "send mail", "x:y", start.Add(30*aDay), 0.6)
	call(s, "a", "send mail", "x:y", start) // late, by a clock that was set back
	want(t, s, "send mail", "x:y", start.Add(30*aDay), 0.6)
}

func TestBounds(t *testing.T) {
	s := inMemory(t)
	for i := range maxTools + 500 {
		call(s, "a", fmt.Sprint("word", i), fmt.Sprint("x:", i), start.Add(time.Duration(i)*time.Minute))
	}
	if n := len(s.memory.tools); n > maxTools || n < maxTools/2 {
		t.Errorf("%d tools", n)
	}
	now := start.Add((maxTools + 500) * time.Minute)
	want(t, s, "word0", "x:0", now, 0) // the oldest has gone
	if s.Match([]string{fmt.Sprint("word", maxTools+499)}, now)[fmt.Sprint("x:", maxTools+499)] == 0 {
		t.Error("the newest is not known")
	}

	s = inMemory(t)
	for i := range 30 {
		call(s, fmt.Sprint("client", i), "strong", "x:y", start)
		call(s, "a", fmt.Sprint("weak", i), "x:y", start)
	}
	tool := s.memory.tools["x:y"]
	if len(tool.uses) != maxQueries || len(s.memory.queries) != maxQueries || len(s.memory.words) != maxQueries {
		t.Errorf("%d uses, %d queries, %d words", len(tool.uses), len(s.memory.queries), len(s.memory.words))
	}
	want(t, s, "strong", "x:y", start, 1)
	for _, u := range tool.uses {
		if len(u.marks) > maxClients {
			t.Errorf("%d clients are remembered", len(u.marks))
		}
	}

	s = inMemory(t)
	var words []string
	for i := range 100 {
		words = append(words, fmt.Sprint("w", i))
	}
	s.Record(Use{Client: "a", Words: append(words, strings.Repeat("x", maxWordLen+1)), Tool: "x:long", At: start})
	s.Record(Use{Client: "a", Words: []string{"", "\xff", strings.Repeat("x", maxWordLen+1)}, Tool: "x:none", At: start})
	s.Record(Use{Client: "a", Words: []string{strings.Repeat("x", maxWordLen)}, Tool: "x:" + strings.Repeat("y", maxToolLen), At: start})
	s.Record(Use{Client: "a", Words: []string{"word"}, At: start})
	if len(s.memory.tools) != 1 || len(s.memory.tools["x:long"].uses[0].query.texts) != maxWords {
		t.Errorf("known are %+v", s.memory.lines())
	}
}

// Whatever is recorded, neither the memory nor the file grows above its bound,
// and what is in the index is what is in use.
func TestBytesAreBounded(t *testing.T) {
	s := inMemory(t)
	for i := range 1500 {
		words := make([]string, maxWords)
		for j := range words {
			words[j] = fmt.Sprintf("%032d%032d", i, j)
		}
		s.Record(Use{Client: "a", Words: words, Tool: fmt.Sprint("x:", i), At: start})
	}
	size := 0
	for _, q := range s.memory.queries {
		for _, text := range q.texts {
			size += cost(text)
		}
	}
	if size != s.memory.size || size > maxBytes || size < maxBytes/2 {
		t.Errorf("%d bytes of words, counted as %d", size, s.memory.size)
	}
	data, err := encode(head{version, 0}, ranked(s.memory.lines(), start.UnixMilli()))
	if err != nil || len(data) > maxBytes || len(data) < maxBytes/2 {
		t.Errorf("a file of %d bytes, %v", len(data), err)
	}
	counted := make(map[string]int)
	for _, q := range s.memory.queries {
		for _, text := range q.texts {
			counted[text]++
		}
	}
	for text, w := range s.memory.words {
		if w.queries != counted[text] {
			t.Fatalf("%q is said to be in %d queries, and is in %d", text, w.queries, counted[text])
		}
	}
	if len(s.memory.words) != len(counted) {
		t.Errorf("%d words are known of %d", len(s.memory.words), len(counted))
	}
}

// Queries that many tools share are small in memory and large in the file.
func TestFileIsBounded(t *testing.T) {
	s := inMemory(t)
	for i := range 2000 {
		words := make([]string, maxWords)
		for j := range words {
			words[j] = fmt.Sprintf("%032d%032d", i%maxQueries, j)
		}
		for _, client := range []string{"a", "b"}[:1+i/1990] { // the last tool is the strongest
			s.Record(Use{Client: client, Words: words, Tool: fmt.Sprint("x:", i/maxQueries), At: start})
		}
	}
	data, err := encode(head{version, 0}, ranked(s.memory.lines(), start.UnixMilli()))
	if err != nil || len(data) > maxBytes || len(data) < maxBytes*9/10 {
		t.Errorf("a file of %d bytes, %v", len(data), err)
	}
	if _, lines, err := decode(data); err != nil || lines[0].Tool != "x:199" || len(lines) > 150 {
		t.Errorf("%d tools, the first %s, %v", len(lines), lines[0].Tool, err)
	}
}

// randomUses returns calls that repeat words, tools and clients, over days.
func randomUses(n int, seed uint64) []Use {
	r := rand.New(rand.NewPCG(seed, 1))
	uses := make([]Use, n)
	for i := range uses {
		words := make([]string, 1+r.IntN(5))
		for j := range words {
			words[j] = fmt.Sprint("w", r.IntN(60))
		}
		uses[i] = Use{
			Client: fmt.Sprint("c", r.IntN(20)), Task: strings.Join(words, " "), Words: words, Tool: fmt.Sprint("x:", r.IntN(n/4)),
			Failed: r.IntN(4) == 0, Unsure: r.IntN(4) == 0, Guess: r.IntN(8) == 0, Withdrawn: r.IntN(16) == 0,
			At: start.Add(time.Duration(i/50) * 12 * time.Hour),
		}
	}
	return uses
}

func TestDeterministic(t *testing.T) {
	uses := randomUses(12000, 7) // of 3,000 tools: more than there is room for
	at := uses[len(uses)-1].At
	var first []byte
	var evidence []map[string]float64
	for range 3 {
		s := inMemory(t)
		for _, u := range uses {
			s.Record(u)
		}
		data, err := encode(head{version, 0}, ranked(s.memory.lines(), at.UnixMilli()))
		if err != nil {
			t.Fatal(err)
		}
		var got []map[string]float64
		for _, u := range uses[:200] {
			got = append(got, s.Match(u.Words, at))
		}
		if first == nil {
			first, evidence = data, got
		}
		if !bytes.Equal(data, first) {
			t.Fatal("the same calls are saved as something else")
		}
		if !reflect.DeepEqual(got, evidence) {
			t.Fatal("the same calls are other evidence")
		}
	}
	for _, m := range evidence {
		for tool, e := range m {
			if e < -0.3 || e > 1 || math.IsNaN(e) {
				t.Errorf("evidence of %s is %v", tool, e)
			}
		}
	}
}

func TestTools(t *testing.T) {
	s := inMemory(t)
	now := time.Now()
	call(s, "a", "read file", "fs:read", now)
	fail(s, "b", "open file", "fs:read", now)
	call(s, "b", "read file", "fs:read", now)
	call(s, "a", "send mail", "a:mail", now)
	last := time.UnixMilli(now.UnixMilli())
	want := []Entry{
		{"fs:read", 3, 1, []Query{{"", []string{"read", "file"}, 2, last}, {"", []string{"open", "file"}, -1, last}}},
		{"a:mail", 1, 0, []Query{{"", []string{"send", "mail"}, 1, last}}},
	}
	got := s.Tools()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	got[0].Queries[0].Words[0] = "changed"
	if again := s.Tools(); !reflect.DeepEqual(again, want) {
		t.Error("the store shares its words")
	}
	if err := s.Clear(); err != nil || len(s.Tools()) != 0 || len(s.Match([]string{"file"}, now)) != 0 {
		t.Errorf("left after Clear: %v, %v", s.Tools(), err)
	}
}

func TestClientsAreHashes(t *testing.T) {
	s := inMemory(t)
	other, _ := Open("", []string{"other"}, zap.NewNop())
	call(s, "alice@example.org", "send mail", "x:y", time.Now())
	data, _ := encode(head{version, 0}, s.memory.lines())
	if bytes.Contains(data, []byte("alice")) {
		t.Errorf("the client is named: %s", data)
	}
	if s.hash("a") == other.hash("a") || s.hash("a") == s.hash("b") {
		t.Error("hashes are the same")
	}
}

func TestConcurrent(t *testing.T) {
	s := inMemory(t)
	uses := randomUses(2000, 3)
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for j, u := range uses {
				if j%4 == i {
					s.Record(u)
				}
				if j%10 == i {
					s.Match(u.Words, u.At)
				}
				if j%500 == i {
					s.Tools()
				}
			}
		})
	}
	group.Wait()
	if len(s.memory.tools) == 0 {
		t.Error("nothing was learned")
	}
}

func TestNil(t *testing.T) {
	var s *Store
	call(s, "a", "send mail", "x:y", start)
	if s.Match([]string{"mail"}, start) != nil || s.Tools() != nil || s.Clear() != nil {
		t.Error("a nil store knows something")
	}
}

// full returns a store of 2,000 tools with five queries each, of words as
// frequent as words are (Zipf), and some of the queries.
func full(b *testing.B) (*Store, [][]string) {
	r := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(r, 1.2, 10, 5000)
	s := inMemory(b)
	var queries [][]string
	for i := range 10_000 {
		words := make(map[string]bool)
		for len(words) < 6 {
			words[fmt.Sprint("word", zipf.Uint64())] = true
		}
		query := slices.Sorted(maps.Keys(words))
		queries = append(queries, query)
		s.Record(Use{Client: fmt.Sprint(i % 7), Words: query, Tool: fmt.Sprint("server:tool", i%maxTools), At: start})
	}
	return s, queries
}

func BenchmarkMatch(b *testing.B) {
	s, queries := full(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		query := slices.Clone(queries[i*31%len(queries)])
		query[i%6] = "unseen"
		s.Match(query, start)
	}
}

func BenchmarkRecord(b *testing.B) {
	s, queries := full(b)
	record := func(i int, query []string) {
		at := start.Add(time.Duration(i) * time.Second)
		s.Record(Use{Client: fmt.Sprint(i % 7), Words: query, Tool: fmt.Sprint("server:tool", i%maxTools), At: at})
	}
	b.Run("known", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			record(i, queries[i%len(queries)])
		}
	})
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			query := slices.Clone(queries[i*31%len(queries)])
			query[i%6] = fmt.Sprint("new", i)
			record(i, query)
		}
	})
}

func BenchmarkSave(b *testing.B) {
	s, _ := full(b)
	b.ReportAllocs()
	for b.Loop() {
		data, err := encode(head{version, 0}, ranked(s.memory.lines(), start.UnixMilli()))
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(data)))
	}
}

// BenchmarkLines is how long a save keeps Record waiting.
func BenchmarkLines(b *testing.B) {
	s, _ := full(b)
	for b.Loop() {
		s.memory.lines()
	}
}
