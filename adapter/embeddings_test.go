package adapter

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/embeddings"
	"github.com/mcp-metarouter/metarouter/internal/encoder"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// embeds serves a model that gives each text a vector, and counts the texts besides the word that wakes it.
func embeds(t *testing.T, texts, wakes *atomic.Int32) config.Endpoint {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Input []string }
		json.NewDecoder(r.Body).Decode(&q)
		if q.Input[0] == "tool" {
			wakes.Add(1)
		} else {
			texts.Add(int32(len(q.Input)))
		}
		if q.Input[0] == "fail" {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		var data []map[string]any
		for i, text := range q.Input {
			data = append(data, map[string]any{"index": i, "embedding": []int{1, len(text)}})
		}
		json.NewEncoder(w).Encode(map[string]any{"data": data})
	}))
	t.Cleanup(s.Close)
	return config.Endpoint{URL: s.URL, Model: "m"}
}

// The vectors of all tools are made in the background by the model of the configuration in use, and
// are kept for the next start.
func TestMeaningsFollowConfiguration(t *testing.T) {
	r := registry.New()
	if _, err := r.Replace("s", registry.Offer{Tools: []registry.NormalizedTool{
		{ID: "s:a", Server: "s", Name: "a", Description: "does a"}, {ID: "s:b", Server: "s", Name: "b", Description: "does b"},
	}}); err != nil {
		t.Fatal(err)
	}
	o := Options{DataDir: t.TempDir(), Log: zap.NewNop()}
	current := newHolder(config.Config{})
	use := func(e *config.Endpoint) { current.edit(config.Config{Router: config.Router{Embeddings: e}}) }
	start := func() (m *meanings, stop func()) {
		m = newMeanings(r, o)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.run(ctx, current) }()
		return m, func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if m.now.Load() != nil {
				t.Error("there are vectors after the end")
			}
		}
	}
	until := func(what string, is func() bool) {
		t.Helper()
		for ctx := t.Context(); !is(); {
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
				t.Fatal(what)
			}
		}
	}
	made := func(m *meanings) func() bool {
		return func() bool {
			return has(m, "s:b")
		}
	}

	builtin := func(m *meanings) func() bool {
		return func() bool { return made(m)() && embeddings.IsBuiltin(m.now.Load().Model) }
	}

	m, stop := start()
	if m.now.Load() != nil {
		t.Error("there are vectors before the first search")
	}
	m.Task(t.Context(), []string{"x"})
	until("the first search has the model in the program make no vectors", builtin(m))
	until("the model in the program has vectors of two texts", func() bool { // in the time that a search has for it
		v, set := m.Task(t.Context(), []string{"x", "y"})
		return len(v) == 2 && set != nil
	})
	var first, second, wakes, others atomic.Int32
	e := embeds(t, &first, &wakes)
	use(&e)
	until("no vectors are made", func() bool { return made(m)() && !builtin(m)() })
	expect.Equal(t, first.Load(), 2, "texts were sent")
	other := embeds(t, &second, &others)
	other.Model = "other"
	use(&other)
	until("the other model makes no vectors", func() bool { return second.Load() == 2 && made(m)() })
	use(nil)
	until("the vectors stay without the model", builtin(m))
	stop()

	use(&e)
	m, stop = start()
	until("the stored vectors are not used", made(m))
	expect.Equal(t, first.Load(), 2, "texts were sent in all")
	_, err := r.Replace("s", registry.Offer{Tools: []registry.NormalizedTool{{ID: "s:c", Server: "s", Name: "c", Description: "does c"}}})
	expect.OK(t, err)
	withNew := func() bool { return has(m, "s:c") }
	until("a new tool gets no vector", withNew)
	before := wakes.Load()
	if v, _ := m.Task(t.Context(), []string{"fail"}); v != nil {
		t.Errorf("a failure is %v", v)
	}
	until("the model is not asked again after a search without it", func() bool { return wakes.Load() > before })
	stop()

	o.DataDir = filepath.Join(t.TempDir(), "file")
	expect.OK(t, os.WriteFile(o.DataDir, nil, 0o600))
	m, stop = start()
	until("vectors that can't be saved are not used", withNew)
	stop()
}

// The first search waits for the vectors, but not for long, and no other search does.
func TestFirstSearchWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeanings(registry.New(), Options{Log: zap.NewNop()})
		began := time.Now()
		m.Task(t.Context(), []string{"x"})
		first := time.Since(began)
		m.Task(t.Context(), []string{"x"})
		if all := time.Since(began); first != firstWait || all != first {
			t.Errorf("the first search has waited for %v, both for %v", first, all)
		}
		m = newMeanings(registry.New(), Options{Log: zap.NewNop()})
		began = time.Now()
		go func() {
			<-m.begun.Done()
			m.settle()
		}()
		if m.Task(t.Context(), []string{"x"}); time.Since(began) != 0 {
			t.Errorf("with vectors it has waited for %v", time.Since(began))
		}
	})
}

// has reports whether the tool has a vector.
func has(m *meanings, id string) bool {
	now := m.now.Load()
	if now == nil {
		return false
	}
	_, ok := now.Number(id)
	return ok
}

// A search does not wait longer for a model than [embeddings.TaskTime], and goes on by words.
func TestSlowModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeanings(registry.New(), Options{Log: zap.NewNop()})
		m.settle()
		m.now.Store(&embeddings.Set{Model: slowModel{embeddings.Builtin()}})
		began := time.Now()
		if all, set := m.Task(t.Context(), []string{"read a file"}); all != nil || set != nil || time.Since(began) != embeddings.TaskTime {
			t.Errorf("%v, %v after %s", all, set, time.Since(began))
		}
	})
}

// A slowModel takes until ctx ends.
type slowModel struct{ embeddings.Model }

func (slowModel) Task(ctx context.Context, _ []string) ([]encoder.Vector, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
