package clients

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// comments returns the comments of a file, in their order.
func comments(t testing.TB, data []byte) []string {
	t.Helper()
	var all []string
	take := func(extra hujson.Extra) {
		rest := string(extra)
		for rest = strings.TrimLeft(rest, " \t\r\n"); rest != ""; rest = strings.TrimLeft(rest, " \t\r\n") {
			end := len(rest)
			if strings.HasPrefix(rest, "/*") {
				end = strings.Index(rest, "*/") + 2
			} else if i := strings.IndexByte(rest, '\n'); i >= 0 {
				end = i
			}
			all = append(all, strings.TrimRight(rest[:end], " \t\r"))
			rest = rest[end:]
		}
	}
	var walk func(v hujson.Value)
	walk = func(v hujson.Value) {
		take(v.BeforeExtra)
		switch x := v.Value.(type) {
		case *hujson.Object:
			for _, m := range x.Members {
				walk(m.Name)
				walk(m.Value)
			}
			take(x.AfterExtra)
		case *hujson.Array:
			for _, e := range x.Elements {
				walk(e)
			}
			take(x.AfterExtra)
		}
		take(v.AfterExtra)
	}
	walk(tree(t, data))
	return all
}

func tree(t testing.TB, data []byte) hujson.Value {
	t.Helper()
	v, err := hujson.Parse(append(bytes.TrimPrefix(slices.Clone(data), bom), '\n'))
	expect.OK(t, err, "%s", data)
	return v
}

// meaning is a file as one line of JSON, without the member at the end of keys.
func meaning(t testing.TB, data []byte, keys ...string) string {
	t.Helper()
	v := tree(t, data)
	at := &v
	for i, key := range keys {
		o := object(at)
		if o == nil {
			break
		}
		if i == len(keys)-1 {
			o.Members = slices.DeleteFunc(o.Members, func(m hujson.ObjectMember) bool { return jsonc.Key(m) == key })
			break
		}
		m := member(at, key)
		if m == nil {
			break
		}
		at = &m.Value
	}
	v.Minimize()
	return strings.TrimSpace(v.String())
}

