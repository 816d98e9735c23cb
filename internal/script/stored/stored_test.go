package stored

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/script"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestSameBound(t *testing.T) {
	expect.Equal(t, maxCode, script.MaxCode, "… bytes are read, and … run")
}

func TestHeader(t *testing.T) {
	const object = `{"type":"object"}`
	for name, test := range map[string]struct{ code, description, schema string }{
		"block":               {"/* Says hello. */\nreturn 1", "Says hello.", object},
		"doc comment":         {"/** Says hello. */", "Says hello.", object},
		"stars":               {"/*\n * Says hello\n * to all.\n *\n * {\"type\": \"object\"}\n */", "Says hello\nto all.", object},
		"line comments":       {"\n\n// Says hello.\r\n//  {\"type\": \"object\",\r\n//   \"required\": [\"a\"]}\r\n\r\n// not the header\n", "Says hello.", `{"type":"object","required":["a"]}`},
		"the end of the file": {"// Says hello.", "Says hello.", object},
		"more stars":          {"/**\n * Says hello.\n **/", "Says hello.", object},
		"comments, commas":    {"/* Says hello.\n{ // an object\n\"type\": \"object\", } */", "Says hello.", object},
		"a comment's end":     {"/* Says hello.\n{\"type\": \"object\", \"pattern\": \"^a*\\/b$\"} */", "Says hello.", `{"type":"object","pattern":"^a*\/b$"}`},
		"brace in a line":     {"/* Says {hello}. */", "Says {hello}.", object},
		"a list":              {"/*\n * Says:\n * - hello\n * - good bye\n */", "Says:\n- hello\n- good bye", object},
	} {
		s, _, err := parse("x", test.code)
		var is, wants any
		if err != nil || json.Unmarshal(s.Input, &is) != nil || json.Unmarshal([]byte(test.schema), &wants) != nil || fmt.Sprint(is) != fmt.Sprint(wants) {
			t.Errorf("%s: %s, %v", name, s.Input, err)
		}
		if s.Name != "x" || s.Code != test.code || s.Description != test.description {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// § is the place of the mistake.
func TestHeaderMistakes(t *testing.T) {
	for name, test := range map[string]struct{ code, want string }{
		"no comment":      {"§return 1 // one", "has no description"},
		"empty":           {"§", "has no description"},
		"no description":  {"§/**/", "has no description"},
		"schema alone":    {"§/* {\"type\": \"object\"} */", "has no description"},
		"unterminated":    {"§/* Says hello.", "has no description"},
		"another comment": {"§x; /* Says hello. */", "has no description"},
		"no JSON":         {"/* Says hello.\n * {§type: 1} */", "is no JSON: invalid literal; write keys"},
		"words after it":  {"// Says hello.\n// {\"type\": \"object\"}\n//  §more", "is no JSON"},
		"comment's end":   {"/* Says hello.\n{\"type\": \"object\", \"pattern\": \"^a*/§b$\"} */", "is no JSON"},
		"no object":       {"/* Says hello.\n §{\"type\": \"string\"} */", "must be of an object"},
		"no type":         {"/* Says hello.\n §{\"properties\": {}} */", "must be of an object"},
		"wrong schema":    {"/* Says hello.\n §{\"type\": \"object\", \"properties\": 1} */", "can't be used"},
		"other files":     {"/* Says hello.\n §{\"type\": \"object\", \"$ref\": \"file:///etc/passwd\"} */", "can't be used"},
		"deep JSON":       {"/* Says hello.\n{" + strings.Repeat("[", 999) + "§[[", "more than 1000 brackets"},
		"deep schema":     {"/* Says hello.\n §{\"type\": \"object\", \"not\": " + strings.Repeat(`{"not": `, 200) + "{}" + strings.Repeat("}", 200) + "} */", "too costly"},
	} {
		before, after, _ := strings.Cut(test.code, "§")
		code := before + after
		if name == "deep JSON" {
			code += "*/"
		}
		s, at, err := parse("x", code)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "; ") {
			t.Errorf("%s: %s, %v", name, s.Input, err)
		}
		expect.Equal(t, at, len(before), "%s: the mistake is at …: %v", name, err)
	}
}

// folder makes a project with files in the folder "scripts".
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, "scripts", name)
		expect.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

const hello = "/* Says hello. */"

// names returns the names of the tools, and the problems by file.
func names(f Folder) (tools []string, problems map[string]string) {
	problems = make(map[string]string)
	for _, s := range f.Scripts {
		tools = append(tools, s.Name)
	}
	for _, p := range f.Problems {
		problems[p.File] = p.Err.Error()
	}
	return tools, problems
}

func TestRead(t *testing.T) {
	dir := folder(t, map[string]string{
		"b.js": hello, "a-1.js": "\ufeff" + hello, "u.js": "\xff\xfe/\x00*\x00H\x00i\x00*\x00/\x00", "notes.txt": hello, ".hidden.js": hello, "inner/c.js": hello, "d.js/e.js": hello,
		"large.js": hello + strings.Repeat("x", maxCode), "full.js": hello + strings.Repeat("x", maxCode-len(hello)),
		"a b.js": hello, strings.Repeat("x", 65) + ".js": hello, "latin.js": "/* \xe9t\xe9 */", "none.js": "return 1",
	})
	f := Read(dir, "scripts")
	tools, problems := names(f)
	if f.Err != nil || fmt.Sprint(tools) != "[a-1 b full u]" || f.Scripts[0].Code != hello || f.Scripts[3].Code != "/*Hi*/" || f.Scripts[0].File != "scripts/a-1.js" {
		t.Errorf("%v, %v", tools, f.Err)
	}
	for file, want := range map[string]string{
		"large.js": "larger than 64 KiB", "a b.js": "the name of a tool", strings.Repeat("x", 65) + ".js": "the name of a tool",
		"latin.js": "not UTF-8", "none.js": "has no description", "d.js": "it is a folder",
	} {
		expect.Contains(t, problems["scripts/"+file], want, "%s", file)
	}
	expect.Equal(t, len(problems), 6, "problems: %v", problems)
}

func TestReadTooMany(t *testing.T) {
	files := make(map[string]string)
	for i := range maxScripts + 1 {
		files[fmt.Sprintf("s%03d.js", i)] = hello
	}
	dir := folder(t, files)
	f := Read(dir, "scripts")
	if f.Err == nil || !strings.Contains(f.Err.Error(), "has 101 scripts") || len(f.Scripts) != maxScripts || f.Scripts[99].Name != "s099" {
		t.Errorf("%d scripts, %v", len(f.Scripts), f.Err)
	}
	for i := range maxFiles {
		files[fmt.Sprint(i)] = ""
	}
	if f := Read(folder(t, files), "scripts"); f.Err == nil || !strings.Contains(f.Err.Error(), "more than 1000 files") || f.Scripts != nil {
		t.Errorf("%d scripts, %v", len(f.Scripts), f.Err)
	}
}

func TestReadNoFolder(t *testing.T) {
	dir := folder(t, map[string]string{"a.js": hello})
	for path, want := range map[string]string{
		"..": "inside of the project", "../x": "inside of the project", dir: "inside of the project", "": "inside of the project",
		"other": "no such file", "scripts/a.js": "not a directory",
	} {
		if f := Read(dir, path); f.Err == nil || !strings.Contains(f.Err.Error(), want) || f.Scripts != nil {
			t.Errorf("%q: %v", path, f.Err)
		}
	}
	if f := Read(filepath.Join(dir, "none"), "scripts"); f.Err == nil {
		t.Error("a project that does not exist has a folder")
	}
}

func FuzzParse(f *testing.F) {
	for _, code := range []string{hello, "// a\n// {\"type\": \"object\"}", "/* a\n{\"type\": \"object\",} */", "/* a\n{ */"} {
		f.Add(code)
	}
	f.Fuzz(func(t *testing.T, code string) {
		s, at, err := parse("x", code)
		if at < 0 || at > len(code) || err == nil && (!json.Valid(s.Input) || s.Code != code || s.Description == "") {
			t.Errorf("%+v at %d: %v", s, at, err)
		}
	})
}
