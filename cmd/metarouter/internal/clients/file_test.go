package clients

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes and links are those of Unix")
	}
	dir := t.TempDir()
	now := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	path := filepath.Join(dir, "new", "folder", "f.json")
	f, err := Read(path)
	if err != nil || f.Exists {
		t.Fatalf("%+v, %v", f, err)
	}
	if backup, err := f.Write([]byte("one"), fs.ModePerm, now); err != nil || backup != "" {
		t.Fatalf("%q, %v", backup, err)
	}
	if _, err := f.Write([]byte("two"), fs.ModePerm, now); !errors.Is(err, ErrChanged) {
		t.Errorf("what somebody else made is written over: %v", err)
	}

	// A link stays one; its target keeps its mode.
	link := filepath.Join(dir, "link.json")
	expect.OK(t, errors.Join(os.Chmod(path, 0o640), os.Symlink(path, link)))
	for i, want := range []string{".metarouter-backup-20260203T040506.000000Z", ".metarouter-backup-20260203T040506.000001Z"} {
		if f, err = Read(link); err != nil {
			t.Fatal(err)
		}
		before := string(f.Data)
		backup, err := f.Write([]byte(strings.Repeat("x", i+1)), fs.ModePerm, now)
		if err != nil || !strings.HasSuffix(backup, "f.json"+want) {
			t.Errorf("the copy is %q, %v", backup, err)
		}
		info, err := os.Stat(backup)
		if kept, _ := os.ReadFile(backup); err != nil || string(kept) != before || info.Mode() != 0o640 {
			t.Errorf("the copy says %q, want %q, %v", kept, before, info)
		}
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info, err)
	}
	if info, err = os.Stat(path); err != nil || info.Mode() != 0o640 {
		t.Errorf("it is %v, %v", info, err)
	}
	if data, _ := os.ReadFile(path); string(data) != "xx" {
		t.Errorf("it says %q", data)
	}

	// Secrets take the others' bits away.
	f, _ = Read(path)
	_, err = f.Write([]byte("secret"), 0o600, now)
	expect.OK(t, err)
	if info, _ = os.Stat(path); info.Mode() != 0o600 {
		t.Errorf("it is %v", info.Mode())
	}

	f, _ = Read(path)
	expect.OK(t, os.WriteFile(path, []byte("meanwhile"), 0o600))
	if _, err := f.Write([]byte("late"), fs.ModePerm, now); !errors.Is(err, ErrChanged) {
		t.Errorf("an edit is written over: %v", err)
	}

	// A read-only file stays, and a failed write leaves no copy behind.
	expect.OK(t, os.Chmod(path, 0o440))
	f, _ = Read(path)
	if _, err := f.Write([]byte("x"), fs.ModePerm, now.Add(time.Hour)); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("a file that is read-only: %v", err)
	}
	if copies, _ := filepath.Glob(path + ".*T05*"); len(copies) > 0 {
		t.Errorf("there are %q", copies)
	}

	loop := filepath.Join(dir, "loop")
	expect.OK(t, os.Symlink(loop, loop))
	if _, err := Read(loop); err == nil || !strings.Contains(err.Error(), loop) {
		t.Errorf("a link to itself: %v", err)
	}
	expect.OK(t, os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "dangling")))
	for _, path := range []string{dir, filepath.Join(dir, "dangling")} {
		if _, err := Read(path); err == nil {
			t.Errorf("%s was read", path)
		}
	}
}

