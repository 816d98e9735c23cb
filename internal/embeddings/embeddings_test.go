package embeddings

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/vectors"
)

// An api is a model whose vectors are those of hashed words.
type api struct {
	mu     sync.Mutex
	asked  []string // texts
	answer string   // instead of vectors, if not empty
	most   int      // texts of a request, if not 0
	least  int      // bytes of a text that it refuses, if not 0
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var q struct {
		Model string
		Input []string
	}
	if json.NewDecoder(r.Body).Decode(&q) != nil || r.URL.Path != "/v1/embeddings" || q.Model == "" || len(q.Input) > maxBatch {
		http.Error(w, "bad", http.StatusBadRequest)
		return
	}
	tooLong := func(text string) bool { return a.least > 0 && len(text) >= a.least }
	if a.most > 0 && len(q.Input) > a.most || slices.ContainsFunc(q.Input, tooLong) {
		http.Error(w, "refused", http.StatusUnprocessableEntity)
		return
	}
	a.asked = append(a.asked, q.Input...)
	if a.answer != "" {
		fmt.Fprint(w, a.answer)
		return
	}
	type one struct {
		Index     int       `json:"index"`
		Embedding []float32 `json:"embedding"`
	}
	var data []one
	for i, text := range slices.Backward(q.Input) { // in any order
		v := make([]float32, 16)
		v[0] = 0.1
		for word := range strings.FieldsSeq(text) {
			h := fnv.New32()
			h.Write([]byte(word))
			v[h.Sum32()%16]++
		}
		data = append(data, one{i, v})
	}
	json.NewEncoder(w).Encode(map[string]any{"data": data})
}

// of returns the texts that it was asked for since the last time.
func (a *api) of() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := a.asked
	a.asked = nil
	return asked
}

