package clients

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// all is our entry for all servers.
var all = []Place{{Name: EntryName}}

// An entry for each server takes the place of the client's own, and the file comes back byte for byte, also after a second time, or if
// another program has changed an entry in between.
func TestEach(t *testing.T) {
	e := RouterEntry{Command: "/metarouter", Configs: []string{"/c.json"}}
	const own = `"alpha":  {"command": "srv", "args": ["alpha"], "env": {"TOKEN": "sk-1"}, "timeout": 5}`
	const remote = `"mine": {"url": "https://mcp.linear.app/mcp", "headers": {"Authorization": "x"}}`
	for name, tc := range map[string]struct{ client, before string }{
		"lines":   {"claude-code", "{\n\t\"n\": 1,\n\t\"mcpServers\": {\n\t\t" + own + ",\n\t\t\"other\": { \"command\": \"x\" }\n\t},\n\t\"z\": 2\n}\n"},
		"one":     {"claude-code", `{"mcpServers":{` + own + `},"n":1}`},
		"remote":  {"claude-code", `{"mcpServers":{` + remote + `,` + own + `},"n":1}`},
		"CRLF":    {"claude-desktop", "\ufeff{\r\n  \"mcpServers\": {\r\n    " + own + "\r\n  }\r\n}\r\n"},
		"comment": {"vscode", "{\n  // mine\n  \"servers\": {\n    " + own + ", // last\n  },\n}\n"},
		"ours":    {"cursor", "{\n  \"mcpServers\": {\n    " + own + ",\n    \"metarouter\": {\"command\": \"/metarouter\", \"args\": [\"serve\"]}\n  }\n}\n"},
		"missing": {"cursor", ""}, "blank": {"cursor", "\n"}, "empty": {"cursor", "{ }"}, "none": {"cursor", `{"theme":"dark"}`},
		"null": {"cursor", `{"mcpServers": null, "n": 1}`}, "deeper": {"opencode", "{\n  \"mcp\": {\n    \"servers\": {}\n  }\n}\n"},
	} {
		c, _ := Find(tc.client)
		s := Source{Client: c, Path: "/f.json", Data: []byte(tc.before), keys: c.keys}
		ours := reading(t, "/c.json", `{"mcpServers": {"alpha": {"command": "srv", "args": ["alpha"], "env": {"TOKEN": "sk-1"}, "timeout": 5}, "beta": {"command": "y"}, "other": {"command": "z"}, "mine": {"url": "https://mcp.linear.app/mcp", "headers": {"Authorization": "x"}}}}`)
		want := []string{`"--only", "alpha"`, `"--only", "beta"`, `"--only", "mine"`}
		var record Record
		for _, servers := range [][]string{{"alpha", "beta", "other"}, {"alpha", "mine"}, {"alpha", "mine"}} {
			others, err := Others(s, "/c.json", ours)
			expect.OK(t, err, name)
			places := Places(servers, others)
			expect.Equal(t, len(servers)-len(places), strings.Count(tc.before, `"other"`)*(len(servers)-2), name+": names of other servers")
			data, err := Install(s, e, places, []string{EntryName})
			expect.OK(t, err, name)
			record, err = Replaced(s, tc.before == "", data, record)
			expect.OK(t, err, name)
			s.Data = data
		}
		for _, part := range want {
			expect.Contains(t, strings.ReplaceAll(string(s.Data), `",`+`"`, `", "`), part, name)
		}
		if strings.Contains(string(s.Data), "sk-1") || strings.Contains(string(s.Data), `"metarouter"`) {
			t.Errorf("%s: %s", name, s.Data)
		}
		back, left, err := Undo(s, record)
		if string(back) != tc.before || len(left) > 0 || err != nil {
			t.Errorf("%s: undone is %q, %v, %v; was %q", name, back, left, err, tc.before)
		}
		record.After += " " // as if another program had changed an entry
		back, _, err = Undo(s, record)
		expect.OK(t, err, name)
		if strings.Contains(tc.before, "\n") && name != "deeper" {
			expect.Equal(t, string(back), tc.before, name+": undone entry by entry")
		}
	}
}

