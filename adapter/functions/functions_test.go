package functions

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/inprocess"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/blevesearch/bleve_index_api.AnalysisWorker"))
}

type sum struct {
	A    int    `json:"a" jsonschema:"the first number"`
	B    int    `json:"b"`
	Note string `json:"note,omitempty"`
}

// total is the result of the functions of TestFunctions.
type total struct {
	Sum int `json:"sum"`
}

func add(_ context.Context, in sum) (total, error) { return total{in.A + in.B}, nil }

// provider returns a provider that is closed with the test.
func provider(t *testing.T, name string, o Options) *Provider {
	f := New(name, o)
	t.Cleanup(func() {
		expect.OK(t, f.Close(), "Close")
	})
	return f
}

func TestFunctions(t *testing.T) {
	f := provider(t, "own", Options{Version: "7"})
	expect.OK(t, Add(f, Function{Name: "add", Description: "Add two numbers.", Capabilities: []string{"Sums"}, Hints: registry.Hints{ReadOnly: new(true)}}, add))
	expect.OK(t, Add(f, Function{Name: "greet", Description: "Greet somebody."}, func(_ context.Context, in struct {
		Name string `json:"name"`
	}) (string, error) {
		return "Hello, <" + in.Name + ">", nil
	}))
	expect.OK(t, Add(f, Function{Name: "list"}, func(context.Context, *struct{}) ([]int, error) { return []int{1, 2}, nil }))
	expect.OK(t, Add(f, Function{Name: "fail"}, func(context.Context, struct{}) (any, error) { return nil, errors.New("no luck today") }))
	expect.OK(t, Add(f, Function{Name: "panic"}, func(context.Context, map[string]any) (any, error) { panic("oh no") }))
	expect.OK(t, Add(f, Function{Name: "exit"}, func(context.Context, struct{}) (any, error) { runtime.Goexit(); return nil, nil }))
	expect.OK(t, Add(f, Function{Name: "odd"}, func(context.Context, struct{}) (any, error) { return func() {}, nil }))
	for _, tc := range []struct {
		tool, args       string
		text, structured string
		failed           bool
	}{
		{"own:add", `{"a":1,"b":2}`, `{"sum":3}`, `{"sum":3}`, false},
		{"own:add", `{"a":1}`, "missing property 'b'", "", true},
		{"own:add", `{"a":1,"b":2,"c":3}`, "additional properties 'c' not allowed", "", true},
		{"own:add", `{"a":"x","b":2}`, "arguments.a: got string, want integer", "", true},
		{"own:add", `{"a":1.0,"b":2}`, "The arguments do not fit add", "", true},
		{"own:greet", `{"name":"you"}`, "Hello, <you>", `{"result":"Hello, \u003cyou\u003e"}`, false},
		{"own:list", `null`, "[1,2]", `{"result":[1,2]}`, false},
		{"own:fail", `null`, "no luck today", "", true},
		{"own:panic", `{"x":[0` + strings.Repeat(",0", 200_000) + `]}`, "it is not known whether they fit", "", true},
		{"own:panic", `{"x":1}`, "panic panicked: oh no", "", true},
		{"own:exit", `null`, "the tool ended without a result", "", true},
		{"own:odd", `null`, "can't be encoded", "", true},
	} {
		r, err := adapter.Execute(t.Context(), f, tc.tool, json.RawMessage(tc.args))
		if err != nil || r.IsError != tc.failed || !strings.Contains(r.Text(), tc.text) || string(r.Structured()) != tc.structured {
			t.Errorf("%s(%.100s) = %s, %v", tc.tool, tc.args, r.JSON, err)
		}
		for key, want := range map[string]string{"tool_version": `"7"`, "server": `"own"`, "attempts": "", "trace_id": "", "timestamp": "", "latency_ms": ""} {
			if got := string(wire.Member(r.Meta(), key)); got == "" || want != "" && got != want && !strings.Contains(tc.text, " ") {
				t.Errorf("%s: _meta.%s = %s", tc.tool, key, got)
			}
		}
	}
	tool, _ := adapter.Tool(f, "own:add")
	expect.Equal(t, strings.Join(tool.Capabilities, " "), "sums", "capabilities of add")
	expect.Contains(t, string(tool.InputSchema), `"description":"the first number"`, "schema")
	if found := f.FindByCapability("sums"); len(found) != 1 || found[0] != tool {
		t.Errorf("found %v", found)
	}
	s, err := f.Select(t.Context(), selector.Query{Task: "add two numbers"})
	if err != nil || s.Tool != tool {
		t.Errorf("selected %+v, %v", s, err)
	}
	if why := adapter.Why(t.Context(), f, selector.Query{Task: "add two numbers", Capabilities: []string{"sums"}}, s); !strings.Contains(why, "own:add, confidence 0.") || !strings.Contains(why, `its name has "add"`) || !strings.Contains(why, "its capabilities have sums") {
		t.Errorf("why: %s", why)
	}
	if _, err := adapter.Execute(t.Context(), f, "own:nothing", nil); !errors.Is(err, session.ErrNotSent) {
		t.Errorf("an unknown tool: %v", err)
	}
	if _, err := f.Execute(t.Context(), selector.Call{}); !errors.Is(err, session.ErrNotSent) {
		t.Errorf("no tool: %v", err)
	}
}

