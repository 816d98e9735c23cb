// Package archtest holds the project to its import rules: imports point one way
// along the path config, supervisor, discovery, registry, selector, adapter,
// server, and peers never meet.
package archtest

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/mcp-metarouter/metarouter/"

// allowed says what of ours each package may import. internal/wire, which knows
// bytes and nothing else, and internal/atomicfile are open to all.
var allowed = map[string][]string{
	"internal/wire":       {},
	"internal/atomicfile": {},
	"config":              {},
	"session":             {},
	"registry":            {},
	"supervisor":          {"config", "session"},
	"discovery":           {"registry", "session", "classify"},
	"selector":            {"registry", "session", "classify"},
	"adapter":             {"config", "supervisor", "discovery", "registry", "selector", "session", "classify"},
	"server":              {"adapter", "registry", "selector", "session"},
	"internal/builtin":    {},
	"internal/mcptest":    {},
	"internal/daemon":     {"adapter"},
	"docs/demo":           {},
	"internal/e2e":        {},
	"cmd/metarouter": {
		"adapter", "server", "config", "session", "registry", "selector", "supervisor",
		"internal/builtin", "internal/daemon",
	},
}

func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		name := strings.TrimPrefix(fields[0], module)
		if name == "internal/archtest" {
			continue
		}
		may, known := allowed[name]
		if !known {
			t.Errorf("package %s has no import rule; add one here", name)
			continue
		}
		seen++
		for _, path := range fields[1:] {
			ours, isOurs := strings.CutPrefix(path, module)
			if isOurs && ours != "internal/wire" && ours != "internal/atomicfile" && !slices.Contains(may, ours) {
				t.Errorf("%s imports %s, which the design does not allow", name, ours)
			}
		}
	}
	if seen < 5 {
		t.Errorf("only %d packages were looked at", seen)
	}
}