func TestAddAndRemove(t *testing.T) {
	put := func(t *testing.T, old string) string {
		d, err := open("f", []byte(old))
		expect.OK(t, err)
		expect.OK(t, d.putServers([]string{"s"}, field{"new", fields{{"a", []string{"1", "2"}}}}))
		return string(d.bytes())
	}
	for name, test := range map[string]struct{ old, want string }{
		"empty file":        {"", "{\n  \"s\": {\n    \"new\": {\n      \"a\": [\"1\", \"2\"]\n    }\n  }\n}\n"},
		"only a mark":       {"\ufeff", "\ufeff{\n  \"s\": {\n    \"new\": {\n      \"a\": [\"1\", \"2\"]\n    }\n  }\n}\n"},
		"empty object":      {"{}", "{\n  \"s\": {\n    \"new\": {\n      \"a\": [\"1\", \"2\"]\n    }\n  }\n}"},
		"one line":          {`{"s":{"old":1}}`, "{\"s\":{\"old\":1,\n  \"new\": {\n    \"a\": [\"1\", \"2\"]\n  }\n}}"},
		"one line, comma":   {`{"s":{"old":1,},}`, "{\"s\":{\"old\":1,\n  \"new\": {\n    \"a\": [\"1\", \"2\"]\n  },\n},}"},
		"one line, comment": {`{"s":{"old":1/*c*/}}`, "{\"s\":{\"old\":1,/*c*/\n  \"new\": {\n    \"a\": [\"1\", \"2\"]\n  }\n}}"},
		"null":              {"{\n\t\"s\": null\n}", "{\n\t\"s\": {\n\t\t\"new\": {\n\t\t\t\"a\": [\"1\", \"2\"]\n\t\t}\n\t}\n}"},
		"inline in lines":   {"{\n  \"s\": {}\n}", "{\n  \"s\": {\n    \"new\": {\n      \"a\": [\"1\", \"2\"]\n    }\n  }\n}"},
		"after a comment":   {"{\n  \"s\": {\n    \"old\": 1 // one\n    // two\n  }\n}", "{\n  \"s\": {\n    \"old\": 1, // one\n    // two\n    \"new\": {\n      \"a\": [\"1\", \"2\"]\n    }\n  }\n}"},
		"comma, blank line": {"{\n \"s\": {\n  \"old\": 1,\n\n },\n}", "{\n \"s\": {\n  \"old\": 1,\n\n  \"new\": {\n   \"a\": [\"1\", \"2\"]\n  },\n },\n}"},
		"crlf":              {"{\r\n  \"s\": {\r\n  }\r\n}\r\n", "{\r\n  \"s\": {\r\n    \"new\": {\r\n      \"a\": [\"1\", \"2\"]\r\n    }\r\n  }\r\n}\r\n"},
		"odd indentation":   {"{\n \"s\": {\n        \"old\": 1}}", "{\n \"s\": {\n        \"old\": 1,\n        \"new\": {\n         \"a\": [\"1\", \"2\"]\n        }\n }}"},
		"twice":             {"{\n  \"s\": {\"x\": 1},\n  \"s\": {\n    \"y\": 2\n  }\n}", "{\n  \"s\": {\"x\": 1},\n  \"s\": {\n    \"y\": 2,\n    \"new\": {\n      \"a\": [\"1\", \"2\"]\n    }\n  }\n}"},
	} {
		expect.Equal(t, put(t, test.old), test.want, "%s", name)
	}
	for name, test := range map[string]struct{ old, want string }{
		"the only one":     {"{\n  \"s\": {\n    \"x\": 1\n  }\n}", "{\n  \"s\": {\n  }\n}"},
		"the last":         {"{\n  \"s\": {\n    \"a\": 1, // one\n    \"x\": 2\n  }\n}", "{\n  \"s\": {\n    \"a\": 1 // one\n  }\n}"},
		"the last of a":    {"{\n  \"s\": {\n    \"a\": 1,\n    \"x\": 2,\n  }\n}", "{\n  \"s\": {\n    \"a\": 1,\n  }\n}"},
		"the first":        {"{\"s\": {\"x\": 1, \"a\": 2}}", "{\"s\": {\"a\": 2}}"},
		"comments":         {"{\"s\": {\n // b\n \"x\": {/*in*/} /*c*/ , // d\n \"a\": 2 }}", "{\"s\": {\n // b\n /*c*/  // d\n \"a\": 2 }}"},
		"several":          {"{\"s\": {\"x\": 1, \"a\": 2, \"y\": 3, \"x\": 4}}", "{\"s\": {\"a\": 2}}"},
		"the last, spaced": {"{\"s\": { \"a\": 1, \"x\": 2, \"y\": 3 }}", "{\"s\": { \"a\": 1 }}"},
		"the last, comma":  {"{\"s\": { \"a\": 1, \"x\": 2, }}", "{\"s\": { \"a\": 1, }}"},
		"all":              {"{\"s\": {\"x\": 1, \"y\": 3,}}", "{\"s\": {}}"},
		"crlf":             {"{\"s\": {\r\n\t\"x\": 1,\r\n\t\"a\": 2\r\n}}", "{\"s\": {\r\n\t\"a\": 2\r\n}}"},
	} {
		t.Run("without "+name, func(t *testing.T) {
			got, err := Install(Source{Path: "f", Data: []byte(test.old), keys: []string{"s"}}, RouterEntry{}, nil, []string{"x", "y"})
			if err != nil || string(got) != test.want {
				t.Errorf("got %v\n%s\nwant\n%s", err, got, test.want)
			}
		})
	}
}

func TestOpenSaysWhere(t *testing.T) {
	for _, text := range []string{"{\n  \"a\": x\n}", "[]", "{", "\xff\xfe{\x00}\x00"} {
		_, err := open("f.json", []byte(text))
		expect.Error(t, err, "f.json:", "%q", text)
	}
	d, err := open("f.json", []byte(`{"mcpServers": [1]}`))
	expect.OK(t, err)
	if err := d.putServers(claudeKeys, field{"a", "b"}); err == nil {
		t.Error("an array took a server")
	}
	d, _ = open("f.json", []byte(`{"mcp": 1}`))
	if err := d.putServers([]string{"mcp", "servers"}, field{"a", "b"}); err == nil {
		t.Error("a number took a server")
	}
}