func TestDiff(t *testing.T) {
	old := "{\n \"a\": 1,\n \"b\": 2,\n \"c\": 3,\n \"d\": 4,\n \"e\": 5,\n \"f\": 6,\n \"g\": 7,\n \"h\": 8,\n \"k\": 8,\n \"i\": 9\n}\n"
	new := "{\n \"a\": 1,\n \"B\": 2,\n \"c\": 3,\n \"d\": 4,\n \"e\": 5,\n \"f\": 6,\n \"g\": 7,\n \"h\": 8,\n \"k\": 8,\n \"i\": 9,\n \"env\": {\"x\": \"secret\", \"y\": \"${Y}\"}\n}\n"
	want := "--- f\n+++ f\n@@ -1,6 +1,6 @@\n {\n  \"a\": 1,\n- \"b\": 2,\n+ \"B\": 2,\n  \"c\": 3,\n  \"d\": 4,\n  \"e\": 5,\n" +
		"@@ -8,5 +8,6 @@\n  \"g\": 7,\n  \"h\": 8,\n  \"k\": 8,\n- \"i\": 9\n+ \"i\": 9,\n+ \"env\": {\"x\": \"•••\", \"y\": \"${Y}\"}\n }\n"
	expect.Equal(t, Diff("f", []byte(old), []byte(new)), want)
	expect.Equal(t, Diff("f", []byte(old), []byte(old)), "")
	// A value that is hidden is seen to change.
	got := Diff("f", []byte("{\"env\": {\n\"a\": \"x\"\n}}"), []byte("{\"env\": {\n\"a\": \"y\"\n}}"))
	if strings.Count(got, "•••") != 2 || !strings.Contains(got, "\n-\"a\"") {
		t.Errorf("got %s", got)
	}
	// A large file is compared, too.
	many := func(line string) []byte {
		return []byte("{\"a\": [\n" + strings.Repeat(line+",\n", 3000) + line + "\n]}")
	}
	got = Diff("f", many("1"), many("2"))
	if strings.Count(got, "\n-") != 3001+1 && strings.Count(got, "\n-1") != 3001 {
		t.Errorf("%d lines of the old", strings.Count(got, "\n-"))
	}
}

func TestMask(t *testing.T) {
	for text, want := range map[string]string{
		`{"env": {"A": "b", "n": 5, "empty": "", "v": "${V}", "w": "Bearer ${W}"}}`:                                                                `{"env": {"A": "•••", "n": "•••", "empty": "", "v": "${V}", "w": "Bearer ${W}"}}`,
		`{"headers": {"X": ["a"]}, "Headers": "a"}`:                                                                                                `{"headers": {"X": ["•••"]}, "Headers": "a"}`,
		`{"args": ["--token", "abc", "--port", "80", "--api-key=abc", "x=1", "API_TOKEN=abc"]}`:                                                    `{"args": ["--token", "•••", "--port", "80", "--api-key=•••", "x=1", "API_TOKEN=•••"]}`,
		`{"args": ["--header", "Authorization: Bearer abc", "ghp_abc", "sk-abc"]}`:                                                                 `{"args": ["--header", "Authorization: •••", "•••", "•••"]}`,
		`{"url": "https://u:pw@h.example/p?key=abc&x=1#f"}`:                                                                                        `{"url": "https://u:•••@h.example/p?key=•••&x=•••#f"}`,
		"{// \"API_KEY\": \"abc\", \"x\": \"y\", \"TOKEN\": \"${T}\" ghp_0123456789\n}":                                                            "{// \"API_KEY\": •••, \"x\": \"y\", \"TOKEN\": \"${T}\" •••\n}",
		`{"args": ["--key", "a1", "-u", "me:pw", "--pass=x y", "TOKEN: ${T}", "-c", "--pat", "p"], "pin": 1234}`:                                   `{"args": ["--key", "•••", "-u", "•••", "--pass=•••", "TOKEN: ${T}", "-c", "--pat", "•••"], "pin": "•••"}`,
		`{"args": ["-c", "export API_KEY=abc X=1; run --token 'abc' --level 3 --auth ${A}", "{\"Authorization\": \"Bearer abc\", \"a\": \"b\"}"]}`: `{"args": ["-c", "export API_KEY=••• X=1; run --token ••• --level 3 --auth ${A}", "{\"Authorization\": •••, \"a\": \"b\"}"]}`,
		`{"args": ["${API_TOKEN:-abc}", "https://key123@sentry.example/1", "db://u:p@ss@h/x", "curl -H 'X: Bearer abcdef'"]}`:                      `{"args": ["${API_TOKEN:•••", "https://•••@sentry.example/1", "db://u:•••@h/x", "curl -H 'X: Bearer •••'"]}`,
		`{"args": ["/home/me/tokens/x", "@acme/auth-server", "--port", "80", "-y", "https://esm.example/@a/b"]}`:                                   `{"args": ["/home/me/tokens/x", "@acme/auth-server", "--port", "80", "-y", "https://esm.example/@a/b"]}`,
		`{"primaryApiKey": "abc", "command": "npx"}`:                                                                                               `{"primaryApiKey": "•••", "command": "npx"}`,
	} {
		expect.Equal(t, maskedText(text), want)
	}
}

