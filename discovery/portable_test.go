package discovery

import (
	"encoding/json"
	"strings"
	"testing"

	validation "github.com/mcp-metarouter/metarouter/internal/schema"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// What APIs of models refuse in a schema is not shown, and what is compared with it stays.
func TestNormalizeForModels(t *testing.T) {
	const look = `"pattern":"^(?!-)[a-z-]+$"`
	for _, tc := range []struct{ name, schema, shown, checked string }{
		{"look-ahead", `{"type":"string","description":"A name.",` + look + `}`, `{"type":"string","description":"A name.\nMust match the regular expression ^(?!-)[a-z-]+$"}`, `{"type":"string","description":"A name.",` + look + `}`},
		{"without a description", `{"items":{` + look + `}}`, `{"items":{"description":"Must match the regular expression ^(?!-)[a-z-]+$"}}`, `{"items":{` + look + `}}`},
		{"any", `{"type":"any"}`, `{}`, ""},
		{"null without quotes", `{"type":null,"title":"T"}`, `{"title":"T"}`, ""},
		{"null with quotes", `{"type":["string","null"]}`, `{"type":["string","null"]}`, ""},
		{"null without quotes in a list", `{"type":["string",null]}`, `{"type":["string","null"]}`, ""},
		{"any in a list", `{"type":["string","any"]}`, `{}`, ""},
		{"a list without types", `{"type":[]}`, `{}`, ""},
		{"one twice", `{"type":["string","string"]}`, `{"type":["string"]}`, ""},
		{"names of languages", `{"anyOf":[{"type":"STRING"},{"type":"int"}]}`, `{"anyOf":[{"type":"string"},{"type":"integer"}]}`, ""},
		{"an unknown type", `{"type":"file"}`, `{"description":"Type: file."}`, ""},
		{"a property called type", `{"type":"object","properties":{"type":{"type":"string"},"pattern":{"type":"string"}}}`, `{"type":"object","properties":{"type":{"type":"string"},"pattern":{"type":"string"}}}`, ""},
		{"values", `{"enum":[{"type":"any"}],"default":{` + look + `}}`, `{"enum":[{"type":"any"}],"default":{` + look + `}}`, ""},
		{"not", `{"not":{"pattern":"(?=a)"}}`, `{"description":"Rule: not {\"pattern\":\"(?=a)\"}."}`, `{"not":{"pattern":"(?=a)"}}`},
		{"if", `{"if":{"pattern":"(?=a)"},"then":{"minLength":3},"maxLength":7}`, `{"maxLength":7,"description":"Rule: if {\"pattern\":\"(?=a)\"}, then {\"minLength\":3}."}`, `{"if":{"pattern":"(?=a)"},"then":{"minLength":3},"maxLength":7}`},
		{"oneOf", `{"oneOf":[{"pattern":"(?=a)"},{"type":"null"}]}`, `{"anyOf":[{"description":"Must match the regular expression (?=a)"},{"type":"null"}]}`, `{"oneOf":[{"pattern":"(?=a)"},{"type":"null"}]}`},
		{"names", `{"patternProperties":{"(?i)^x":{"type":"string"},"^y":{}},"additionalProperties":false}`,
			`{"patternProperties":{"^y":{}},"description":"Values under names that match (?i)^x: {\"type\":\"string\"}.\nValues under other names: false."}`,
			`{"patternProperties":{"(?i)^x":{"type":"string"},"^y":{}},"additionalProperties":false}`},
	} {
		raw := `{"name":"t","inputSchema":{"type":"object","properties":{"a":` + tc.schema + `}}}`
		got, err := Normalize("s", json.RawMessage(raw), nil)
		expect.OK(t, err)
		a := func(schema json.RawMessage) string {
			return string(wire.Member(wire.Member(schema, "properties"), "a"))
		}
		if a(got.InputSchema) != tc.shown || a(got.ServerSchema) != tc.checked || a(wire.Member(got.Definition, "inputSchema")) != tc.shown {
			t.Errorf("%s: shown\n%s, checked\n%s", tc.name, got.InputSchema, got.ServerSchema)
		}
		expect.Equal(t, tc.shown != tc.schema, len(got.Repairs) > 0 && strings.HasPrefix(got.Repairs[0], "inputSchema.a"), "%s: %q", tc.name, got.Repairs)
		_, err = validation.Compile(got.InputSchema)
		expect.OK(t, err, "%s", tc.name)
	}
}

func TestIsCommon(t *testing.T) {
	for expr, want := range map[string]bool{
		`^[a-z0-9_-]{1,64}$`: true, `^\d{4}-\d{2}$`: true, `^(?:a|b)+?$`: true, `\u00e9\x41\.\/`: true, `^.{1,2048}$`: true, `[\x00-\x1f\-\]]`: true, `[\w-]`: true, `[:]`: true, `[[]`: true, ``: true,
		`^(?!-)a`: false, `(?<=a)b`: false, `(?<n>a)`: false, `(?P<n>a)`: false, `(?i)a`: false, `(a)\1`: false, `\k<n>`: false, `\p{L}`: false, `\Aa\z`: false,
		`[[:alpha:]]`: false, `a++`: false, `(a`: false, `[]a]`: false, `[^]`: false, `a{3,2}`: false, `\`: false, `\Qa\E`: false, `\u12`: false,
		// what only ECMAScript's engine without the flag u knows
		`[\w-.]`: false, `[+-\d]`: false, `\-`: false, `\@`: false, `{`: false, `a}`: false, `]`: false, `^*`: false, `\b+`: false, `$?`: false, `[\x1f-\x00]`: false, `[\b]`: false, `[\@]`: false,
	} {
		expect.Equal(t, isCommon(expr), want, "%s", expr)
	}
}
