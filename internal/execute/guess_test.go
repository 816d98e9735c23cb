package execute

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Arguments in one undeclared member are taken out of it for tools that only read, if the tool declares all of them.
func TestWrapped(t *testing.T) {
	const open = `{"type":"object","properties":{"path":{"type":"string"},"all":{"type":"boolean"}},"required":["path"]}`
	e := newExecutor(registry.New(), &stub{})
	for _, tt := range []struct {
		args   string
		writes bool
		want   string // "" if it is refused
	}{
		{`{"input":{"path":"a"}}`, false, `{"path":"a"}`},
		{`{"raw_arguments":"{\"path\":\"a\",\"all\":true}"}`, false, `{"path":"a","all":true}`},
		{`{"input":{"path":"a"},"wait_for_previous":true}`, false, `{"path":"a"}`},
		{`{"input":{"path":"a"}}`, true, ""},
		{`{"input":{"path":"a"},"tool":"x"}`, false, ""},
		{`{"input":{"path":"a","other":1}}`, false, ""}, // it has more than the tool declares
		{`{"input":{}}`, false, ""},
		{`{"path":{"path":"a"}}`, false, ""}, // a wrong value of a declared member
		{`{"path":{"all":true}}`, false, ""},
		{`{"all":{"path":"a"}}`, false, ""},
		{`{"path":{}}`, true, ""},
	} {
		tool := tool(open)
		if !tt.writes {
			tool.Hints.ReadOnly = new(bool)
			*tool.Hints.ReadOnly = true
		}
		c := e.Check(t.Context(), tool, json.RawMessage(tt.args))
		got := string(c.Sent)
		if len(c.Faults) > 0 {
			got = ""
		}
		expect.Equal(t, got, tt.want, "%s, writes: %t", tt.args, tt.writes)
	}
}

// A call that is made has each declared member as it was sent, unless that was a text of JSON where the schema wants an object or a list.
func TestArgumentsAreAsSent(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	e := newExecutor(registry.New(), &stub{})
	types := []string{"string", "integer", "number", "boolean", "array", "object"}
	values := []string{`"a"`, `"5"`, `"true"`, `"[1]"`, `"{\"a\":1}"`, `5`, `1.5`, `true`, `null`, `[1]`, `{"a":1}`, `{"b":{"a":1}}`, `{}`, `{"c":"x"}`}
	made := 0
	for range 3000 {
		properties, names := "", []string{"a", "b", "c"}[:1+random.IntN(3)]
		for i, name := range names {
			properties += fmt.Sprintf(`%s%q:{"type":%q}`, []string{"", ","}[min(i, 1)], name, types[random.IntN(len(types))])
		}
		schema := `{"type":"object","properties":{` + properties + `}` + []string{"", `,"additionalProperties":false`, `,"required":["a"]`}[random.IntN(3)] + `}`
		args := "{"
		for i := range 1 + random.IntN(3) {
			args += fmt.Sprintf(`%s%q:%s`, []string{"", ","}[min(i, 1)], []string{"a", "b", "c", "input"}[i+random.IntN(2)*(3-i)], values[random.IntN(len(values))])
		}
		args += "}"
		tool := tool(schema)
		if random.IntN(2) == 0 {
			tool.Hints.ReadOnly = new(bool)
			*tool.Hints.ReadOnly = true
		}
		c := e.Check(t.Context(), tool, json.RawMessage(args))
		if len(c.Faults) > 0 || c.Sent == nil {
			continue
		}
		made++
		for _, name := range names {
			sent, given := string(wire.Member(c.Sent, name)), string(wire.Member(json.RawMessage(args), name))
			text, isText := wire.String(json.RawMessage(given))
			if sent != given && given != "" && !(isText && sent == text && (sent[0] == '[' || sent[0] == '{')) {
				t.Fatalf("%s of %s for %s became %s", name, args, schema, c.Sent)
			}
		}
	}
	if made < 300 {
		t.Errorf("only %d calls would be made", made)
	}
}