// Undo restores and removes what Replaced has recorded in a file that another program has changed, and no other entry.
func TestUndo(t *testing.T) {
	const linear, ours = `{"url":"https://mcp.linear.app/mcp","headers":{"A":"b"}}`, `{"command":"metarouter","args":["serve","--only","x"]}`
	c, _ := Find("cursor")
	for _, tc := range []struct{ before, after, changed, want, left string }{
		{`"a":` + linear, `"a":` + linear + `,"metarouter":` + ours, `"a": ` + linear + `, "metarouter": ` + ours, `"a": ` + linear, ""},
		{`"a":` + linear, `"metarouter":` + ours, `"b": ` + linear + `, "metarouter": ` + ours, `"b": ` + linear + `, "a": ` + linear, ""},
		{`"a":` + linear, `"a":` + ours + `,"b":` + ours, `"a": ` + ours + `, "b": ` + linear, `"a": ` + linear + `, "b": ` + linear, ""},
		{`"a":` + linear, `"a":` + ours, `"a": {"url": "https://a/mcp"}`, `"a": {"url": "https://a/mcp"}`, "a"},
		{`"a":` + linear, `"a":` + ours, `"a":` + linear, `"a":` + linear, ""},
		{"\r\n  \"a\": {\r\n    \"command\": \"x\"\r\n  }\r\n", `"metarouter":` + ours, "\r\n  \"b\": {},\r\n  \"metarouter\": " + ours + "\r\n", "\r\n  \"b\": {},\r\n  \"a\": {\r\n    \"command\": \"x\"\r\n  }\r\n", ""},
	} {
		file := func(servers string) []byte { return []byte(`{"mcpServers": {` + servers + `}}`) }
		r, err := Replaced(Source{Client: c, Path: "/f", Data: file(tc.before), keys: c.keys}, false, file(tc.after), Record{})
		expect.OK(t, err, tc.changed)
		got, left, err := Undo(Source{Client: c, Path: "/f", Data: file(tc.changed), keys: c.keys}, r)
		if string(got) != string(file(tc.want)) || strings.Join(slices.Collect(maps.Keys(left)), " ") != tc.left || err != nil {
			t.Errorf("%s: %s, %v, %v", tc.changed, got, left, err)
		}
	}
}

// Entries of ours for servers that we lack go.
func TestPlaces(t *testing.T) {
	c, _ := Find("cursor")
	for args, want := range map[string]string{
		`"serve", "--config", "/c.json", "--only", "u"`:    "[{u u false}] false",
		`"serve", "--config", "/c.json", "--only", "gone"`: "[{u u false}] true",
		`"serve", "--config", "/d.json", "--only", "gone"`: "[] false",
		`"serve", "--config", "/c.json", "--only", "u,v"`:  "[] false",
	} {
		ours := reading(t, "/c.json", `{"mcpServers": {"u": {"command": "y"}}}`)
		data := []byte(`{"mcpServers": {"u": {"command": "metarouter", "args": [` + args + `]}}}`)
		others, err := Others(Source{Client: c, Path: "/f", Data: data, keys: c.keys}, "/c.json", ours)
		expect.OK(t, err, args)
		expect.Equal(t, fmt.Sprint(Places([]string{"u"}, others), others[0].Stale), want, "%s", args)
	}
}

// A client that searches tools itself gets them all, unless the configuration or the person has chosen otherwise.
func TestModeOfEntry(t *testing.T) {
	for _, tc := range []struct{ client, data, want string }{
		{"claude-code", "", `["serve", "--mode", "direct", "--find-tools"]`},
		{"vscode", "", `["serve", "--mode", "direct"]`},
		{"cursor", `{"mcpServers": {"metarouter": {"command": "metarouter", "args": ["serve", "--only", "a,b"]}}}`, `["serve", "--only", "a,b"]`},
		{"opencode", "", `["metarouter", "serve"]`},
		{"opencode", `{"mcp": {"servers": {"command": ["x"]}}}`, `["metarouter", "serve"]`}, // a server of that name
		{"opencode", `{"mcp": {"servers": {}}}`, `["metarouter", "serve", "--mode", "direct"]`},
		{"claude-code", `{"mcpServers": {"metarouter": {"command": "metarouter", "args": ["serve", "--mode", "code"]}}}`, `["serve", "--mode", "code"]`},
	} {
		c, _ := Find(tc.client)
		s := Source{Client: c, Path: "/f.json", Data: []byte(tc.data), keys: c.keys}
		data, err := Install(s, RouterEntry{Command: "metarouter"}, all, nil)
		expect.OK(t, err, tc.client)
		expect.Contains(t, string(data), tc.want, tc.client)
		data, err = Install(s, RouterEntry{Command: "metarouter", Chosen: true}, all, nil)
		expect.OK(t, err, tc.client)
		expect.Equal(t, strings.Contains(string(data), "direct"), false, tc.client+" with a mode of the configuration")
	}

	home := t.TempDir()
	file := filepath.Join(home, "c.json")
	expect.OK(t, os.WriteFile(file, []byte(`{"mcpServers": {"a": {"command": "x"}}}`), 0o600))
	for name, servers := range map[string]string{
		".claude.json":          `"metarouter": {"command": "metarouter", "args": ["serve"]}`,
		".cursor/mcp.json":      `"metarouter": {"command": "metarouter", "args": ["serve", "--mode", "direct"]}`,
		".gemini/settings.json": `"metarouter": {"command": "metarouter", "args": ["serve", "--mode", "search"]}`,
		".lmstudio/mcp.json":    `"a": {"command": ` + quoted(filepath.Join(home, "metarouter")) + `, "args": ["serve", "--only", "a"]}, "other": {"command": ` + quoted(home+"/other") + `}`,
		".aws/amazonq/mcp.json": `"a": {"command": "metarouter", "args": ["serve", "--config", ` + quoted(file) + `, "--only", "a"]}, "b": {"command": "metarouter", "args": ["serve", "--config", ` + quoted(file) + `, "--only", "b"]}`,
	} {
		path := filepath.Join(home, name)
		expect.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(`{"mcpServers": {`+servers+`}}`), 0o600)))
	}
	var got []string
	fix := "run: metarouter install amazon-q --config " + commandline.Quote(file) + " --write --each; or remove the entry"
	for _, m := range Misfits(on(runtime.GOOS, home, nil), config.Config{}) {
		got = append(got, strings.ReplaceAll(m.Problem, home+string(filepath.Separator), ""))
		if strings.HasSuffix(m.Problem, file) {
			expect.Equal(t, m.Fix, fix, "fix")
		}
	}
	for i, want := range []string{"Claude Code searches", "Cursor puts", `the entry "a" in .lmstudio/mcp.json starts metarouter, which is gone`, `the entry "b" in .aws/amazonq/mcp.json shows the server "b", which is not in c.json`} {
		if len(got) != 4 || !strings.HasPrefix(filepath.ToSlash(got[i]), want) {
			t.Errorf("%q, want %s", got, want)
		}
	}
}

