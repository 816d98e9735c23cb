package discovery

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// smuggled is text that a model reads and a person does not see.
const smuggled = "\U000E0069\U000E0067\u202e\u200b\ufeff\U000E0101\u00ad\u2066\x1b"

// Every string of a definition loses its hidden characters, whether they are escaped or not;
// all other bytes stay.
func TestNormalizeRevealsText(t *testing.T) {
	const definition = `{"name":"read", "title":"T%[1]s", "description":"D%[1]s ` + "می\u200cخواهم 👨\u200d👩 é" + ` \u00e9",
		"inputSchema" : {"type":"object","properties":{"a%[1]s":{"type":"string","description":"P%[1]s","enum":["x%[1]s"]}},"required":["a%[1]s"]},
		"annotations":{"title":"A%[1]s","readOnlyHint":true},"_meta":{"m":["%[1]s"]},"n":1.0}`
	escaped, _ := json.Marshal(smuggled)
	raw := strings.Trim(string(escaped), `"`) // the control character must be escaped
	for _, hidden := range []string{raw, escapeAll(smuggled)} {
		in := fmt.Sprintf(definition, hidden)
		want := fmt.Sprintf(definition, "")
		tool, err := Normalize("s", json.RawMessage(in), nil)
		expect.OK(t, err)
		want = strings.Replace(want, `é \u00e9`, "é é", 1) // a string that changes is written again
		expect.Equal(t, string(tool.Definition), want, "%s\nbecomes\n%s", in, tool.Definition)
		if plain.Visible(string(tool.Definition)) != string(tool.Definition) || len(tool.Repairs) != 5 {
			t.Errorf("repairs %q", tool.Repairs)
		}
		if tool.Title != "T" || !strings.HasPrefix(tool.Description, "D می\u200cخواهم") || strings.Contains(string(tool.InputSchema), "\u200b") {
			t.Errorf("%q, %q, %s", tool.Title, tool.Description, tool.InputSchema)
		}
	}
}

func escapeAll(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r > 0xffff {
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x`, 0xd800+r>>10)
			r = 0xdc00 + r&0x3ff
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}

// A call uses the server's own name, and the patterns of the configuration see the other.
func TestHiddenName(t *testing.T) {
	raw := json.RawMessage(`{"name":"delete\u200b_all","inputSchema":{"type":"object"}}`)
	tool, err := Normalize("s", raw, nil)
	if err != nil || tool.Name != "delete_all" || tool.ID != "s:delete_all" || tool.ServerName() != "delete\u200b_all" || len(tool.Repairs) != 1 {
		t.Errorf("%+v, %v", tool, err)
	}
	expect.Equal(t, string(tool.Definition), `{"name":"delete_all","inputSchema":{"type":"object"}}`, "the definition")
	if _, out := (Rules{Deny: []string{"delete_*"}}).Excludes(tool.ServerName()); !out {
		t.Error("a hidden character gets a tool past \"deny\"")
	}
	if tool, err = Normalize("s", raw, map[string]string{"delete_all": "drop"}); err != nil || tool.Name != "drop" || tool.ServerName() != "delete\u200b_all" {
		t.Errorf("renamed: %+v, %v", tool, err)
	}
	if _, err := Normalize("s", json.RawMessage(`{"name":"\u200b","inputSchema":{"type":"object"}}`), nil); err == nil {
		t.Error("a tool without a name that is seen is offered")
	}
}

// Prompts and resources are known by names that a person sees.
func TestHiddenKeys(t *testing.T) {
	if p, err := normalizePrompt("s", json.RawMessage(`{"name":"p","description":"d\u200b","arguments":[{"name":"a","description":"x\udb40\udc41"}]}`), "name"); err != nil ||
		string(p.Definition) != `{"name":"p","description":"d","arguments":[{"name":"a","description":"x"}]}` || p.Description != "d" || len(p.Repairs) != 2 {
		t.Errorf("%s, %q, %v", p.Definition, p.Repairs, err)
	}
	if _, err := normalizePrompt("s", json.RawMessage(`{"name":"p\u200b"}`), "name"); err == nil {
		t.Error("a prompt has a hidden character in its name")
	}
	if _, err := normalizeResource("s", json.RawMessage(`{"uri":"a://b\u202e","name":"n"}`), "uri"); err == nil {
		t.Error("a resource has a hidden character in its URI")
	}
	if _, err := normalizeResource("s", json.RawMessage(`{"uriTemplate":"a://{b}\u200d","name":"n"}`), "uriTemplate"); err == nil {
		t.Error("a template has a hidden character in its URI")
	}
	for _, own := range []string{"metarouter://s/a", "MetaRouter:x"} { // the router's own scheme is not a server's to give
		if _, err := normalizeResource("s", json.RawMessage(fmt.Sprintf(`{"uri":%q,"name":"n"}`, own)), "uri"); err == nil {
			t.Errorf("a server lists %s", own)
		}
		if _, err := normalizeResource("s", json.RawMessage(fmt.Sprintf(`{"uriTemplate":%q,"name":"n"}`, own+"{x}")), "uriTemplate"); err == nil {
			t.Errorf("a server lists the template %s{x}", own)
		}
	}
	if r, err := normalizeResource("s", json.RawMessage(`{"uri":"a://b","name":"n\ufeff"}`), "uri"); err != nil || r.Name != "n" {
		t.Errorf("%+v, %v", r, err)
	}
}
