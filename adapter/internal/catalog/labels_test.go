package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/classify"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/registry"
)

// outside returns the configuration of an outside classifier.
func outside() *config.Classification {
	c := config.DefaultClassification()
	c.Outside = &config.Outside{
		Server: "oracle", ClassifyTool: "classify_text", ListTool: "list_categories",
		Timeout: 20 * time.Second, CacheCategories: true, RefreshInterval: time.Second,
	}
	return c
}

// An outside server that changes its list is asked about each tool again, but not faster
// than once per askAgain. Until it has answered, its old tags remain.
func TestAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		texts := make([]string, 40)
		for i := range texts {
			texts[i] = fmt.Sprintf("bird %d", i)
		}
		o := &inProcessOracle{list: `["music", "other"]`}
		classifier := classify.New(outside(), nil, o, "", zap.NewNop())
		l := newLabels(classifier)
		var running sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		defer running.Wait()
		defer cancel()
		running.Go(func() { classifier.Run(ctx, false) })
		running.Go(func() { l.run(ctx, func() []string { return texts }, func() {}) })
		musical := func() (n int) {
			l.mu.Lock()
			defer l.mu.Unlock()
			for _, text := range texts {
				if l.known[text].tag == "music" {
					n++
				}
			}
			return n
		}
		time.Sleep(500 * time.Millisecond)
		if n := musical(); n != len(texts) {
			t.Fatalf("%d of %d texts have the tag at first", n, len(texts))
		}
		o.change(`["other", "music"]`)
		asked := o.asked()
		for len(asked()) == 0 {
			time.Sleep(time.Millisecond)
		}
		if n := musical(); n < len(texts)-1 {
			t.Errorf("%d of %d texts have the tag while the server is asked again", n, len(texts))
		}
		time.Sleep(time.Duration(len(texts)) * askAgain)
		times := asked()
		if len(times) != len(texts) {
			t.Errorf("asked about %d texts again, want %d", len(times), len(texts))
		}
		for i := 1; i < len(times); i++ {
			if pause := times[i].Sub(times[i-1]); pause < askAgain {
				t.Errorf("asked again after %v, want at least %v", pause, askAgain)
			}
		}
	})
}

// inProcessOracle is an outside classification server without a process: every text
// belongs to the first category of its list.
type inProcessOracle struct {
	mu    sync.Mutex // guards the fields below
	list  string
	times []time.Time // of the questions about birds
}

func (o *inProcessOracle) Session(context.Context, string, session.Client) (session.Session, error) {
	return oracleSession{inProcessOracle: o}, nil
}

// oracleSession is the session with an inProcessOracle; the router only calls its tools.
type oracleSession struct {
	session.Session
	*inProcessOracle
}

func (o oracleSession) Call(_ context.Context, r session.Request) (json.RawMessage, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := `{"categories": ` + o.list + `}`
	if strings.Contains(string(r.Params), "classify_text") {
		if strings.Contains(string(r.Params), "bird") { // else it is a probe
			o.times = append(o.times, time.Now())
		}
		text = `{"class": 0, "confidence": 0.9}`
	}
	return json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}})
}

func (o *inProcessOracle) change(list string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = list
}

// asked returns a function that returns the times of the questions from now on.
func (o *inProcessOracle) asked() func() []time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := len(o.times)
	return func() []time.Time {
		o.mu.Lock()
		defer o.mu.Unlock()
		return slices.Clone(o.times[before:])
	}
}

// Labels of tools that are gone are forgotten.
func TestLabelsAreForgotten(t *testing.T) {
	k := classify.New(outside(), nil, nil, "", zap.NewNop())
	l := newLabels(k)
	for i := range 10 {
		l.guess(t.Context(), []string{fmt.Sprint("text ", i), "text"})
	}
	if len(l.known) != 2 {
		t.Errorf("%d labels", len(l.known))
	}
}

// A router that ends while the built-in classifier is trained does not take the tags away.
func TestLabelsAtTheEnd(t *testing.T) {
	l := newLabels(classify.New(outside(), []config.Category{{Name: "music"}}, nil, "", zap.NewNop()))
	if l.guess(&endsSoon{Context: t.Context()}, []string{"text"}) {
		t.Error("there are new tags")
	}
}

// endsSoon ends after it was asked once.
type endsSoon struct {
	context.Context
	asked atomic.Int64
}

func (c *endsSoon) Err() error {
	if c.asked.Add(1) > 1 {
		return context.Canceled
	}
	return nil
}

// Publishing tools does not wait for their classification.
func TestLabelsComeLater(t *testing.T) {
	c := outside()
	c.Threshold = 0
	k := classify.New(c, []config.Category{{Name: "bird"}}, nil, "", zap.NewNop())
	w := opened("", config.Config{})
	w.Label(k)
	tool := registry.NormalizedTool{ID: "s:a", Server: "s", Name: "a", Description: "a bird"}
	if _, err := w.publish("s", registry.Offer{Tools: []registry.NormalizedTool{tool}}); err != nil {
		t.Fatal(err)
	}
	if len(w.registry.Snapshot().FindByCapability("bird")) != 0 {
		t.Error("publish classified it")
	}
	w.GuessLabels(t.Context())
	if len(w.registry.Snapshot().FindByCapability("bird")) != 1 {
		t.Error("it was not classified")
	}
}
