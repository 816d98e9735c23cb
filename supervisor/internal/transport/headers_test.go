package transport

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestHeaderValue(t *testing.T) {
	for in, want := range map[string]string{ // the specification's own
		"us-west1":           "us-west1",
		"Hello, 世界":          "=?base64?SGVsbG8sIOS4lueVjA==?=",
		" padded ":           "=?base64?IHBhZGRlZCA=?=",
		"line1\nline2":       "=?base64?bGluZTEKbGluZTI=?=",
		"=?base64?literal?=": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",
		"a b":                "a b",
		"":                   "=?base64??=",
	} {
		expect.Equal(t, headerValue(in), want, "headerValue(%q)", in)
	}
}

func TestMirrors(t *testing.T) {
	for schema, want := range map[string]string{
		`{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}`:                                                    "A=x ",
		`{"properties":{"o":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}}`:              "N=42 ",
		`{"properties":{"t":{"type":["boolean","null"],"x-mcp-header":"T"},"z":{"type":"string","x-mcp-header":"Z"}}}`: "T=true ",
		`{"properties":{"x-mcp-header":{"type":"string","default":{"x-mcp-header":1}}}}`:                               "",
		`{"properties":{"a":{"type":"string","x-mcp-header":""}}}`:                                                     `"" is no name of a header`,
		`{"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}`:                                                  `"a b" is no name of a header`,
		`{"properties":{"a":{"type":"string","x-mcp-header":7}}}`:                                                      `7 is no name of a header`,
		`{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`:                                                    `"A" is at a property whose type is none of string, integer and boolean`,
		`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`:           `"a" is there twice`,
		`{"x-mcp-header":"A"}`: `"A" is at a place that no chain of properties leads to`,
		`{"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}`:                                      `"A" is at a place that no chain of properties leads to`,
		`{"properties":{"l":{"items":{"type":"string","x-mcp-header":"A"}}}}`:                                        `"A" is at a place that no chain of properties leads to`,
		`{"$defs":{"d":{"type":"string","x-mcp-header":"A"}}}`:                                                       `"A" is at a place that no chain of properties leads to`,
		`{"properties":{"d":` + strings.Repeat(`{"items":`, 300) + `{"x-mcp-header":"A"}` + strings.Repeat("}", 302): "its schema is nested too deep",
	} {
		var s mirrors
		got := ""
		s.learn(nil, []byte(`{"tools":[{"name":"t","inputSchema":`+schema+`}]}`), func(tool string, why error) { got = why.Error() })
		h := http.Header{}
		s.set(h, "t", []byte(`{"a":"x","o":{"n":42.0},"t":true,"z":null}`))
		for name, values := range h {
			got += strings.TrimPrefix(name, "Mcp-Param-") + "=" + values[0] + " "
		}
		expect.Equal(t, got, want, "%.200s", schema)
	}
}

// The annotations of a list count until the next one is complete, so that a server that lists ever new tools does not fill the memory, and
// lists that fail, or that are read at the same time, lose none.
func TestMirrorsOfLists(t *testing.T) {
	var s mirrors
	for _, list := range []struct{ params, tool, next, known string }{
		{`{"cursor":"0"}`, "a", "1", "a"}, {"{}", "a", "1", "a"}, {`{"cursor":"1"}`, "b", "", "a b"},
		{"{}", "a", "1", "a b"}, {"{}", "a", "1", "a b"}, {"{}", "c", "1", "a b c"}, {"{}", "a", "1", "a b"},
		{`{"cursor":"1"}`, "d", "", "a d"}, {"{}", "c", "", "c"}, {"{}", "", "", ""},
	} {
		s.learn([]byte(list.params), []byte(`{"tools":[{"name":"`+list.tool+`","inputSchema":{"properties":{"x":{"type":"string","x-mcp-header":"X"}}}}],"nextCursor":"`+list.next+`"}`), nil)
		var known []string
		for _, tool := range []string{"a", "b", "c", "d"} {
			if len(s.of(tool)) > 0 {
				known = append(known, tool)
			}
		}
		expect.Equal(t, strings.Join(known, " "), list.known, "after the list of %s with %s", list.tool, list.params)
	}
	s.learn(nil, []byte(`{"tools":[{"name":"d","inputSchema":{"properties":{"x":{"x-mcp-header":"X","type":"string"}}}}]}`), nil)
	s.learn(nil, []byte(`{"tools":[{"name":"d","inputSchema":{}}]}`), nil)
	expect.Equal(t, len(s.of("d")), 0, "annotations of a tool that has none any more")
}
