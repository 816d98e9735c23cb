package capability

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestInfer(t *testing.T) {
	tests := []struct{ server, name, description, parameters, want string }{
		{"playwright", "browser_navigate", "Navigate to a URL in the browser", "url", "browser navigation web"},
		{"playwright", "browser_navigate", "Navigate to a URL", "url", "browser navigation web"},
		{"fake", "browser_navigate", "Navigate to a URL in the browser", "", "browser navigation web"},
		{"test-server", "browser_navigate", "Navigate to a URL in the browser", "url", "browser navigation web"},
		{"playwright", "browser_take_screenshot", "Take a screenshot of the current page", "filename type", "browser screenshot"},
		{"fake", "browser_screenshot", "Capture the page", "", "browser screenshot"},
		{"fake", "browser_click", "Click an element", "element ref", "browser interaction"},
		{"playwright", "browser_type", "Type text into an editable element", "text", "browser interaction"},
		{"playwright", "browser_network_requests", "Returns all network requests", "", "browser network"},
		{"gh", "searchGitHubIssues", "", "query", "git github issues search"},
		{"github", "get_pull_request", "Details of one pull request", "number", "git github"},
		{"github", "list_commits", "", "", "git github"},
		{"files", "delete_file", "Delete a file", "path", "delete files"},
		{"x", "kv_put", "Put a value", "", "write"},
		{"x", "get_update", "An update", "", ""},
		{"x", "list_commits", "Get commits", "", "git"},
		{"x", "commit", "Commit staged files", "", "git write"},
		{"shop", "refund_payment", "Refund a customer", "", "payment"},
		{"postgres", "query", "Run a read-only statement", "sql", "database sql"},
		{"memory", "open_nodes", "Open nodes", "names", "memory"},
		{"heap", "take_memory_reading", "Take a reading", "", ""},
		{"utilities", "unit_convert", "Convert between units", "value", "conversion"},
		{"utilities", "pii_redact", "Redact e-mail addresses", "text", "privacy"},
		{"utilities", "doc_summarize", "Summarize a text", "text", "summary"},
		{"w", "get_forecast", "Weather forecast", "latitude longitude", "weather"},
		{"w", "get_mappings", "Field mappings of an index", "index", ""},
		{"t", "get_current_time", "The current time", "timezone", "time"},
		{"x", "fetch", "Fetch a URL", "url", "web"},
		{"x", "echo", "Echoes back the message. Not for a browser, a database or email", "message", ""},
		{"x", "run", "## Purpose\n\nSend an email now. Not a calendar", "email", "email write"},
		{"x", "echo", "", "", ""},
	}
	x := NewTaxonomy(nil)
	for _, test := range tests {
		properties := map[string]any{}
		for name := range strings.FieldsSeq(test.parameters) {
			properties[name] = map[string]any{}
		}
		schema, _ := json.Marshal(map[string]any{"type": "object", "properties": properties})
		tags := x.Infer(registry.NormalizedTool{Server: test.server, Name: test.name, Description: test.description, InputSchema: schema})
		expect.Equal(t, strings.Join(tags, " "), test.want, "%s:%s %q: %v", test.server, test.name, test.description, tags)
	}
}

// A server that says that its tool only reads is believed.
func TestInferReadOnly(t *testing.T) {
	tool := registry.NormalizedTool{Server: "x", Name: "update_preview", Hints: registry.Hints{ReadOnly: new(true)}}
	expect.List(t, NewTaxonomy(nil).Infer(tool), nil)
}

// So is one that says that its tool destroys, unless the taxonomy has no write.
func TestInferDestructive(t *testing.T) {
	for name, want := range map[string]string{"rotor": "write", "delete_rotor": "delete"} {
		tool := registry.NormalizedTool{Server: "x", Name: name, Hints: registry.Hints{Destructive: new(true)}}
		expect.Equal(t, strings.Join(NewTaxonomy(nil).Infer(tool), " "), want, "%s", name)
	}
	tool := registry.NormalizedTool{Server: "x", Name: "rotor", Hints: registry.Hints{Destructive: new(true)}}
	expect.List(t, NewTaxonomy(map[string][]string{"write": nil}).Infer(tool), nil)
}

func TestTaxonomyOverrides(t *testing.T) {
	x := NewTaxonomy(map[string][]string{
		"Invoicing": {"invoice", "cost centre"},
		"browser":   {"lynx!"},
		"delete":    {},
		"web":       nil,
	})
	tests := map[string]string{
		"list_invoices":      "invoicing payment",
		"cost_centres":       "invoicing",
		"browser_navigate":   "navigation",
		"lynx_dump":          "browser",
		"delete_file":        "files",
		"fetch_website_text": "",
	}
	for name, want := range tests {
		expect.Equal(t, strings.Join(x.Infer(registry.NormalizedTool{Name: name}), " "), want, "%s", name)
	}
	if tags := x.Tags(); slices.Contains(tags, "delete") || slices.Contains(tags, "web") || !slices.Contains(tags, "invoicing") {
		t.Errorf("tags %q", tags)
	}
}

// The embedded taxonomy is well-formed: each line gives a tag words that can
// match.
func TestTaxonomy(t *testing.T) {
	seen := map[string]bool{}
	for line := range strings.Lines(embedded) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		tag, list, ok := strings.Cut(line, ": ")
		if !ok || tag != strings.ToLower(tag) || strings.Contains(tag, " ") || seen[tag] {
			t.Errorf("bad line %q", line)
		}
		seen[tag] = true
		for word := range strings.SplitSeq(list, ",") {
			term := parseTerm(tag, word)
			if len(term.stems) == 0 || strings.Contains(word, "+") != term.pair || term.action && len(term.stems) != 1 {
				t.Errorf("%s: %q can never match", tag, word)
			}
		}
	}
	tags := NewTaxonomy(nil).Tags()
	if len(tags) != len(seen) || len(tags) < 40 {
		t.Errorf("%d tags of %d lines", len(tags), len(seen))
	}
	for _, tag := range []string{"browser", "navigation", "web", "screenshot", "write", "delete", "payment", "database"} {
		if !slices.Contains(tags, tag) {
			t.Errorf("no tag %s", tag)
		}
	}
}

func TestStem(t *testing.T) {
	for _, family := range []string{
		"page pages", "create creates created creating", "drop drops dropped dropping", "fill fills filled filling",
		"query queries queried querying", "class classes", "address addresses", "movie movies", "file files",
		"log logs logging", "delete deletes deleting", "pay pays paying", "log logged",
	} {
		words := stems(strings.Fields(family))
		expect.Equal(t, len(slices.Compact(words)), 1, "%s: %q", family, words)
	}
	for _, pair := range []string{"file fill", "news new", "document documentation", "thing th", "status statu", "test rest"} {
		if words := stems(strings.Fields(pair)); words[0] == words[1] {
			t.Errorf("%s: both %q", pair, words[0])
		}
	}
}

func TestIdentifier(t *testing.T) {
	for name, want := range map[string]string{
		"browser_take_screenshot": "browser take screenshot",
		"getURLOf":                "get url of geturl urlof",
		"searchGitHub":            "search git hub searchgit github",
		"TwilioApiV2010--List":    "twilio api v2010 list twilioapi apiv2010",
		"k8s.get-pods":            "k8s get pods",
		"":                        "",
		"été_Été":                 "été été",
	} {
		expect.Equal(t, strings.Join(identifier(name), " "), want, "%s", name)
	}
}
