package clients

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

const (
	keyA = "UA6NDBPC7STOTBZ36WTDDTWYMWVJIMUNJTVB2WQP7PGBKLWW3H4DRX3X"
	keyB = "UBWYQBM6PNVQ4XOVEFFAIIJVCVQD2B4PASQRUIFD72QMTWIUR65CGOZW"
)

func TestTrustNode(t *testing.T) {
	for _, tt := range []struct{ before, after string }{ // A and B stand for keys; A is added
		{``, "{\n  \"$schema\": \"" + schemaURL + "\",\n  \"metarouter\": {\n    \"cluster\": {\n      \"trusted\": [\"A\"]\n    }\n  }\n}\n"},
		{"{\n  \"mcpServers\": {} // mine\n}", "{\n  \"mcpServers\": {}, // mine\n  \"metarouter\": {\n    \"cluster\": {\n      \"trusted\": [\"A\"]\n    }\n  }\n}"},
		{`{"metarouter": {"mode": "auto"}}`, "{\"metarouter\": {\"mode\": \"auto\",\n  \"cluster\": {\n    \"trusted\": [\"A\"]\n  }\n}}"},
		{`{"metarouter": {"cluster": null}}`, "{\"metarouter\": {\"cluster\": {\n  \"trusted\": [\"A\"]\n}}}"},
		{`{"metarouter": {"cluster": {"trusted": []}}}`, "{\"metarouter\": {\"cluster\": {\"trusted\": [\n  \"A\"\n]}}}"},
		{`{"metarouter": {"cluster": {"trusted": null}}}`, `{"metarouter": {"cluster": {"trusted": ["A"]}}}`},
		{`{"metarouter": {"cluster": {"trusted": ["B" /* lab */]}}}`, `{"metarouter": {"cluster": {"trusted": ["B" /* lab */, "A"]}}}`},
		{`{"metarouter": {"cluster": {"trusted": ["B", ]}}}`, `{"metarouter": {"cluster": {"trusted": ["B", "A", ]}}}`},
		{`{"metarouter":{"cluster":{"trusted":["B"]}}}`, `{"metarouter":{"cluster":{"trusted":["B", "A"]}}}`},
		{"{\"metarouter\": {\"cluster\": {\"trusted\": [\n\t\"B\" // lab\n\t// others\n]}}}", "{\"metarouter\": {\"cluster\": {\"trusted\": [\n\t\"B\", // lab\n\t// others\n\t\"A\"\n]}}}"},
		{"{\"metarouter\": {\"cluster\": {\"trusted\": [\r\n\t\"B\",\r\n]}}}", "{\"metarouter\": {\"cluster\": {\"trusted\": [\r\n\t\"B\",\r\n\t\"A\",\r\n]}}}"},
		{"{\"metarouter\": {\"cluster\": {\"trusted\": [ // none\n]}}}", "{\"metarouter\": {\"cluster\": {\"trusted\": [ // none\n  \"A\"\n]}}}"},
		{`{"metarouter": {"cluster": {"trusted": ["A", "B"]}}}`, `{"metarouter": {"cluster": {"trusted": ["A", "B"]}}}`},
		{`{"metarouter": {"cluster": {"trusted": "A"}}}`, ""},
		{`{"metarouter": {"cluster": []}}`, ""},
		{`{"metarouter": 1}`, ""},
	} {
		keys := strings.NewReplacer(`"A"`, `"`+keyA+`"`, `"B"`, `"`+keyB+`"`)
		before, after := keys.Replace(tt.before), keys.Replace(tt.after)
		got, err := TrustNode("/f", []byte(before), keyA)
		if string(got) != after && after != "" || (err != nil) != (after == "") {
			t.Errorf("%s:\ngot  %q, %v\nwant %q", tt.before, got, err, after)
		}
	}
}

// Whatever our reader accepts keeps its meaning and its comments when a node is trusted, and a file of
// plain JSON stays one.
func FuzzTrustNode(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"metarouter":{"cluster":{"trusted":[]}}}`, "{\n// c\n\"metarouter\": {\"cluster\": {\"trusted\": [\n\"" + keyA + "\" // x\n]}} }",
		"\ufeff{\r\n\"metarouter\": null\r\n}", `{"metarouter":{"cluster":{"trusted":[1/**/,/*x*/"` + keyB + `",]/**/,}}}//`, "{\"metarouter\":{\"cluster\":{\"trusted\":[\n{}\n,\n[]]}}}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := readExpanded("/f.json", data); err != nil {
			return
		}
		with, err := TrustNode("/f.json", data, keyA)
		if err != nil {
			return // a value on the way is no object, or no array
		}
		if again, err := TrustNode("/f.json", with, keyA); err != nil || !bytes.Equal(again, with) {
			t.Errorf("the second time: %v\n%s\nafter\n%s", err, again, with)
		}
		expect.Deep(t, comments(t, with), comments(t, data), "the comments")
		d, err := open("/f.json", with)
		expect.OK(t, err, "%s", with)
		if !bytes.Contains([]byte(written(d.at(trusted...))), []byte(keyA)) {
			t.Errorf("the key is not there:\n%s", with)
		}
		expect.Equal(t, meaning(t, with, trusted[0]), meaning(t, data, trusted[0]), "the meaning")
		if before, after := tree(t, data), tree(t, with); before.IsStandard() && !after.IsStandard() {
			t.Errorf("plain JSON no more:\n%s", with)
		}
	})
}
