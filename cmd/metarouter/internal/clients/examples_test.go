package clients

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// An example is a file as it is found with users.
type example struct {
	client, file string
	keys         []string
	servers      []string // that import takes over
}

var examples = []example{
	{"claude-desktop", "claude-desktop.json", claudeKeys, []string{"filesystem", "github", "my notes"}},
	{"claude-code", "claude-code.json", claudeKeys, []string{"context7", "playwright"}},
	{"gemini", "gemini.json", claudeKeys, []string{"github", "docs", "events"}},
	{"cursor", "cursor.json", claudeKeys, []string{"linear", "postgres", "figma"}},
	{"vscode", "vscode.json", []string{"servers"}, []string{"github", "everything"}},
	{"vscode", "vscode-settings.json", []string{"mcp", "servers"}, []string{"weather"}},
	{"windsurf", "windsurf.json", claudeKeys, []string{"zapier", "memory"}},
}

// variants are an example's data as other editors would have written it.
func (e example) variants(t *testing.T) map[string][]byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", e.file))
	expect.OK(t, err)
	crlf := bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n"))
	return map[string][]byte{
		"as it is": data,
		"crlf":     crlf,
		"mark":     append(slices.Clone(bom), crlf...),
		"tabs":     bytes.ReplaceAll(data, []byte("  "), []byte("\t")),
		"no end":   bytes.TrimRight(data, "\n"),
	}
}

var entry = RouterEntry{Command: `C:\Program Files\metarouter\metarouter.exe`, Configs: []string{"/home/ada/<config>/mcp.json"}, Chosen: true}

// Our entry goes into each client's file and out again, and nothing else changes by a
// byte; a second time there is nothing to do.
func TestInstallLosesNothing(t *testing.T) {
	for _, e := range examples {
		c, _ := Find(e.client)
		for name, data := range e.variants(t) {
			t.Run(e.file+"/"+name, func(t *testing.T) {
				s := Source{Client: c, Path: e.file, Data: data, keys: e.keys}
				installed, err := Install(s, entry, all, nil)
				expect.OK(t, err)
				s.Data = installed
				if again, err := Install(s, entry, all, nil); err != nil || !bytes.Equal(again, installed) {
					t.Errorf("the second time it says %s, %v", again, err)
				}
				out, err := Install(s, RouterEntry{}, nil, []string{EntryName})
				if err != nil || !bytes.Equal(out, data) {
					t.Errorf("without our entry it says\n%s\nwas\n%s\n%v", out, data, err)
				}
				expect.Deep(t, comments(t, installed), comments(t, data), "the comments")
				d, err := open(e.file, installed)
				expect.OK(t, err)
				ours := d.at(append(slices.Clone(e.keys), EntryName)...)
				if ours == nil {
					t.Fatalf("no entry in\n%s", installed)
				}
				want := `"command":"C:\\Program Files\\metarouter\\metarouter.exe","args":["serve","--config","/home/ada/<config>/mcp.json"]}`
				got := ours.Clone()
				got.Minimize()
				if said := strings.TrimSpace(got.String()); !strings.HasSuffix(said, want) || strings.Contains(said, `"type":"stdio"`) != c.typed {
					t.Errorf("the entry is %s, want …%s", said, want)
				}
			})
		}
	}
}

// Every server of each client is taken over with all its keys, unknown ones too.
// Then --replace may take all out of the client's file.
func TestImportLosesNothing(t *testing.T) {
	t.Setenv("PGPASSWORD", "x")
	t.Setenv("ZAPIER_KEY", "x")
	t.Setenv("GITHUB_TOKEN", "x")
	t.Setenv("KEY", "x")
	path := filepath.Join(t.TempDir(), "mcp.json")
	for _, e := range examples {
		c, _ := Find(e.client)
		for name, data := range e.variants(t) {
			t.Run(e.file+"/"+name, func(t *testing.T) {
				s := Source{Client: c, Path: e.file, Data: data, keys: e.keys}
				done, err := Import([]Source{s}, path, nil, Ours{})
				expect.OK(t, err)
				expect.Deep(t, done.Added, e.servers, "added")
				read, err := readExpanded(path, done.Data)
				if err != nil || len(read.Servers) != len(e.servers) {
					t.Fatalf("%v, %d servers in\n%s", err, len(read.Servers), done.Data)
				}
				expect.Contains(t, string(done.Data), schemaURL, "no schema in")
				theirs, _ := open(e.file, data)
				imported, _ := open(path, done.Data)
				for _, server := range e.servers {
					was, is := theirs.at(append(slices.Clone(e.keys), server)...), imported.at("mcpServers", server)
					var keys []string
					for _, m := range object(was).Members {
						keys = append(keys, jsonc.Key(m))
						if member(is, jsonc.Key(m)) == nil {
							t.Errorf("%s: no %q", server, jsonc.Key(m))
						}
					}
					expect.Equal(t, len(object(is).Members), len(keys), "%s has further keys: %s", server, is)
					if e.client != "vscode" && meaning(t, []byte(was.String())) != meaning(t, []byte(is.String())) {
						t.Errorf("%s is %s, was %s", server, is, was)
					}
				}

				own := Ours{Config: read, Files: []Source{{Path: path, Data: done.Data}}}
				again, err := Import([]Source{s}, path, done.Data, own)
				if err != nil || !bytes.Equal(again.Data, done.Data) || !reflect.DeepEqual(again.Same, e.servers) {
					t.Errorf("the second time: %+v, %v", again, err)
				}
				others, err := Others(s, path, own)
				expect.OK(t, err)
				for _, o := range others {
					if o.Ours != o.Name || o.Stays != "" {
						t.Errorf("in ours it is not the same: %+v", o)
					}
				}
				less, err := Install(s, RouterEntry{}, nil, e.servers)
				expect.OK(t, err)
				left, _ := open(e.file, less)
				expect.Equal(t, len(object(left.at(e.keys...)).Members), 0, "… are left in\n%s", less)
				expect.Equal(t, meaning(t, less, e.keys...), meaning(t, data, e.keys...), "the rest of the file")
			})
		}
	}
}

// No secret of the examples is shown, whatever the diff is about.
func TestDiffsHideSecrets(t *testing.T) {
	secrets := []string{"ghp_0123", "ctx7sk-1234", "hunter2", "figd_abc", "ada@example.org", "0f0e0d0c", "sk-ak-secret"}
	for _, e := range examples {
		data := e.variants(t)["as it is"]
		diff := Diff("f", nil, data) + Diff("f", data, []byte("{}"))
		for _, secret := range secrets {
			expect.Equal(t, strings.Contains(diff, secret), false, "%s: the diff shows %s", e.file, secret)
		}
		expect.Contains(t, diff, "command", "%s: the diff shows nothing", e.file)
	}
}
