package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// documents returns the texts of all documents by their paths from the root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, pattern := range []string{"*.md", "docs/*.md", "contrib/*/*.md"} {
		paths, err := filepath.Glob(filepath.Join("..", "..", pattern))
		expect.OK(t, err)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			expect.OK(t, err)
			all[path] = string(text)
		}
	}
	if len(all) < 10 {
		t.Fatalf("there are only %d documents", len(all))
	}
	return all
}

// A newcomer reads README.md and ARCHITECTURE.md in a few minutes each.
func TestDocumentsAreShort(t *testing.T) {
	all := documents(t)
	for name, most := range map[string]struct{ lines, words int }{
		"README.md":       {120, 1100},
		"ARCHITECTURE.md": {210, 2375}, // 50 lines of them say where a behaviour is
	} {
		text := all[filepath.Join("..", "..", name)]
		lines, words := strings.Count(text, "\n"), len(strings.Fields(text))
		if text == "" || lines > most.lines || words > most.words {
			t.Errorf("%s has %d lines and %d words, want at most %d and %d, and some", name, lines, words, most.lines, most.words)
		}
	}
}

// A user finds an answer in docs without reading it all.
func TestDocsAreShort(t *testing.T) {
	words := 0
	for path, text := range documents(t) {
		if filepath.Base(filepath.Dir(path)) == "docs" {
			words += len(strings.Fields(text))
		}
	}
	if words < 10000 || words > 26600 {
		t.Errorf("docs has %d words, want at most 26600", words)
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	unsaid  = regexp.MustCompile(`[^\w\- ]`) // signs that an anchor leaves out
)

// Links to files of the repository lead to files, and their anchors to headings.
func TestDocumentsLink(t *testing.T) {
	n, all := 0, documents(t)
	for path, text := range all {
		for _, to := range link.FindAllStringSubmatch(text, -1) {
			n++
			target := path
			if to[1] != "" {
				target = filepath.Join(filepath.Dir(path), to[1])
			}
			_, err := os.Stat(target)
			expect.OK(t, err, "%s links to %s", path, to[1])
			found := to[2] == ""
			for _, title := range heading.FindAllStringSubmatch(all[target], -1) {
				found = found || strings.ReplaceAll(unsaid.ReplaceAllString(strings.ToLower(title[1]), ""), " ", "-") == to[2]
			}
			if !found {
				t.Errorf("%s links to %s: no heading is called so", path, to[0])
			}
		}
	}
	if n < 20 {
		t.Errorf("there are only %d links", n)
	}
}

// CONTRIBUTING.md says why each module is required that go.mod requires directly.
func TestDependenciesAreExplained(t *testing.T) {
	text := documents(t)[filepath.Join("..", "..", "CONTRIBUTING.md")]
	modules, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	expect.OK(t, err)
	direct := regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(string(modules), -1)
	if len(direct) < 20 {
		t.Fatalf("go.mod requires only %d modules directly", len(direct))
	}
	for _, module := range direct {
		parts := strings.Split(regexp.MustCompile(`/v\d+$`).ReplaceAllString(module[1], ""), "/")
		if !strings.Contains(text, "/"+parts[len(parts)-1]+"`") && !strings.Contains(text, "`"+parts[len(parts)-1]+"`") {
			t.Errorf("CONTRIBUTING.md does not say why %s is required", module[1])
		}
	}
}

var (
	// placed is a function with its file: `server/tools.go: Server.call`.
	placed = regexp.MustCompile("`([\\w/]+\\.go): ([\\w.]+)`")

	// unplaced is a method without its file: `Server.call`.
	unplaced = regexp.MustCompile("`(\\w+\\.\\w+)`")

	// folder is the first cell of a row about a folder.
	folder = regexp.MustCompile("(?m)^\\| `([\\w/]+)` \\|")
)

// ARCHITECTURE.md names folders and functions that exist, and functions in their files.
func TestArchitectureNamesWhatExists(t *testing.T) {
	text := documents(t)[filepath.Join("..", "..", "ARCHITECTURE.md")]
	files, all := declared(t)
	names := placed.FindAllStringSubmatch(text, -1)
	for _, name := range names {
		if !files[name[1]][name[2]] {
			t.Errorf("%s has no function %s", name[1], name[2])
		}
	}
	for _, name := range unplaced.FindAllStringSubmatch(text, -1) {
		if !all[name[1]] && !strings.HasSuffix(name[1], ".go") {
			t.Errorf("there is no function %s", name[1])
		}
	}
	folders := folder.FindAllStringSubmatch(text, -1)
	for _, dir := range folders {
		if entry, err := os.Stat(filepath.Join("..", "..", dir[1])); err != nil || !entry.IsDir() {
			t.Errorf("there is no folder %s", dir[1])
		}
	}
	if len(names) < 40 || len(folders) < 10 {
		t.Errorf("it names only %d functions and %d folders", len(names), len(folders))
	}
}

// declared returns the functions of each file, and all together. A method is named
// Type.method.
func declared(t *testing.T) (files map[string]map[string]bool, all map[string]bool) {
	t.Helper()
	files, all = make(map[string]map[string]bool), make(map[string]bool)
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (entry.Name()[0] == '.' || entry.Name() == "testdata" || entry.Name() == "node_modules"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		functions := make(map[string]bool)
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				functions[nameOf(f)], all[nameOf(f)] = true, true
			}
		}
		files[filepath.ToSlash(name)] = functions
		return nil
	})
	expect.OK(t, err)
	return files, all
}

func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	return receiver(f.Recv.List[0].Type) + "." + f.Name.Name
}
