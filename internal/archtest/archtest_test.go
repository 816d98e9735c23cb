// Package archtest holds the project to its import rules: imports point one way
// along the path config, supervisor, discovery, registry, selector, adapter,
// server, and peers never meet.
package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/mcp-metarouter/metarouter/"

// allowed says what of ours each package may import. internal/wire, which knows
// bytes and nothing else, internal/atomicfile and internal/vectors are open to all.
var allowed = map[string][]string{
	"internal/wire":         {},
	"internal/atomicfile":   {},
	"internal/vectors":      {},
	"internal/pipe":         {},
	"internal/sse":          {},
	"config":                {},
	"session":               {},
	"registry":              {},
	"classify":              {"config", "session"},
	"supervisor":            {"internal/pipe", "internal/secret", "internal/sse", "config", "session"},
	"discovery":             {"registry", "session", "classify"},
	"selector":              {"registry", "session", "classify"},
	"adapter":               {"internal/builtin", "internal/sse", "internal/usage", "config", "supervisor", "discovery", "registry", "selector", "session", "classify"},
	"server":                {"adapter", "registry", "selector", "session", "classify"},
	"internal/builtin":      {},
	"internal/doctor":       {"internal/secret", "config", "supervisor", "discovery", "registry", "selector", "session"},
	"internal/terminal":     {},
	"internal/mcptest":      {},
	"internal/dashboard":    {"internal/doctor", "internal/secret", "internal/telemetry", "adapter", "config", "registry", "selector", "server", "session", "supervisor"},
	"internal/clients":      {"internal/secret", "config"}, // for what its diffs hide
	"internal/daemon":       {},
	"contrib/mcpb":          {},
	"docs/demo":             {},
	"examples/orchestrator": {"adapter", "config", "registry", "selector"},
	"internal/secret":       {"config"},
	"internal/telemetry":    {"internal/secret", "adapter", "config", "registry", "selector", "server", "supervisor"},
	"internal/evaluation":   {"discovery", "registry", "selector"},
	"internal/train":        {"internal/evaluation", "internal/usage", "registry", "selector"},
	"internal/usage":        {},
	"internal/e2e":          {},
	"internal/chaos":        {"internal/mcptest"},
	"cmd/metarouter": {
		"adapter", "server", "config", "session", "registry", "selector", "supervisor", "classify",
		"internal/builtin", "internal/clients", "internal/daemon", "internal/dashboard", "internal/doctor", "internal/evaluation", "internal/pipe", "internal/secret", "internal/telemetry", "internal/terminal", "internal/usage",
	},
}

var open = map[string]bool{"internal/wire": true, "internal/atomicfile": true, "internal/vectors": true}

func TestImports(t *testing.T) {
	// Not by "go list": the files are read here, so that a cached result of this test
	// is never an old one, and those of all platforms are.
	root := filepath.Join("..", "..")
	seen := make(map[string]bool)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (entry.Name()[0] == '.' || entry.Name() == "testdata" || entry.Name() == "node_modules"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		name := filepath.ToSlash(dir)
		may, known := allowed[name]
		if !known {
			t.Errorf("package %s has no import rule; add one here", name)
			return nil
		}
		seen[name] = true
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			ours, isOurs := strings.CutPrefix(imported, module)
			if isOurs && !open[ours] && !slices.Contains(may, ours) {
				t.Errorf("%s imports %s, which the design does not allow", path, ours)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range allowed {
		if !seen[name] && name != "internal/e2e" {
			t.Errorf("there is no package %s", name)
		}
	}
}
