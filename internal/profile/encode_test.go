package profile

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Rules that another node has read allow the same there as here.
func TestEncode(t *testing.T) {
	all := map[string]config.Profile{
		"none":   {Servers: []string{}},
		"gpu":    {Servers: []string{"gpu@*"}},
		"safe":   {Deny: []string{"delete_*"}},
		"reader": {ReadOnly: true},
		"one":    {Allow: []string{"gpu@box:run"}},
		"bad":    {Deny: []string{"["}},
		"asks":   {Ask: "always", Arguments: map[string]map[string]json.RawMessage{"*": {"a": json.RawMessage("1")}}},
	}
	yes := true
	var tools []*registry.NormalizedTool
	for _, server := range []string{"gpu@box", "other@box"} {
		for _, name := range []string{"run", "delete_all"} {
			tools = append(tools,
				&registry.NormalizedTool{ID: registry.ID(server, name), Server: server, Name: name},
				&registry.NormalizedTool{ID: registry.ID(server, name), Server: server, Name: name, Hints: registry.Hints{ReadOnly: &yes}})
		}
	}
	for _, chosen := range []string{"none", "gpu", "safe", "reader", "one", "bad", "asks", "missing", "@read", "gpu|one", "gpu safe", "gpu none", "none|safe", "|"} {
		names := strings.Fields(chosen)
		text := Encode(all, names...)
		here := Of(all, names...)
		there, err := Decode(text)
		if err != nil {
			t.Errorf("%q: %v", chosen, err)
			continue
		}
		for _, tool := range tools {
			expect.Equal(t, there.Tool(tool), here.Tool(tool), "%q: %s allows %s", chosen, text, tool.ID)
			if got, want := there.URI(tool.Server, "file:///"+tool.Name), here.URI(tool.Server, "file:///"+tool.Name); got != want {
				t.Errorf("%q: %s allows to read %s: %v, want %v", chosen, text, tool.ID, got, want)
			}
		}
		if there.Asks(tools[0]).String() != "" || there.Fixed(tools[0]) != nil {
			t.Errorf("%q: %s asks or fixes again what the caller's node has asked and fixed", chosen, text)
		}
	}
}

// Rules that can't be read are no rules, and allow nothing.
func TestDecodeFails(t *testing.T) {
	for _, text := range []string{
		``, `null`, `{}`, `[]`, `{"chosen":[]}`, `{"chosen":["a"]`, `{"chosen":["a"]}{}`, `{"chosen":["a"],"profiles":{"a":{"allow":"x"}}}`,
		`{"chosen":["a"],"profiles":{"a":{"regions":["eu"]}}}`, `{"chosen":["a"],"limit":1}`,
		`{"chosen":["` + strings.Repeat("a", MaxEncoded) + `"]}`,
	} {
		if r, err := Decode(json.RawMessage(text)); err == nil || r != nil {
			t.Errorf("%.80s: read as rules", text)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"chosen":["a|b"],"profiles":{"a":{"servers":["*"],"deny":["x"]}}}`))
	f.Add([]byte(`{"chosen":["missing"]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Decode(text)
		if err == nil && r.Tool(&registry.NormalizedTool{Server: "s", Name: "t", ID: "s:t"}) && !r.Server("s") {
			t.Error("a tool is allowed and its server is not")
		}
	})
}
