package endpoint

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/encoder"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// An api serves a model with vectors of hashed words.
type api struct {
	mu     sync.Mutex
	sent   int    // requests
	answer string // instead of vectors, if not empty
	most   int    // texts of a request, if not 0
	least  int    // bytes of a text that it refuses, if not 0
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent++
	var q struct {
		Model string
		Input []string
	}
	if json.NewDecoder(r.Body).Decode(&q) != nil || r.URL.Path != "/v1/embeddings" || q.Model == "" || len(q.Input) > 32 {
		http.Error(w, "bad", http.StatusBadRequest)
		return
	}
	tooLong := func(text string) bool { return a.least > 0 && len(text) >= a.least }
	if a.most > 0 && len(q.Input) > a.most || slices.ContainsFunc(q.Input, tooLong) {
		http.Error(w, "refused", http.StatusUnprocessableEntity)
		return
	}
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

func serve(t *testing.T, a *api) *Client {
	t.Helper()
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	c, err := New(s.URL+"/v1", "m", nil)
	expect.OK(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestEmbed(t *testing.T) {
	c := serve(t, new(api))
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
		if got, err := serve(t, &api{answer: answer}).Embed(t.Context(), []string{"a", "b"}); err == nil {
			t.Errorf("%s: %v", answer, got)
		}
	}
}

func TestClip(t *testing.T) {
	for text, want := range map[string]string{"": "-", " \n": "-", "a": "a", strings.Repeat("é", maxText): strings.Repeat("é", maxText/2), "x" + strings.Repeat("é", maxText): "x" + strings.Repeat("é", maxText/2-1)} {
		expect.Equal(t, clip(text), want, "clip(%q)", text)
	}
}

// An API that takes few texts at a time, or no long ones, makes vectors of the others. The next texts
// are sent as few at a time as it takes.
func TestEmbedAsksForLess(t *testing.T) {
	var texts []string
	for i := range 30 {
		texts = append(texts, fmt.Sprint("does ", i))
	}
	texts[3] = strings.Repeat("long ", 30)
	for _, a := range []*api{{most: 1}, {most: 10}, {least: 150}} {
		c := serve(t, a)
		all, err := c.Embed(t.Context(), texts)
		if err != nil || len(all) != len(texts) {
			t.Fatalf("%d vectors, %v", len(all), err)
		}
		for i, v := range all {
			if want := a.least == 0 || i != 3; (v != nil) != want {
				t.Errorf("%d texts, %d bytes: text %d has the vector %v", a.most, a.least, i, v)
			}
		}
		a.sent = 0
		if _, err := c.Embed(t.Context(), texts[10:19]); err != nil || a.sent > 1 && a.most == 0 || a.sent > 9 {
			t.Errorf("%d texts, %d bytes: %d requests, %v", a.most, a.least, a.sent, err)
		}
	}
	if all, err := serve(t, &api{least: 1}).Embed(t.Context(), texts); err == nil {
		t.Errorf("an API that refuses everything has made %v", all)
	}
}

// A task of nine texts has vectors also by an API that takes fewer at a time, at the first attempt.
func TestTaskAsksForLess(t *testing.T) {
	texts := strings.Fields("one two three four five six seven eight nine")
	for most := 1; most <= 9; most++ {
		a := &api{most: most}
		c := serve(t, a)
		all, err := c.Task(t.Context(), texts)
		if err != nil || len(all) != len(texts) || slices.ContainsFunc(all, func(v encoder.Vector) bool { return v == nil }) {
			t.Errorf("%d texts at a time: %v, %v", most, all, err)
		}
	}
	if all, err := serve(t, &api{least: 5}).Task(t.Context(), texts); err == nil {
		t.Errorf("a text that is refused has made %v", all)
	}
}

// After a task without vectors in time, the model can be asked again.
func TestLate(t *testing.T) {
	c := serve(t, &api{answer: "{}"})
	for range 2 {
		if v, err := c.Task(t.Context(), []string{"read a file"}); err == nil {
			t.Errorf("the vector is %v", v)
		}
	}
	<-c.Late
	select {
	case <-c.Late:
		t.Error("it is late twice")
	default:
	}
}
