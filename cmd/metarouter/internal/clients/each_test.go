package clients

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// An entry for each server takes the place of the client's own, and the file comes back byte for byte, also with an edit by another
// program in between.
func TestEach(t *testing.T) {
	e := RouterEntry{Command: "/metarouter", Configs: []string{"/c.json"}}
	const own = `"alpha":  {"command": "srv", "args": ["alpha"], "env": {"TOKEN": "sk-1"}, "timeout": 5}`
	for name, tc := range map[string]struct{ client, before string }{
		"lines":   {"claude-code", "{\n\t\"n\": 1,\n\t\"mcpServers\": {\n\t\t" + own + ",\n\t\t\"other\": { \"command\": \"x\" }\n\t},\n\t\"z\": 2\n}\n"},
		"one":     {"claude-code", `{"mcpServers":{` + own + `},"n":1}`},
		"CRLF":    {"claude-desktop", "\ufeff{\r\n  \"mcpServers\": {\r\n    " + own + "\r\n  }\r\n}\r\n"},
		"comment": {"vscode", "{\n  // mine\n  \"servers\": {\n    " + own + ", // last\n  },\n}\n"},
		"ours":    {"cursor", "{\n  \"mcpServers\": {\n    " + own + ",\n    \"metarouter\": {\"command\": \"/metarouter\", \"args\": [\"serve\"]}\n  }\n}\n"},
		"URL":     {"vscode", "{\n  \"servers\": {\n    " + own + ",\n    \"metarouter\": {\"type\": \"http\", \"url\": \"http://localhost:8787/mcp/p/work\", \"headers\": {\"A\": \"b\"}}\n  }\n}\n"},
	} {
		c, _ := Find(tc.client)
		s := Source{Path: "/f.json", Data: []byte(tc.before), keys: c.keys}
		ours := reading(t, "/c.json", `{"mcpServers": {"alpha": {"command": "srv", "args": ["alpha"], "env": {"TOKEN": "sk-1"}, "timeout": 5}, "beta": {"command": "y"}, "other": {"command": "z"}}}`)
		others, err := Others(c, s, "/c.json", ours)
		expect.OK(t, err, name)
		places, kept := Places([]string{"alpha", "beta", "other"}, others)
		expect.Equal(t, len(kept), strings.Count(tc.before, `"other"`), name+": names of other servers")
		data, err := InPlace(c, s, e, places)
		expect.OK(t, err, name)
		was, err := Replaced(c, s, data, nil)
		expect.OK(t, err, name)
		want := []string{`"--only", "alpha"`, `"--only", "beta"`, `"timeout"`}
		if name == "URL" {
			want = []string{`"http://localhost:8787/mcp/p/work/s/alpha"`, `"http://localhost:8787/mcp/p/work/s/beta"`, `"A": "b"`}
		}
		for _, part := range want {
			expect.Contains(t, strings.ReplaceAll(string(data), `",`+`"`, `", "`), part, name)
		}
		if strings.Contains(string(data), "sk-1") || strings.Contains(string(data), `"metarouter"`) {
			t.Errorf("%s: %s", name, data)
		}

		s.Data = data
		if others, err = Others(c, s, "/c.json", ours); err != nil {
			t.Fatal(err)
		}
		again, _ := Places([]string{"alpha", "beta"}, others)
		twice, err := InPlace(c, s, e, again)
		expect.OK(t, err, name)
		expect.Equal(t, string(twice), string(data), name+": twice")

		back, err := Undo(c, s, was)
		expect.OK(t, err, name)
		expect.Equal(t, string(back), tc.before, name+": undone")
		delete(was, after) // as if another program had changed an entry
		back, err = Undo(c, s, was)
		expect.OK(t, err, name)
		expect.Equal(t, string(back), tc.before, name+": undone entry by entry")
	}
}

// A client that searches tools itself gets them all, unless the configuration or the person has chosen otherwise.
func TestModeOfEntry(t *testing.T) {
	for _, tc := range []struct{ client, data, want string }{
		{"claude-code", "", `["serve", "--mode", "direct", "--find-tools"]`},
		{"vscode", "", `["serve", "--mode", "direct"]`},
		{"cursor", `{"mcpServers": {"metarouter": {"command": "metarouter", "args": ["serve", "--only", "a,b"]}}}`, `["serve", "--only", "a,b"]`},
		{"opencode", "", `["metarouter", "serve"]`},
		{"opencode", `{"mcp": {"servers": {}}}`, `["metarouter", "serve", "--mode", "direct"]`},
		{"claude-code", `{"mcpServers": {"metarouter": {"command": "metarouter", "args": ["serve", "--mode", "code"]}}}`, `["serve", "--mode", "code"]`},
	} {
		c, _ := Find(tc.client)
		s := Source{Path: "/f.json", Data: []byte(tc.data), keys: c.keys}
		data, err := Install(c, s, RouterEntry{Command: "metarouter"})
		expect.OK(t, err, tc.client)
		expect.Contains(t, string(data), tc.want, tc.client)
		data, err = Install(c, s, RouterEntry{Command: "metarouter", Chosen: true})
		expect.OK(t, err, tc.client)
		expect.Equal(t, strings.Contains(string(data), "direct"), false, tc.client+" with a mode of the configuration")
	}

	home := t.TempDir()
	for file, args := range map[string]string{".claude.json": `["serve"]`, ".cursor/mcp.json": `["serve", "--mode", "direct"]`, ".gemini/settings.json": `["serve", "--mode", "search"]`} {
		path := filepath.Join(home, file)
		expect.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(`{"mcpServers": {"metarouter": {"command": "metarouter", "args": `+args+`}}}`), 0o600)))
	}
	got := Misfits(on(runtime.GOOS, home, nil))
	if len(got) != 2 || !strings.HasPrefix(got[0].Problem, "Claude Code searches") || !strings.HasPrefix(got[1].Problem, "Cursor puts") {
		t.Errorf("%+v", got)
	}
}