func TestFunctionsThatCantBe(t *testing.T) {
	f := provider(t, "own", Options{})
	for name, err := range map[string]error{
		"no name":     Add(f, Function{}, add),
		"a number":    Add(f, Function{Name: "a"}, func(context.Context, int) (int, error) { return 0, nil }),
		"anything":    Add(f, Function{Name: "b"}, func(context.Context, any) (int, error) { return 0, nil }),
		"a channel":   Add(f, Function{Name: "c"}, func(context.Context, struct{ C chan int }) (int, error) { return 0, nil }),
		"a recursion": Add(f, Function{Name: "d"}, func(context.Context, chain) (int, error) { return 0, nil }),
	} {
		if err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	expect.Equal(t, len(f.Tools()), 0, "tools")
}

type chain struct{ Next *chain }

// Functions come and go, and each time there is a signal.
func TestFunctionsChange(t *testing.T) {
	f := provider(t, "own", Options{})
	changed := f.Changed()
	expect.OK(t, Add(f, Function{Name: "add"}, add))
	<-changed
	changed = f.Changed()
	expect.OK(t, Add(f, Function{Name: "add", Description: "Another one."}, add))
	<-changed
	if tools := f.Tools(); len(tools) != 1 || tools[0].Description != "Another one." {
		t.Errorf("%v", tools)
	}
	stale := f.Tools()[0]
	changed = f.Changed()
	if !f.Remove("add") || f.Remove("add") || len(f.Tools()) != 0 {
		t.Error("not removed, or twice")
	}
	<-changed
	if r, err := f.Execute(t.Context(), selector.Call{Tool: stale, Arguments: json.RawMessage(`{"a":1,"b":1}`)}); err != nil || !errors.Is(r.Err, session.ErrNotSent) {
		t.Errorf("a removed function: %s, %v", r.JSON, err)
	}
}

// A call ends with its time, its caller or its provider, even if the function does
// not; Close waits for that.
func TestFunctionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New("own", Options{Timeout: time.Minute})
		release, returned := make(chan struct{}), 0
		stubborn := func(context.Context, struct{}) (string, error) { <-release; returned++; return "late", nil }
		obedient := func(ctx context.Context, _ struct{}) (string, error) { <-ctx.Done(); return "", ctx.Err() }
		expect.OK(t, Add(f, Function{Name: "stubborn"}, stubborn))
		expect.OK(t, Add(f, Function{Name: "obedient", Timeout: time.Second}, obedient))
		expect.OK(t, Add(f, Function{Name: "endless", Timeout: -1}, obedient))

		began := time.Now()
		r, err := adapter.Execute(t.Context(), f, "own:stubborn", nil)
		if err != nil || r.Err == nil || !strings.Contains(r.Text(), "stubborn did not answer within 1m0s") || time.Since(began) != time.Minute {
			t.Errorf("%s, %v after %s", r.JSON, err, time.Since(began))
		}
		r, err = adapter.Execute(t.Context(), f, "own:obedient", nil)
		if err != nil || r.Text() != "obedient did not answer within 1s" {
			t.Errorf("%s, %v", r.JSON, err)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, errors.New("the caller has gone"))
		defer cancel()
		if _, err = adapter.Execute(ctx, f, "own:endless", nil); err == nil || err.Error() != "the caller has gone" {
			t.Errorf("%v", err)
		}

		under := make(chan selector.Result)
		go func() {
			r, _ := adapter.Execute(context.Background(), f, "own:endless", nil)
			under <- r
		}()
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- f.Close() }()
		if r := <-under; r.Err != inprocess.ErrEnded {
			t.Errorf("a call under way at Close: %s", r.JSON)
		}
		synctest.Wait()
		select {
		case <-closed:
			t.Error("closed before a function returned")
		default:
		}
		close(release)
		if err := <-closed; err != nil || returned != 1 {
			t.Errorf("Close: %v, %d returned", err, returned)
		}
		if r, err := adapter.Execute(t.Context(), f, "own:endless", nil); err != nil || !errors.Is(r.Err, session.ErrNotSent) {
			t.Errorf("after Close: %s, %v", r.JSON, err)
		}
		expect.OK(t, f.Close(), "Close again")
		if Add(f, Function{Name: "more"}, add) == nil || f.Health(t.Context()).State != adapter.Down {
			t.Error("a closed provider takes functions, or is up")
		}
	})
}

