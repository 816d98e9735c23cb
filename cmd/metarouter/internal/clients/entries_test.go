package clients

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Each edit of our file changes one entry, and nothing around it.
func TestEditsOfEntries(t *testing.T) {
	const file = `// mine
{
	"mcpServers": {
		"a": { "command": "npx", "args": ["-y", "a" /* why */] }, // first
		// second
		"b": {
			"url": "https://example.org/mcp",
			"disabled": true
		},
		"c": { "command": { "path": "x", "args": ["1"] }, "enabled": true }
	},
	"servers": { "d": { "command": "d" } }
}
`
	put := func(name, entry string) func([]byte) ([]byte, error) {
		return func(data []byte) ([]byte, error) { return PutServer("f", data, name, entry) }
	}
	remove := func(name string) func([]byte) ([]byte, error) {
		return func(data []byte) ([]byte, error) { return RemoveServer("f", data, name) }
	}
	disable := func(name string, disabled bool) func([]byte) ([]byte, error) {
		return func(data []byte) ([]byte, error) { return DisableServer("f", data, name, disabled) }
	}
	argument := func(name, old, value string) func([]byte) ([]byte, error) {
		return func(data []byte) ([]byte, error) { return SetArgument("f", data, name, old, value) }
	}
	for name, test := range map[string]struct {
		edit func([]byte) ([]byte, error)
		old  string // is replaced by new; "" if the edit fails
		new  string
	}{
		"add":                   {put("e", "{\n  \"command\": \"e\"\n}"), "\"enabled\": true }\n", "\"enabled\": true },\n\t\t\"e\": {\n\t\t\t\"command\": \"e\"\n\t\t}\n"},
		"replace":               {put("b", `{"command": "b"}`), "{\n\t\t\t\"url\": \"https://example.org/mcp\",\n\t\t\t\"disabled\": true\n\t\t}", "{\n\t\t\t\"command\": \"b\"\n\t\t}"},
		"remove":                {remove("a"), "\t\t\"a\": { \"command\": \"npx\", \"args\": [\"-y\", \"a\" /* why */] }, // first\n", "\t\t// first\n"},
		"remove last":           {remove("d"), ` "d": { "command": "d" } }`, ` }`},
		"disable":               {disable("a", true), "/* why */] }", "/* why */], \"disabled\": true }"},
		"disable again":         {disable("b", true), "x", "x"},
		"disable by enabled":    {disable("c", true), `"enabled": true`, `"enabled": false`},
		"enable":                {disable("b", false), "mcp\",\n\t\t\t\"disabled\": true", "mcp\""},
		"enable what is":        {disable("c", false), "x", "x"},
		"argument":              {argument("a", "a", "a@1.2.3"), `"a" /* why */`, `"a@1.2.3" /* why */`},
		"argument of Zed":       {argument("c", "1", "2"), `["1"]`, `["2"]`},
		"argument there is no":  {argument("a", "x", "y"), "", ""},
		"argument of no server": {argument("z", "a", "x"), "", ""},
		"disable no server":     {disable("z", true), "", ""},
		"add no JSON":           {put("e", "{"), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := test.edit([]byte(file))
			if test.old == "" {
				if err == nil {
					t.Errorf("no error; got\n%s", got)
				}
				return
			}
			if want := strings.Replace(file, test.old, test.new, 1); err != nil || string(got) != want {
				t.Errorf("%v; got\n%s\nwant\n%s", err, got, want)
			}
		})
	}
}

