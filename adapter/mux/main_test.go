package mux

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcp-metarouter/metarouter/adapter/functions"
	"github.com/mcp-metarouter/metarouter/test/expect"
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

// provider returns a provider of functions that is closed with the test.
func provider(t *testing.T, name string, o functions.Options) *functions.Provider {
	f := functions.New(name, o)
	t.Cleanup(func() {
		expect.OK(t, f.Close(), "Close")
	})
	return f
}
