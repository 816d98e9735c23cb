// Package archtest holds the project to its design: which package may import which, and how
// large each may be.
//
// A step of the path imports earlier steps only, and only those that its rule names. Steps that do
// not name each other are peers: adapter introduces them.
package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

const module = "github.com/mcp-metarouter/metarouter/"

// steps are the steps of the path. A step imports earlier steps only.
var steps = []string{
	"config", "registry", "supervisor", "discovery", "selector", "adapter", "server", "cmd/metarouter",
}

// leaves are the packages that know nothing of the path. Every package may import them; they
// import other leaves only.
var leaves = []string{
	"internal/approval",
	"internal/audit",
	"internal/bearer",
	"internal/clientauth",
	"internal/clusternode",
	"internal/commandline",
	"internal/configpath",
	"internal/content",
	"internal/encoder",
	"internal/ended",
	"internal/glob",
	"internal/jsonc",
	"internal/keeper",
	"internal/lazy",
	"internal/logfile",
	"internal/login",
	"internal/oauth",
	"internal/pipe",
	"internal/plain",
	"internal/process",
	"internal/program",
	"internal/prose",
	"internal/rate",
	"internal/reference",
	"internal/safefile",
	"internal/schema",
	"internal/script",
	"internal/script/stored",
	"internal/secret",
	"internal/session",
	"internal/signal",
	"internal/status",
	"internal/taglist",
	"internal/trustfile",
	"internal/urls",
	"internal/vault",
	"internal/wire",
}

