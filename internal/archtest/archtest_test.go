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
// bytes and nothing else, internal/atomicfile and internal/vectors are open to all.
var allowed = map[string][]string{
	"internal/wire":       {},
	"internal/atomicfile": {},
	"internal/vectors":    {},
	"config":              {},
	"session":             {},
	"registry":            {},
	"supervisor":          {"config", "session"},
	"discovery":           {"registry", "session", "classify"},
	"selector":            {"registry", "session", "classify"},
	"adapter":             {"internal/usage", "config", "supervisor", "discovery", "registry", "selector", "session", "classify"},
	"server":              {"adapter", "registry", "selector", "session"},
	"internal/builtin":    {},
	"internal/mcptest":    {},
	"internal/daemon":     {"adapter"},
	"docs/demo":           {},
	"internal/evaluation": {"discovery", "registry", "selector"},
	"internal/train":      {"internal/evaluation", "internal/usage", "registry", "selector"},
	"internal/usage":      {},
	"internal/e2e":        {},
	"cmd/metarouter": {
		"adapter", "server", "config", "session", "registry", "selector", "supervisor",
		"internal/builtin", "internal/daemon", "internal/evaluation",
	},
}

var open = map[string]bool{"internal/wire": true, "internal/atomicfile": true, "internal/vectors": true}

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
			if isOurs && !open[ours] && !slices.Contains(may, ours) {
				t.Errorf("%s imports %s, which the design does not allow", name, ours)
			}
		}
	}
	if seen < 5 {
		t.Errorf("only %d packages were looked at", seen)
	}
}
