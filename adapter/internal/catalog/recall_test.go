package catalog

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/discovery"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// BenchmarkRecall recalls the stored tools of two hundred servers.
func BenchmarkRecall(b *testing.B) {
	const servers, tools = 200, 10
	c := config.Config{Files: []string{"mcp.json"}}
	data := b.TempDir()
	for i := range servers {
		name := fmt.Sprintf("s%03d", i)
		c.Servers = append(c.Servers, config.Server{Name: name, Transport: config.Stdio, Command: name, Args: []string{"--flag", name}})
	}
	w := opened(data, c)
	for _, entry := range c.Servers {
		var offer registry.Offer
		for i := range tools {
			raw := fmt.Sprintf(`{"name":"search_orders_%d","description":"Searches the orders of a shop by the customer's name, and returns those of the last days. Orders that were cancelled are left out.","inputSchema":{"type":"object","properties":{"customer":{"type":"string","description":"The name of the customer, or a part of it."},"days":{"type":"integer","minimum":1,"description":"How many days to look back."},"status":{"type":"string","enum":["open","sent","paid"]}},"required":["customer"]},"annotations":{"readOnlyHint":true}}`, i)
			t, err := discovery.Normalize(entry.Name, json.RawMessage(raw), nil)
			expect.OK(b, err)
			offer.Tools = append(offer.Tools, t)
		}
		expect.OK(b, w.adopt(b.Context(), entry, offer, w.tagger))
	}
	w.Saves.Rest()
	for b.Loop() {
		if n := len(opened(data, c).registry.Snapshot().Tools()); n != servers*tools {
			b.Fatalf("%d tools are known", n)
		}
	}
}
