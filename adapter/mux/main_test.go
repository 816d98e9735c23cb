package mux

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-metarouter/metarouter/adapter/functions"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

func TestMain(m *testing.M) {
	mcptest.ServeIfAsked()
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/blevesearch/bleve_index_api.AnalysisWorker"))
}

type sum struct {
	A    int    `json:"a" jsonschema:"the first number"`
	B    int    `json:"b"`
	Note string `json:"note,omitempty"`
}

type total struct {
	Sum int `json:"sum"`
}

func add(_ context.Context, in sum) (total, error) { return total{in.A + in.B}, nil }

// must fails the test unless err is nil.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// provider returns a provider of functions that is closed with the test.
func provider(t *testing.T, name string, o functions.Options) *functions.Provider {
	f := functions.New(name, o)
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return f
}

// fake returns the configuration of a fake MCP server.
func fake(name string, flags ...string) config.Server {
	command, args := mcptest.Command(flags...)
	return config.Server{Name: name, Transport: config.Stdio, Command: command, Args: args, StartTimeout: 30 * time.Second}
}

// featureOf returns the value of a feature by its name.
func featureOf(t *testing.T, e interface {
	Explain(context.Context, string, []selector.Candidate) ([]selector.Explanation, error)
}, task string, c selector.Candidate, feature string) float64 {
	t.Helper()
	all, err := e.Explain(t.Context(), task, []selector.Candidate{c})
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, f := range all[0].Features {
		if f.Name == feature {
			return f.Value
		}
	}
	t.Fatalf("there is no feature %q", feature)
	return 0
}