func TestPutIntoOtherFiles(t *testing.T) {
	for name, test := range map[string]struct{ old, want string }{
		"no file":  {"", "{\n  \"$schema\": \"" + schemaURL + "\",\n  \"mcpServers\": {\n    \"e\": {\n      \"command\": \"e\"\n    }\n  }\n}\n"},
		"one line": {`{"mcpServers":{}}`, "{\"mcpServers\":{\n  \"e\": {\n    \"command\": \"e\"\n  }\n}}"},
		"VS Code":  {"{\n  \"servers\": {}\n}", "{\n  \"servers\": {\n    \"e\": {\n      \"command\": \"e\"\n    }\n  }\n}"},
		"bare":     {`{"a":{"command":"a"}}`, "{\"a\":{\"command\":\"a\"},\n  \"e\": {\n    \"command\": \"e\"\n  }\n}"},
		"settings": {`{"metarouter":{}}`, "{\"metarouter\":{},\n  \"mcpServers\": {\n    \"e\": {\n      \"command\": \"e\"\n    }\n  }\n}"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := PutServer("f", []byte(test.old), "e", `{"command":"e"}`)
			if err != nil || string(got) != test.want {
				t.Errorf("%v; got\n%s\nwant\n%s", err, got, test.want)
			}
			c, err := readExpanded("f", got)
			if err != nil || c.Servers[len(c.Servers)-1].Command != "e" {
				t.Errorf("config reads %v, %v", c.Servers, err)
			}
		})
	}
	got, err := DisableServer("f", []byte("{\n  \"a\": {\"command\": \"a\",}\n}"), "a", true)
	if want := "{\n  \"a\": {\"command\": \"a\", \"disabled\": true,}\n}"; err != nil || string(got) != want {
		t.Errorf("%v; got\n%s\nwant\n%s", err, got, want)
	}
	for _, file := range []string{
		`{"mcpServers":{"a":{"command":"a"}}}`, `{"mcpServers": {"a": { "command": "a" }}}`, `{"mcpServers": {"a": { "command": "a", }, }, }`,
		"{\n  \"a\": { \"url\": \"u\" /* ours */ }\n}", "{\n  \"a\": {\n    \"url\": \"u\" // ours\n  }\n}",
	} {
		off, err := DisableServer("f", []byte(file), "a", true)
		expect.OK(t, err)
		if on, err := DisableServer("f", off, "a", false); err != nil || string(on) != file {
			t.Errorf("%v; disabled and enabled:\n%s\nwant\n%s", err, on, file)
		}
	}
	if _, err := PutServer("f", []byte(`{"a":{"command":"a"}}`), "metarouter", "{}"); err == nil {
		t.Error("a server is called as the router's settings")
	}
}

func TestHasServer(t *testing.T) {
	const file = "{\n  \"servers\": {\"x\": {}},\n  \"mcpServers\": {\n    \"x\": {}\n  }\n}"
	if ok, err := HasServer("f", []byte(file), "x"); !ok || err != nil {
		t.Error(ok, err)
	}
	if ok, err := HasServer("f", []byte(file), "y"); ok || err != nil {
		t.Error("a server that there is not", ok, err)
	}
	if ok, _ := HasServer("f", []byte(`{"a": {"command": "a"}, "metarouter": {}}`), "metarouter"); ok {
		t.Error("the router's settings are a server")
	}
}

// All keys that package config reads servers from are known here.
func TestRoots(t *testing.T) {
	for _, key := range roots {
		if _, got, err := config.Parse("f", []byte(`{"`+key+`": {}}`)); got != key || err != nil {
			t.Error(key, got, err)
		}
	}
}

// Whatever the file, an edit leaves a file that is read as it was asked for, or fails.
func FuzzEntries(f *testing.F) {
	for _, file := range []string{"", "{}", `{"a":{"command":"a"}}`, "// c\n{\"servers\": {\"s\": {\"url\": \"x\",},}, }\n", `{"mcpServers":null}`, "\ufeff{\r\n \"mcpServers\": {\"s\": {\"enabled\": true /* c */}}\r\n}"} {
		f.Add(file, "s")
	}
	f.Fuzz(func(t *testing.T, file, name string) {
		server := func(data []byte) (s config.Server, ok bool) {
			c, err := config.ReadText("f", data)
			expect.OK(t, err, "%q makes\n%s", file, data)
			i := slices.IndexFunc(c.Servers, func(s config.Server) bool { return s.Name == name })
			if i < 0 {
				return s, false
			}
			return c.Servers[i], true
		}
		data, err := PutServer("f", []byte(file), name, "{\n  \"command\": \"new\",\n  \"args\": [\"1\"]\n}")
		if err != nil || len(name) > 256 || !utf8.ValidString(name) {
			return
		}
		if s, ok := server(data); !ok || s.Command != "new" {
			t.Fatalf("%q + %q is\n%s", file, name, data)
		}
		for _, disabled := range []bool{true, false} {
			if data, err = DisableServer("f", data, name, disabled); err != nil {
				t.Fatal(err)
			}
			if s, _ := server(data); s.Disabled != disabled {
				t.Fatalf("disabled is not %v:\n%s", disabled, data)
			}
		}
		if data, err = SetArgument("f", data, name, "1", "2"); err != nil {
			t.Fatal(err)
		}
		if s, _ := server(data); s.Args[0] != "2" {
			t.Fatalf("the argument is not set:\n%s", data)
		}
		if data, err = RemoveServer("f", data, name); err != nil {
			t.Fatal(err)
		}
		if _, ok := server(data); ok {
			t.Fatalf("%q is still in\n%s", name, data)
		}
	})
}