func serve(t *testing.T, a *api, model string) *Client {
	t.Helper()
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	c, err := New(s.URL+"/v1", model, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestEmbed(t *testing.T) {
	c := serve(t, new(api), "m")
	got, err := c.Embed(t.Context(), []string{"read a file", "send mail", "read a file"})
	if err != nil || len(got) != 3 || !slices.Equal(got[0], got[2]) || slices.Equal(got[0], got[1]) {
		t.Fatalf("%v, %v", got, err)
	}
	if length := got[0].Dot(got[0]); math.Abs(float64(length)-1) > 1e-4 {
		t.Errorf("its length is %v", length)
	}
	if v, err := c.Task(t.Context(), []string{"read a file"}); err == nil && !slices.Equal(v[0], got[0]) { // it may be late
		t.Errorf("the task is %v", v)
	}
}

func TestEmbedRejects(t *testing.T) {
	for _, answer := range []string{
		`<html>`, `{}`, `{"data":[]}`, `{"data":[{"index":0,"embedding":[1]}]}`,
		`{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`, `{"data":[{"index":0,"embedding":[1]},{"index":2,"embedding":[1]}]}`,
		`{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]}`, `{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[]}]}`,
		`{"data":[{"index":0,"embedding":[0]},{"index":1,"embedding":[0]}]}`, `{"data":[{"index":0,"embedding":[1e99]},{"index":1,"embedding":[1]}]}`,
		`{"data":[{"index":-1,"embedding":[1]},{"index":1,"embedding":[1]}]}`, `{"data":[{"index":0,"embedding":"AAAA"},{"index":1,"embedding":[1]}]}`,
	} {
		if got, err := serve(t, &api{answer: answer}, "m").Embed(t.Context(), []string{"a", "b"}); err == nil {
			t.Errorf("%s: %v", answer, got)
		}
	}
}

func TestClip(t *testing.T) {
	for text, want := range map[string]string{"": "-", " \n": "-", "a": "a", strings.Repeat("é", maxText): strings.Repeat("é", maxText/2), "x" + strings.Repeat("é", maxText): "x" + strings.Repeat("é", maxText/2-1)} {
		if got := clip(text); got != want {
			t.Errorf("clip(%.10q) = %.10q", text, got)
		}
	}
}

func tools(n int) (all []Tool) {
	for i := range n {
		all = append(all, Tool{ID: fmt.Sprintf("s:t%d", i), Name: fmt.Sprintf("t%d", i), Description: fmt.Sprintf("does %d", i)})
	}
	return all
}

func has(s *Set, id string) bool {
	_, ok := s.Number(id)
	return ok
}

// A vector is made once, also across starts, and again by another model.
func TestStoreKeepsVectors(t *testing.T) {
	folder, a := t.TempDir(), new(api)
	c := serve(t, a, "m")
	set, err := Open(c, folder).Build(t.Context(), tools(200))
	if err != nil || !has(set, "s:t199") || has(set, "s:none") {
		t.Fatalf("%v, %v", set, err)
	}
	if n := len(a.of()); n != 200 {
		t.Errorf("%d texts were sent", n)
	}
	changed := tools(200)
	changed[1].Description = "does something else entirely"
	again, err := Open(c, folder).Build(t.Context(), changed)
	if sent := a.of(); err != nil || !slices.Equal(sent, []string{changed[1].text()}) {
		t.Errorf("%v; sent %q", err, sent)
	}
	task, err := c.Embed(t.Context(), []string{changed[0].text()})
	if err != nil {
		t.Fatal(err)
	}
	a.of()
	near := func(s *Set, id string) float32 {
		i, _ := s.Number(id)
		return s.Cosines(task)[0][i]
	}
	if near(again, "s:t7") != near(set, "s:t7") || near(again, "s:t1") == near(set, "s:t1") {
		t.Error("the vectors differ where the texts do not, or the other way round")
	}
	if _, err := Open(c, folder).Build(t.Context(), nil); err != nil { // before servers are listed
		t.Fatal(err)
	}
	if _, err := Open(c, folder).Build(t.Context(), changed); err != nil || len(a.of()) != 0 {
		t.Errorf("%v; vectors were made again", err)
	}
	if _, err := Open(serve(t, a, "other"), folder).Build(t.Context(), changed); err != nil || len(a.of()) != 200 {
		t.Errorf("%v; another model has made none", err)
	}
}

// An API that takes few texts at a time, or no long ones, makes vectors for the others.
func TestStoreAsksForLess(t *testing.T) {
	all := tools(70)
	all[3].Description = strings.Repeat("long ", 100)
	for _, a := range []*api{{most: 1}, {most: 10}, {least: 150}} {
		set, err := Open(serve(t, a, "m"), "").Build(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		for i, tool := range all {
			if found, want := has(set, tool.ID), a.least == 0 || i != 3; found != want {
				t.Errorf("%d texts, %d bytes: %s has a vector: %v", a.most, a.least, tool.ID, found)
			}
		}
	}
	a := &api{least: 1}
	if set, err := Open(serve(t, a, "m"), "").Build(t.Context(), all); err == nil {
		t.Errorf("an API that refuses everything has made %v", set)
	}
}

// Vectors that can't be saved are used.
func TestStoreWithoutFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a := new(api)
	s := Open(serve(t, a, "m"), filepath.Join(file, "folder"))
	set, err := s.Build(t.Context(), tools(3))
	if err == nil || set == nil || !has(set, "s:t2") {
		t.Fatalf("%v, %v", set, err)
	}
	a.of()
	if set, err := s.Build(t.Context(), tools(3)); err != nil || !has(set, "s:t2") || len(a.of()) != 0 {
		t.Errorf("%v, %v; they are made again", set, err)
	}
}

// After a task that got no vector in time, the model can be asked once more.
func TestLate(t *testing.T) {
	a := &api{answer: "{}"}
	c := serve(t, a, "m")
	for range 2 {
		if v, err := c.Task(t.Context(), []string{"read a file"}); err == nil {
			t.Errorf("the vector is %v", v)
		}
	}
	a.of()
	<-c.Late
	select {
	case <-c.Late:
		t.Error("it is late twice")
	default:
	}
	a.answer = ""
	if err := Open(c, "").Wake(t.Context()); err != nil || len(a.of()) != 1 {
		t.Error(err)
	}
}

func TestStoreSurvivesDamage(t *testing.T) {
	folder, a := t.TempDir(), new(api)
	c := serve(t, a, "m")
	if _, err := Open(c, folder).Build(t.Context(), tools(3)); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(folder, "*.bin"))
	data, err := os.ReadFile(files[0])
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.WriteFile(files[0], data[:len(data)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	a.of()
	if set, err := Open(c, folder).Build(t.Context(), tools(3)); err != nil || !has(set, "s:t2") || len(a.of()) != 3 {
		t.Errorf("%v, %v", set, err)
	}
}

// What was made before a failure is kept.
func TestStoreKeepsWhatWasMade(t *testing.T) {
	folder, a := t.TempDir(), new(api)
	c := serve(t, a, "m")
	s := Open(c, folder)
	if err := errors.Join(s.Fill(t.Context(), []string{"a", "b"}), s.save()); err != nil {
		t.Fatal(err)
	}
	a.answer = "{}"
	if set, err := s.Build(t.Context(), tools(3)); err == nil {
		t.Errorf("%v", set)
	}
	a.of()
	a.answer = ""
	if err := Open(c, folder).Fill(t.Context(), []string{"a", "b", "c"}); err != nil || !slices.Equal(a.of(), []string{"c"}) {
		t.Errorf("%v; more was sent than was missing", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(map[key]vectors.Vector{{1}: {0.6, 0.8}, {2}: {1, 0}}))
	f.Add([]byte(magic + "\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, ok := decode(data)
		if !ok {
			return
		}
		if again, ok := decode(encode(all)); !ok || len(again) != len(all) {
			t.Errorf("%d vectors are %d after encoding, %v", len(all), len(again), ok)
		}
	})
}

// A task vector of another length says nothing: the model was exchanged under the same name.
func TestOtherLength(t *testing.T) {
	set, err := Open(serve(t, new(api), "m"), "").Build(t.Context(), tools(3))
	if err != nil {
		t.Fatal(err)
	}
	if got := set.Cosines([]vectors.Vector{make(vectors.Vector, 7)}); got != nil {
		t.Errorf("cosines %v", got)
	}
}