// Whatever our reader accepts keeps its meaning and its comments when our entry goes in
// and when servers go out, and a file of plain JSON stays one.
func FuzzEdits(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"mcpServers":{}}`, "{\n// c\n}", "{\"mcpServers\": { \"a\": {\"command\": \"x\"}, // c\n }, }", "\ufeff{\r\n\"mcpServers\": null\r\n}",
		`{"mcpServers":{"metarouter":{"url":"http://x/","command":1,"args":["serve","--mode","search"],}}}`, "{\"mcpServers\":\n{\"metarouter\":3/**/,}}//",
		"{ /*\n*/ \"mcpServers\": {\"a\":{} /* x\n */ } }", "{\"mcpServers\":{\"a\":{},\n\n\t \"b\":{}\n,\n}}",
	} {
		f.Add([]byte(text))
	}
	e := RouterEntry{Command: "/bin/metarouter", Configs: []string{"/m.json"}}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := readExpanded("/f.json", data); err != nil {
			return
		}
		for _, c := range table {
			s := Source{Client: c, Path: "/f.json", Data: data, keys: c.keys}
			installed, err := Install(s, e, all, nil)
			if err != nil || !c.Rewrites() {
				continue // the servers are no object
			}
			r, err := Replaced(s, false, installed, Record{})
			expect.OK(t, err, c.Name)
			if back, _, err := Undo(Source{Client: c, Path: s.Path, Data: installed, keys: c.keys}, r); err != nil || !bytes.Equal(back, data) {
				t.Errorf("%s: undone, it says %s, %v", c.Name, back, err)
			}
			ours := append(slices.Clone(c.keys), EntryName)
			had := tree(t, data)
			if (&document{root: had}).at(ours...) == nil { // an entry that was there may have comments, which may go with its value
				expect.Deep(t, comments(t, installed), comments(t, data), "%s: the comments", c.Name)
				if d, _ := open("f", data); object(d.at(c.keys...)) != nil {
					expect.Equal(t, meaning(t, installed, ours...), meaning(t, data), "%s: the meaning", c.Name)
				}
			}
			if before, after := tree(t, data), tree(t, installed); before.IsStandard() && !after.IsStandard() {
				t.Errorf("%s: plain JSON no more:\n%s", c.Name, installed)
			}
			s.Data = installed
			if again, err := Install(s, e, all, nil); err != nil || !bytes.Equal(again, installed) {
				t.Errorf("%s: the second time: %v\n%s\nafter\n%s", c.Name, err, again, installed)
			}
			Diff("/f.json", data, installed)
			if d, _ := open("f", installed); d != nil {
				var names []string
				for i, m := range object(d.at(c.keys...)).Members {
					if i%2 == 0 {
						names = append(names, jsonc.Key(m))
					}
				}
				less, err := Install(s, RouterEntry{}, nil, names)
				expect.OK(t, err)
				left := tree(t, less)
				if before := tree(t, installed); before.IsStandard() && !left.IsStandard() {
					t.Errorf("%s: plain JSON no more:\n%s\nof\n%s", c.Name, less, installed)
				}
				var want, got []string
				for _, m := range object(d.at(c.keys...)).Members {
					if !slices.Contains(names, jsonc.Key(m)) {
						want = append(want, jsonc.Key(m))
					}
				}
				d, _ := open("f", less)
				for _, m := range object(d.at(c.keys...)).Members {
					got = append(got, jsonc.Key(m))
				}
				expect.Deep(t, got, want, "%s: left", c.Name)
			}
		}
	})
}

func series(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// A client's file that would take quadratic time is refused, with the bound.
func TestBounds(t *testing.T) {
	for _, tt := range []struct{ client, path, text, want string }{
		{"codex", "f.toml", series(11_000, "[mcp_servers.a%d]\ncommand = \"x\"\n"), "f.toml has more than 10000 keys"},
		{"codex", "f.toml", series(3_000, "[mcp_servers.a%d]\ncommand = \"x\"\n"), "f.toml has more than 2000 servers"},
		{"cursor", "f.json", `{"mcpServers": {` + series(20_000, `"a%d": {"command": "x"},`) + `"z": {}}}`, "f.json has more than 2000 servers"},
		{"cursor", "f.json", `{"mcpServers": {` + series(1_999, `"a%d": {"command": "x"},`) + `"z": {}}}`, ""},
	} {
		c, _ := Find(tt.client)
		s := Source{Client: c, Path: tt.path, keys: c.keys, Data: []byte(tt.text)}
		_, errI := Import([]Source{s}, "/m.json", nil, Ours{})
		_, errO := Others(s, "/m.json", Ours{})
		for _, err := range []error{errI, errO} {
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%.60q: %v, want %q", tt.text, err, tt.want)
			}
		}
	}
}
