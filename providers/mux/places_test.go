package mux

import (
	"context"
	"testing"

	"github.com/mcp-metarouter/metarouter/adapter/functions"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Providers stand in for each other, so a tool that several have is not ambiguous.
func TestEqualToolsOfProviders(t *testing.T) {
	type place struct {
		City string `json:"city"`
	}
	one, two := provider(t, "one", functions.Options{}), provider(t, "two", functions.Options{})
	for _, f := range []*functions.Provider{one, two} {
		expect.OK(t, functions.Add(f, functions.Function{Name: "get_weather", Description: "Say how the weather is in a city."}, func(context.Context, place) (string, error) { return f.Name(), nil }))
	}
	s, err := mux(t, one, two).Select(t.Context(), selector.Query{Task: "how is the weather in Oslo"})
	if err != nil || s.Tool == nil || len(s.Places) != 2 || s.Ambiguous {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err = mux(t, one, two).Select(t.Context(), selector.Query{Task: "how is the weather in Oslo, says two"}); err != nil || s.Tool == nil || s.Tool.Server != "two" {
		t.Errorf("%+v, %v", s, err)
	}
}