func TestHasURL(t *testing.T) {
	c, _ := Find("cursor")
	for servers, want := range map[string]bool{
		`"metarouter": {"url": "https://hub.example/mcp"}`:           true,
		`"metarouter": {"command": "metarouter", "args": ["serve"]}`: false,
		`"a": {"url": "https://hub.example/mcp/s/a"}`:                false,
	} {
		expect.Equal(t, HasURL(Source{Client: c, Path: "/f", Data: []byte(`{"mcpServers": {` + servers + `}}`), keys: c.keys}), want, "%s", servers)
	}
	expect.Equal(t, HasURL(Source{Client: c, Path: "/f", keys: c.keys}), false, "no file")
}

// A record of an earlier build has all entries that changed, also if the file comes back as a whole.
func TestUndoEarlier(t *testing.T) {
	const before = `{"mcpServers": {"a": {"command": "x"}}}`
	const after = `{"mcpServers": {"a": {"command": "metarouter", "args": ["serve", "--only", "a"]}, "b": {"command": "metarouter", "args": ["serve", "--only", "b"]}}}`
	c, _ := Find("cursor")
	old, err := Source{Client: c, Data: []byte(before), keys: c.keys}.open()
	expect.OK(t, err)
	now, err := Source{Client: c, Data: []byte(after), keys: c.keys}.open()
	expect.OK(t, err)
	for _, r := range []Record{{Depth: 1, Before: written(old.servers), After: written(now.servers)}, {Before: before, After: after}, {}} {
		r.Entries = map[string]Entry{"a": {`{"command": "x"}`}, "b": {}}
		got, left, err := Undo(Source{Client: c, Path: "/f", Data: []byte(after), keys: c.keys}, r)
		if string(got) != before || len(left) > 0 || err != nil {
			t.Errorf("%+v: %s, %v, %v", r, got, left, err)
		}
	}
	got, _, err := Undo(Source{Client: c, Path: "/f", Data: []byte("{}"), keys: c.keys}, Record{Depth: 1, Before: "{}"})
	expect.Equal(t, string(got), "{}", "with a damaged record (%v)", err)
}

// Comments and trailing commas stay where our entry takes the place of all others.
func TestInstallInPlaceOfAll(t *testing.T) {
	c, _ := Find("cursor")
	s := Source{Client: c, Path: "/f", Data: []byte("{\n  \"mcpServers\": {\n    // a\n    \"a\": {\"command\": \"x\"}, // b\n  },\n}\n"), keys: c.keys}
	got, err := Install(s, RouterEntry{Command: "metarouter"}, all, []string{"a", EntryName})
	expect.OK(t, err)
	want := "{\n  \"mcpServers\": {\n    // a\n    // b\n    \"metarouter\": {\n      \"type\": \"stdio\",\n      \"command\": \"metarouter\",\n      \"args\": [\"serve\"]\n    },\n  },\n}\n"
	expect.Equal(t, string(got), want)
}