// rules says which packages of this module a package may import, besides the leaves.
//
// A rule holds for the folders below it too, unless they have a rule of their own. Every
// package may import the internal packages of its own step, but a rule of its own has to name
// them. The go command rejects imports of another step's internal packages.
var rules = map[string][]string{
	// The path.
	"config":            {},
	"supervisor":        {"config"},
	"registry":          {},
	"discovery":         {"registry"},
	"selector":          {"registry", "internal/execute", "internal/index"},
	"adapter":           {"config", "supervisor", "internal/cluster", "registry", "selector", "internal/classify", "discovery", "internal/builtin", "internal/inprocess", "internal/profile", "internal/reload", "internal/capability", "internal/execute", "internal/script/host"},
	"adapter/functions": {"adapter", "internal/inprocess", "discovery", "registry", "selector", "internal/capability", "internal/execute"},
	"server":            {"adapter", "registry", "selector", "internal/classify", "internal/exposure", "internal/execute"},
	"cmd/metarouter": {
		"config", "supervisor", "internal/cluster", "registry", "selector", "internal/classify", "adapter", "server",
		"internal/builtin", "internal/hints", "internal/profile",
	},

	// Parts of a step that know less than the step.
	"adapter/internal/catalog":           {"config", "supervisor", "internal/classify", "discovery", "registry", "internal/hints", "internal/capability"},
	"adapter/internal/scope":             {"config", "internal/classify", "registry", "selector", "internal/profile"},
	"supervisor/internal/launch":         {"config", "supervisor/internal/peer"},
	"supervisor/internal/peer":           {},
	"supervisor/internal/transport":      {"supervisor/internal/peer"},
	"supervisor/internal/resolve":        {"config"},
	"selector/internal/text":             {"internal/index"},
	"selector/internal/rank":             {"registry", "internal/index", "selector/internal/text"},
	"server/internal/catalog":            {"registry", "adapter", "internal/exposure"},
	"server/internal/budget":             {},
	"server/internal/conversation":       {"server/internal/budget"},
	"server/internal/stdio":              {"server/internal/conversation"},
	"server/internal/httpd":              {"registry", "internal/classify", "adapter", "server/internal/catalog", "server/internal/conversation", "server/internal/identity", "internal/exposure"},
	"server/internal/identity":           {"server/internal/conversation"},
	"server/internal/tools":              {"registry", "internal/classify", "selector", "adapter", "server/internal/budget", "server/internal/catalog", "server/internal/conversation", "internal/execute", "internal/script/host"},
	"cmd/metarouter/internal/admin":      {"config", "registry", "internal/classify", "selector", "adapter", "server", "cmd/metarouter/internal/configfile", "cmd/metarouter/internal/dashboard", "cmd/metarouter/internal/doctor", "cmd/metarouter/internal/telemetry", "cmd/metarouter/internal/console", "internal/hints", "internal/profile", "internal/exposure", "internal/execute", "internal/script/host"},
	"cmd/metarouter/internal/cli":        {"config", "registry", "selector", "internal/classify", "adapter", "server", "cmd/metarouter/internal/admin", "cmd/metarouter/internal/configfile", "cmd/metarouter/internal/console", "cmd/metarouter/internal/daemon", "cmd/metarouter/internal/dashboard", "cmd/metarouter/internal/doctor", "cmd/metarouter/internal/edit", "cmd/metarouter/internal/service", "cmd/metarouter/internal/web", "internal/exposure", "cmd/metarouter/internal/clients"},
	"cmd/metarouter/internal/clients":    {"config"},
	"cmd/metarouter/internal/configfile": {"config", "supervisor", "cmd/metarouter/internal/clients", "cmd/metarouter/internal/console"},
	"cmd/metarouter/internal/console":    {},
	"cmd/metarouter/internal/daemon":     {},
	"cmd/metarouter/internal/dashboard":  {},
	"cmd/metarouter/internal/edit":       {"config", "supervisor", "cmd/metarouter/internal/clients", "cmd/metarouter/internal/configfile", "cmd/metarouter/internal/console"},
	"cmd/metarouter/internal/logins":     {"config", "adapter", "cmd/metarouter/internal/configfile", "cmd/metarouter/internal/console", "cmd/metarouter/internal/service"},
	"cmd/metarouter/internal/doctor":     {"config", "internal/cluster", "discovery", "registry", "selector", "cmd/metarouter/internal/console", "internal/hints"},
	"cmd/metarouter/internal/service":    {"internal/exposure", "config", "supervisor", "selector", "adapter", "server", "cmd/metarouter/internal/admin", "cmd/metarouter/internal/configfile", "cmd/metarouter/internal/console", "cmd/metarouter/internal/daemon", "cmd/metarouter/internal/telemetry", "cmd/metarouter/internal/web", "internal/profile", "internal/reload"},
	"cmd/metarouter/internal/telemetry":  {"config", "registry", "selector", "adapter", "server", "internal/execute", "internal/exposure"},
	"cmd/metarouter/internal/web":        {"adapter", "config", "server", "cmd/metarouter/internal/console", "internal/profile", "internal/reload"},

	// Parts that several steps share, and that know some of the path.
	"internal/builtin":     {},
	"internal/capability":  {"registry"},
	"internal/execute":     {"registry"},
	"internal/classify":    {"config"},
	"internal/cluster":     {"config"},
	"internal/exposure":    {"registry"},
	"internal/index":       {"registry"},
	"internal/inprocess":   {"discovery", "registry", "selector", "internal/capability", "internal/execute"},
	"internal/hints":       {"registry"},
	"internal/profile":     {"config", "registry"},
	"internal/script/host": {"registry", "selector", "internal/exposure"},
	"internal/reload":      {"config"},

	// Next to the product.
	"docs/demo":                {},
	"examples/servers":         {},
	"providers/internal/model": {"registry"},
	"providers/mux":            {"adapter", "registry", "selector", "internal/execute", "internal/inprocess", "providers/internal/model"},
	"providers/openai":         {"adapter", "registry", "selector", "internal/execute", "internal/inprocess", "providers/internal/model"},
	"providers/orchestrator":   {"adapter", "adapter/functions", "providers/mux", "providers/openai", "registry", "selector"},
	"tools/compare":            {"test/external", "test/fakeserver", "test/mcptest", "test/natsserver"},
	"tools/eval":               {"selector", "test/evaluation"},
	"tools/platforms":          {},
	"tools/quickjs":            {},
	"tools/release":            {},
	"tools/train":              {"registry", "selector", "test/evaluation"},

	// Tests. Only test files of the product import them.
	"test/evaluation": {"registry", "discovery", "selector", "internal/capability"},
	"test/internal":   {},
	"test/schemas":    {},
	"test/fakeissuer": {"test/fakeserver"},
	"test/fakedocker": {},
	"test/fakeserver": {"test/internal/protocol", "test/internal/filelock"},
	"test/expect":     {},
	"test/layer":      {},
	"test/play":       {"internal/process", "test/fakeserver"},
	"test/mcptest":    {"test/fakeserver", "test/internal/address", "test/internal/protocol"},
	"test/external":   {"test/layer", "test/mcptest", "test/internal/protocol", "test/internal/filelock"},
	"test/natsserver": {"test/internal/address"},
	"test/chaos":      {"test/mcptest", "test/internal/address"},
	"test/cluster":    {}, // has tests only
	"test/hostile":    {"test/mcptest"},
	"test/wine":       {}, // has tests only
	"test/sdkserver":  {"test/fakeserver"},
}

