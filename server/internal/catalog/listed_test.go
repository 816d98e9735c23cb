package catalog

import (
	"context"
	"fmt"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// source is a catalog's source without servers that could be awaited.
type source struct{ *registry.Registry }

func (source) Servers() []status.Server            { return nil }
func (source) Await(context.Context, string) error { return nil }
func (source) Settled(context.Context) error       { return nil }

func manyTools(server string, n int) registry.Offer {
	var o registry.Offer
	for i := range n {
		o.Tools = append(o.Tools, tool(server, fmt.Sprintf("tool_%d", i)))
	}
	return o
}

// TestListedDoesNotWait checks that a call of a tool does not wait while a view of another server's
// tools is made.
func TestListedDoesNotWait(t *testing.T) {
	r := registry.New()
	options := &Options{}
	c := New(source{r}, func() *Options { return options })
	replace := func(server string, o registry.Offer) {
		t.Helper()
		_, err := r.Replace(server, o)
		expect.OK(t, err)
	}
	replace("honest", manyTools("honest", 1))
	first := c.View()

	replace("big", manyTools("big", 50_000))
	c.building.Lock() // as while the view is made
	for _, name := range []string{"honest__tool_0", "honest:tool_0", "tool_0"} {
		if found, ok := c.Listed(name); !ok || found.Server != "honest" {
			t.Errorf("%s: %v, %v", name, found, ok)
		}
	}
	c.building.Unlock()
	if c.View() == first {
		t.Error("there is no view of the latest catalog")
	}
	if found, ok := c.Listed("big__tool_49999"); !ok || found.Server != "big" {
		t.Errorf("%v, %v", found, ok)
	}

	// A tool that changed, or went, is looked up in the latest catalog.
	changed := manyTools("honest", 1)
	changed.Tools[0].Description = "changed"
	replace("honest", changed)
	if found, ok := c.Listed("honest__tool_0"); !ok || found.Description != "changed" {
		t.Errorf("%v, %v", found, ok)
	}
	replace("honest", manyTools("honest", 0))
	if found, ok := c.Listed("honest__tool_0"); ok {
		t.Errorf("found %v, which went", found)
	}
}

func BenchmarkView(b *testing.B) {
	r := registry.New()
	_, err := r.Replace("big", manyTools("big", 50_000))
	expect.OK(b, err)
	b.ReportAllocs()
	for b.Loop() {
		NewView(r.Snapshot(), &Options{Search: true})
	}
}
