package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/script/stored"
	"github.com/mcp-metarouter/metarouter/internal/trustfile"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// project makes a folder with files, and returns the paths of the files in their order.
func project(t *testing.T, texts ...[2]string) (paths []string) {
	t.Helper()
	dir := t.TempDir()
	for _, text := range texts {
		path := filepath.Join(dir, filepath.FromSlash(text[0]))
		expect.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		write(t, path, text[1])
		paths = append(paths, path)
	}
	return paths
}

const (
	hello      = "/* Says hello. */\nreturn 1"
	withFolder = `{"mcpServers": {"a": {"command": "x"}}, "metarouter": {"scripts": {"folder": "scripts"}}}`
)

func tools(c Config) (names []string) {
	for _, s := range c.Servers {
		for _, script := range s.Scripts {
			names = append(names, s.Name+":"+script.Name)
		}
	}
	return names
}

func TestStoredScripts(t *testing.T) {
	paths := project(t, [2]string{"mcp.json", withFolder}, [2]string{"scripts/b.js", hello}, [2]string{"scripts/a.js", hello})
	c := loaded(t, paths[0])
	if len(c.Servers) != 2 || len(c.Problems) > 0 {
		t.Fatalf("%d servers, problems %v", len(c.Servers), c.Problems)
	}
	s := c.Servers[1]
	if got := tools(c); !slices.Equal(got, []string{"scripts:a", "scripts:b"}) || s.Transport != Scripts || s.Misconfigured != "" || s.Scripts[0].Code != hello {
		t.Errorf("%v: %+v", got, s)
	}
	expect.Equal(t, c.Router.Scripts.Folder, filepath.Join(filepath.Dir(paths[0]), "scripts"), "folder")
	edited := s
	edited.Scripts = []stored.Script{s.Scripts[0]}
	if edited.Hash() == s.Hash() {
		t.Error("other tools have the same hash")
	}
	write(t, paths[0], `{"metarouter": {"scripts": {"folder": ""}}}`)
	if got := tools(loaded(t, paths[0])); got != nil {
		t.Errorf("without a folder: %v", got)
	}
}

// The last file that names a folder counts, and an entry of the name wins.
func TestStoredScriptsOfFiles(t *testing.T) {
	named := `{"metarouter": {"scripts": {"folder": "other"}}}`
	paths := project(t, [2]string{"1.json", withFolder}, [2]string{"2.json", named}, [2]string{"3.json", `{"metarouter": {"scripts": {"calls": 7}}}`},
		[2]string{"4.json", `{"mcpServers": {"scripts": {"command": "x"}}}`}, [2]string{"scripts/a.js", hello}, [2]string{"other/b.js", hello})
	for _, test := range []struct{ files, want []string }{
		{paths[:1], []string{"scripts:a"}},
		{paths[:3], []string{"scripts:b"}},
		{[]string{paths[1], paths[0], paths[2]}, []string{"scripts:a"}},
		{paths[:4], nil},
	} {
		c, err := Load(test.files...)
		if got := tools(c); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%v: %v, %v", test.files, got, err)
		}
		if len(test.files) == 4 && (len(c.Problems) != 1 || c.Problems[0].File != paths[1] || c.Problems[0].Severity != severityWarning || c.Problems[0].Fix != "rename that") {
			t.Errorf("an entry of the name: %+v", c.Problems)
		}
	}
}

func TestStoredScriptsMistakes(t *testing.T) {
	paths := project(t, [2]string{"mcp.json", withFolder}, [2]string{"scripts/b.js", "return 1"}, [2]string{"scripts/a.js", "\n/* Says hello.\n * {type: 1}\n */"},
		[2]string{"scripts/c.js", hello}, [2]string{"d.js", hello})
	c := loaded(t, paths[0])
	if got := tools(c); !slices.Equal(got, []string{"scripts:c"}) || len(c.Problems) != 2 {
		t.Fatalf("%v, %+v", got, c.Problems)
	}
	for i, want := range []Problem{
		{File: paths[2], Line: 3, Column: 5, Server: "scripts", Severity: severityError, Message: "the schema in the header is no JSON: invalid literal; write keys and strings in double quotes", Fix: "write keys and strings in double quotes"},
		{File: paths[1], Line: 1, Column: 1, Server: "scripts", Severity: severityError, Message: "the script has no description, so it is no tool; begin it with a comment such as /* Closes stale issues. */", Fix: "begin it with a comment such as /* Closes stale issues. */"},
	} {
		expect.Equal(t, c.Problems[i], want)
	}
	for folder, want := range map[string]string{
		`"none"`: `mcp.json:1:31: server "scripts": the folder "none" can't be read: `, `"../x"`: "must be a path inside of the project's folder",
		`"/etc"`: "must be a path inside of the project's folder", `"mcp.json"`: `the folder "mcp.json" can't be read: `,
	} {
		write(t, paths[0], `{"metarouter": {"scripts": {  "folder": `+folder+`}}}`)
		c := loaded(t, paths[0])
		if len(c.Problems) != 1 || !strings.Contains(c.Problems[0].Error(), want) || c.Problems[0].Severity != severityError || c.Problems[0].Fix == "" || tools(c) != nil {
			t.Errorf("%s: %v", folder, c.Problems)
		}
	}
}

// Every edit of a script needs an approval, and the text that was approved is the text that runs.
func TestStoredScriptsTrust(t *testing.T) {
	paths := project(t, [2]string{"mcp.json", withFolder}, [2]string{"scripts/a.js", hello}, [2]string{"scripts/b.js", hello})
	data, fresh := t.TempDir(), filepath.Join(filepath.Dir(paths[1]), "c.js")
	text := func() Config {
		t.Helper()
		c, err := LoadText(paths[0])
		expect.OK(t, err)
		return c
	}
	checked := text()
	expect.OK(t, checked.Text.Trust(data))
	if !trusted(t, text(), data) {
		t.Error("the approved text is not trusted")
	}
	for _, test := range []struct {
		edit func() error
		want string
	}{
		{func() error { return os.WriteFile(paths[1], []byte(hello+" "), 0o600) }, "edited: scripts/a.js"},
		{func() error { return os.WriteFile(fresh, []byte(hello), 0o600) }, "added: scripts/c.js; edited: scripts/a.js"},
		{func() error { return os.Remove(paths[2]) }, "added: scripts/c.js; removed: scripts/b.js; edited: scripts/a.js"},
	} {
		expect.OK(t, test.edit())
		u, ok := errors.AsType[*trustfile.Untrusted](text().Text.Trusted(data))
		if !ok || !strings.HasSuffix(u.Error(), "("+test.want+")") {
			t.Errorf("got %v, want %s", u, test.want)
		}
	}
	runs, _ := checked.Expand()
	if got := tools(runs); !trusted(t, runs, data) || !slices.Equal(got, []string{"scripts:a", "scripts:b"}) || runs.Servers[1].Scripts[0].Code != hello {
		t.Errorf("%v run, which are not the ones that were checked: %+v", got, runs.Servers[1])
	}
	edited := text()
	expect.OK(t, edited.Text.Trust(data))
	if expanded, _ := edited.Expand(); trusted(t, runs, data) || !expanded.Equal(loaded(t, paths[0])) {
		t.Error("an approval does not take the place of the one before")
	}
}