// TestRules checks that no rule lets a step import a later one.
func TestRules(t *testing.T) {
	position := func(name string) int {
		return slices.IndexFunc(steps, func(step string) bool { return name == step || strings.HasPrefix(name, step+"/") })
	}
	for name, may := range rules {
		for _, imported := range may {
			if at := position(name); at >= 0 && position(imported) > at {
				t.Errorf("the rule for %s names %s, which is a later step", name, imported)
			}
		}
	}
}

func TestImports(t *testing.T) {
	used := map[string]bool{}
	for file, name := range sources(t) {
		rule, ok := ruleOf(name)
		if !ok {
			t.Errorf("package %s has no import rule; add one here", name)
			continue
		}
		used[rule] = true
		for _, spec := range parse(t, file, parser.ImportsOnly).Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			expect.OK(t, err)
			ours, isOurs := strings.CutPrefix(imported, module)
			if isOurs && !mayImport(name, rule, ours) {
				t.Errorf("%s imports %s, which the design does not allow", file, ours)
			}
		}
	}
	for rule := range rules {
		if !used[rule] {
			t.Errorf("the rule for %s applies to no package; remove it", rule)
		}
	}
}

// ruleOf returns the folder whose rule holds for the package: its own, or the nearest above.
func ruleOf(name string) (folder string, ok bool) {
	if slices.Contains(leaves, name) || name == "internal/archtest" {
		return "", true
	}
	for folder = name; folder != "."; folder = path.Dir(folder) {
		if _, ok := rules[folder]; ok {
			return folder, true
		}
	}
	return "", false
}

func mayImport(name, rule, imported string) bool {
	switch {
	case slices.Contains(leaves, imported), slices.Contains(rules[rule], imported):
		return true
	case rule == "": // a leaf
		return false
	case rule == name && strings.Contains(name, "/internal/"):
		return false
	}
	return strings.HasPrefix(imported, step(name)+"/internal/")
}

// step returns the folder to which the package's internal packages belong.
func step(name string) string {
	before, _, _ := strings.Cut(name, "/internal/")
	return before
}

// exported returns how many exported names the declaration has. A method counts if its type
// is exported too.
func exported(declaration ast.Decl) (n int) {
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type))) {
			n++
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					n++
				}
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() {
						n++
					}
				}
			}
		}
	}
	return n
}

// receiver returns the name of a receiver's type.
func receiver(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// sources returns the Go files of this module without tests, with the folder of their package.
func sources(t *testing.T) map[string]string { return goFiles(t, false) }

// goFiles returns the Go files of this module, of tests or others, for all platforms, with the
// folder of their package. It reads the disk and not "go list", so that a cached result of
// a test is never out of date.
func goFiles(t *testing.T, tests bool) map[string]string {
	t.Helper()
	files := map[string]string{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != root && (entry.Name()[0] == '.' || entry.Name() == "testdata" || entry.Name() == "node_modules"):
			return filepath.SkipDir
		case !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") != tests:
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(file))
		if err == nil {
			files[file] = filepath.ToSlash(dir)
		}
		return err
	})
	expect.OK(t, err)
	return files
}

func parse(t *testing.T, file string, mode parser.Mode) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, mode)
	expect.OK(t, err)
	return f
}