func TestFunctionsHints(t *testing.T) {
	f := provider(t, "own", Options{})
	expect.OK(t, Add(f, Function{Name: "delete_all", Description: "Delete everything.", Hints: registry.Hints{Destructive: new(true)}}, add))
	tool := f.Tools()[0]
	if !tool.Hints.IsDestructive() || !strings.Contains(string(tool.Definition), `"annotations":{"destructiveHint":true}`) || !strings.Contains(string(tool.Definition), `"outputSchema"`) {
		t.Errorf("%s", tool.Definition)
	}
	expect.Equal(t, strings.Join(tool.Capabilities, " "), "delete", "capabilities")
}

// A tool that the caller holds may be older, or made up: arguments are checked against the
// schema of the function that is called.
func TestFunctionsStale(t *testing.T) {
	f := provider(t, "own", Options{})
	expect.OK(t, Add(f, Function{Name: "add"}, func(context.Context, struct{}) (string, error) { return "nothing to add", nil }))
	stale := f.Tools()[0]
	expect.OK(t, Add(f, Function{Name: "add"}, add))
	for _, tool := range []*registry.NormalizedTool{stale, {ID: "own:add", Server: "own", Name: "add"}} {
		if r, err := f.Execute(t.Context(), selector.Call{Tool: tool}); err != nil || len(r.Mismatch) == 0 {
			t.Errorf("%s, %v", r.JSON, err)
		}
	}
}

func TestFunctionsBelowZero(t *testing.T) {
	f := provider(t, "own", Options{MaxConcurrent: -1})
	expect.OK(t, Add(f, Function{Name: "add"}, add))
	if r, err := adapter.Execute(t.Context(), f, "own:add", sum{A: 1, B: 2}); err != nil || r.Text() != `{"sum":3}` {
		t.Errorf("%s, %v", r.JSON, err)
	}
	if err := Add[sum, total](f, Function{Name: "nothing"}, nil); err == nil {
		t.Error("no function at all is taken")
	}
}
