package builtin

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// tree makes a folder with a secret beside it, which no tool may reach.
func tree(t *testing.T) (root string) {
	t.Helper()
	base := t.TempDir()
	root = filepath.Join(base, "root")
	for name, content := range map[string]string{
		"secret.txt":                    "TOPSECRET",
		"root/readme.md":                "Hello World\nsecond line\nhello again\n",
		"root/empty":                    "",
		"root/.hidden.md":               "hello hidden\n",
		"root/docs/guide.md":            "a guide: HELLO\r\n",
		"root/docs/deep/er/notes.txt":   "nothing here\n",
		"root/bin.dat":                  "\x00\x01hello\xff",
		"root/umlaut.txt":               "aäöü€",
		"root/node_modules/x/readme.md": "hello module\n",
	} {
		write(t, filepath.Join(base, filepath.FromSlash(name)), content)
	}
	return root
}

func write(t *testing.T, name, content string) {
	t.Helper()
	expect.OK(t, os.MkdirAll(filepath.Dir(name), 0o755))
	expect.OK(t, os.WriteFile(name, []byte(content), 0o644))
}

func symlink(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Skip("no symbolic links here:", err)
	}
}

func arguments(key string, value any, more ...any) string {
	m := map[string]any{key: value}
	for i := 0; i < len(more); i += 2 {
		m[more[i].(string)] = more[i+1]
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestListDirectory(t *testing.T) {
	cs := connect(t, "files", tree(t))
	got := answer[listing](t, cs, "list_directory", `{}`)
	var names []string
	for _, e := range got.Entries {
		names = append(names, e.Type+" "+e.Name)
	}
	want := []string{"file .hidden.md", "file bin.dat", "directory docs", "file empty", "directory node_modules", "file readme.md", "file umlaut.txt"}
	if !slices.Equal(names, want) || got.Total != 7 || got.Truncated || got.Path != "." {
		t.Errorf("got %+v", got)
	}
	if e := got.Entries[1]; e.Size == nil || *e.Size != 8 || e.Modified == "" {
		t.Errorf("bin.dat: %+v", e)
	}
	if got := answer[listing](t, cs, "list_directory", `{"path":"docs/../docs/","limit":1}`); got.Path != "docs" || len(got.Entries) != 1 || got.Total != 2 || !got.Truncated {
		t.Errorf("got %+v", got)
	}
	refuse(t, cs, "list_directory", `{"path":"readme.md"}`, "readme.md")
	refuse(t, cs, "list_directory", `{"path":"missing"}`, "missing")
	refuse(t, cs, "list_directory", `{"limit":0}`, "limit")
	refuse(t, cs, "list_directory", `{"folder":"."}`, "folder")
}

func TestReadFile(t *testing.T) {
	root := tree(t)
	cs := connect(t, "files", root)
	for _, test := range []struct {
		args string
		want fileContent
	}{
		{`{"path":"empty"}`, fileContent{"empty", 0, 0, "utf-8", "", nil}},
		{`{"path":"./docs/guide.md"}`, fileContent{"docs/guide.md", 16, 0, "utf-8", "a guide: HELLO\r\n", nil}},
		{`{"path":"readme.md","limit":5}`, fileContent{"readme.md", 36, 0, "utf-8", "Hello", new(int64(5))}},
		{`{"path":"readme.md","offset":30}`, fileContent{"readme.md", 36, 30, "utf-8", "again\n", nil}},
		{`{"path":"readme.md","offset":36}`, fileContent{"readme.md", 36, 36, "utf-8", "", nil}},
		{`{"path":"bin.dat"}`, fileContent{"bin.dat", 8, 0, "base64", base64.StdEncoding.EncodeToString([]byte("\x00\x01hello\xff")), nil}},
		// Characters are never cut: aäöü€ has them at bytes 0, 1, 3, 5 and 7.
		{`{"path":"umlaut.txt","limit":4}`, fileContent{"umlaut.txt", 10, 0, "utf-8", "aä", new(int64(3))}},
		{`{"path":"umlaut.txt","offset":2,"limit":5}`, fileContent{"umlaut.txt", 10, 3, "utf-8", "öü", new(int64(7))}},
		{`{"path":"umlaut.txt","offset":7,"limit":2}`, fileContent{"umlaut.txt", 10, 7, "base64", "4oI=", new(int64(9))}},
	} {
		got := answer[fileContent](t, cs, "read_file", test.args)
		expect.Deep(t, got, test.want, "%s", test.args)
	}
	refuse(t, cs, "read_file", `{"path":"docs"}`, "directory")
	refuse(t, cs, "read_file", `{"path":""}`, "directory")
	refuse(t, cs, "read_file", `{"path":"readme.md","offset":37}`, "36 bytes")
	refuse(t, cs, "read_file", `{"path":"readme.md","offset":-1}`, "offset")
	refuse(t, cs, "read_file", `{"path":"readme.md","offset":1e300}`, "offset")
	refuse(t, cs, "read_file", `{"path":"readme.md","limit":1048577}`, "limit")
	refuse(t, cs, "read_file", `{}`, "path")
}

// Whatever its size, a file comes in pages that make it up.
func TestReadFileInPages(t *testing.T) {
	root := tree(t)
	want := strings.Repeat("aäöü€🙂\n", 30_000)
	write(t, filepath.Join(root, "big"), want)
	cs := connect(t, "files", root)
	var got strings.Builder
	for offset := int64(0); ; {
		page := answer[fileContent](t, cs, "read_file", arguments("path", "big", "offset", offset))
		if page.Offset != offset || len(page.Content) > 65536 {
			t.Fatalf("page at %d has %d bytes; asked for %d", page.Offset, len(page.Content), offset)
		}
		got.WriteString(page.Content)
		if page.NextOffset == nil {
			break
		}
		offset = *page.NextOffset
	}
	expect.Equal(t, got.String(), want, "the pages do not make up the file")
}

// every calls all the tools with one path.
func every(t *testing.T, cs *mcp.ClientSession, path string, check func(tool string, res *mcp.CallToolResult)) {
	t.Helper()
	for _, tool := range []string{"list_directory", "read_file"} {
		check(tool, call(t, cs, tool, arguments("path", path)))
	}
}

func TestNothingOutsideTheRoot(t *testing.T) {
	root := tree(t)
	outside := filepath.Dir(root)
	paths := []string{
		"..", "../secret.txt", "docs/../../secret.txt", "docs/deep/../../../secret.txt", "/etc/passwd", "/",
		filepath.Join(outside, "secret.txt"), root, `..\secret.txt`, `docs\..\..\secret.txt`, `C:\Windows`, "file:///etc/passwd",
		"readme.md\x00", "\x00", strings.Repeat("a", 5000), strings.Repeat("a/", 5000), strings.Repeat("../", 5000) + "etc/passwd", "~/x",
	}
	if runtime.GOOS != "windows" {
		symlink(t, "../secret.txt", filepath.Join(root, "link-file"))
		symlink(t, "..", filepath.Join(root, "link-dir"))
		symlink(t, filepath.Join(outside, "secret.txt"), filepath.Join(root, "link-absolute"))
		symlink(t, "link-dir", filepath.Join(root, "link-link"))
		symlink(t, "loop", filepath.Join(root, "loop"))
		paths = append(paths, "link-file", "link-dir", "link-dir/secret.txt", "link-absolute", "link-link/secret.txt", "docs/../link-dir/root/readme.md", "loop")
	}
	cs := connect(t, "files", root)
	for _, path := range paths {
		every(t, cs, path, func(tool string, res *mcp.CallToolResult) {
			text := resultText(t, res)
			if !res.IsError || strings.Contains(text, "TOPSECRET") {
				t.Errorf("%s %.40q is no error: %s", tool, path, text)
			}
		})
	}
	for _, e := range answer[listing](t, cs, "list_directory", `{}`).Entries {
		if strings.HasPrefix(e.Name, "link-") && (e.Type != "symlink" || e.Size != nil) {
			t.Errorf("%+v tells of what is outside", e)
		}
	}
}

func TestLinksInsideTheRoot(t *testing.T) {
	root := tree(t)
	symlink(t, "docs", filepath.Join(root, "link-dir"))
	symlink(t, filepath.Join("..", "readme.md"), filepath.Join(root, "docs", "link-file"))
	cs := connect(t, "files", root)
	expect.Equal(t, answer[fileContent](t, cs, "read_file", `{"path":"link-dir/link-file","limit":5}`).Content, "Hello")
	got := answer[listing](t, cs, "list_directory", `{"path":"link-dir"}`)
	i := slices.IndexFunc(got.Entries, func(e entry) bool { return e.Name == "link-file" })
	if i < 0 || got.Entries[i].Type != "file" || !got.Entries[i].Symlink || got.Entries[i].Size == nil {
		t.Errorf("got %+v", got.Entries)
	}
}