// A long line is cut, and the diff of a large file masks only the lines that it shows.
func TestDiffOfLarge(t *testing.T) {
	long := `{"history": "` + strings.Repeat("x", 900) + `", "b": "` + strings.Repeat("y", 900) + `", "mcpServers": {`
	got := Diff("f", []byte(long+"}}"), []byte(long+"\n"+`"new": {"env": {"A": "secret"}}}}`))
	if !strings.Contains(got, "…\n+\"new\": {\"env\": {\"A\": \"•••\"}}}}") || len(got) > 1000 {
		t.Errorf("got %s", got)
	}
	edit := func(lines int) (old, edited []byte) {
		many := `{"history": [` + strings.Repeat("\n\"a prompt of a user\",", lines) + "\n\"\"],\n"
		return []byte(many + `"z": 1}`), []byte(many + `"z": 2}`)
	}
	old, edited := edit(200000)
	expect.Equal(t, strings.Count(Diff("f", old, edited), "\n"), 8)
	// To parse both texts takes 6 allocations a line; to mask all of both takes 20 more.
	const lines = 2000
	old, edited = edit(lines)
	if n := testing.AllocsPerRun(1, func() { Diff("f", old, edited) }); n > 10*lines {
		t.Errorf("%.0f allocations for %d lines: lines that are not shown are masked", n, lines)
	}
	// A mark alone is an empty file.
	expect.Equal(t, Diff("f", bom, append(bom, "{}\n"...)), "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+{}\n")
}

// A file without an end is not read into memory.
func TestLargeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large.json")
	expect.OK(t, os.WriteFile(path, []byte("{}"), 0o600))
	expect.OK(t, os.Truncate(path, maxFile+1))
	if f, err := Read(path); err == nil {
		t.Errorf("read %d bytes", len(f.Data))
	}
}

// Of the copies of a file, the newest ones stay, and no other file goes.
func TestBackups(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f.json")
	others := []string{
		"f.json", "f.json.metarouter-backup-mine", "f.json.metarouter-backup-20200203T040506Z", "f.json.metarouter-backup-20200203T040506.00001Z",
		"f.json.metarouter-backup-20200203T040506.000000Z.gz", "f.json.metarouter-backup-20201303T040506.000000Z", "g.json.metarouter-backup-20200203T040506.000000Z", "my-f.json.metarouter-backup-20200203T040506.000000Z",
	}
	for _, name := range others {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte("0"), 0o600))
	}
	folder := path + ".metarouter-backup-20190203T040506.000000Z"
	expect.OK(t, os.Mkdir(folder, 0o700))
	now := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	for i := range 15 {
		f, err := Read(path)
		if err == nil {
			_, err = f.Write(append(f.Data, '.'), fs.ModePerm, now.Add(time.Duration(i)*50*time.Millisecond))
		}
		expect.OK(t, err)
	}
	f, err := Read(path)
	expect.OK(t, err)
	var kept []string
	for _, copied := range f.Backups() {
		data, err := os.ReadFile(copied)
		expect.OK(t, err)
		kept = append(kept, strings.Repeat("x", len(data)-1))
	}
	expect.List(t, kept, []string{strings.Repeat("x", 10), strings.Repeat("x", 11), strings.Repeat("x", 12), strings.Repeat("x", 13), strings.Repeat("x", 14)}, "the copies")
	for _, name := range append(others, filepath.Base(folder)) {
		_, err := os.Stat(filepath.Join(dir, name))
		expect.OK(t, err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != len(others)+1+5 {
		t.Errorf("there are %d files: %v", len(entries), entries)
	}
}

// A file in UTF-16 is read and edited as text, and stays in UTF-16; so does its copy.
func TestUTF16File(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	const mark = "\ufeff"
	content := safefile.Like([]byte{0xff, 0xfe}, []byte(mark+`{"mcpServers": {"é": {"command": "x", "args": [null, "a"]}}}`))
	expect.OK(t, os.WriteFile(path, content, 0o600))
	f, err := Read(path)
	expect.OK(t, err)
	text, err := DisableServer(path, f.Data, "é", true)
	expect.OK(t, err)
	backup, err := f.Write(text, fs.ModePerm, time.Now())
	expect.OK(t, err)
	if kept, _ := os.ReadFile(backup); !bytes.Equal(kept, content) {
		t.Errorf("the copy is %q", kept)
	}
	want := safefile.Like(content, []byte(mark+`{"mcpServers": {"é": {"command": "x", "args": [null, "a"], "disabled": true}}}`))
	if is, _ := os.ReadFile(path); !bytes.Equal(is, want) {
		t.Errorf("it is %q, want %q", is, want)
	}
	c, err := config.Load(path)
	if err != nil || len(c.Servers) != 1 || !c.Servers[0].Disabled {
		t.Errorf("it is read as %+v, %v", c, err)
	}
}
