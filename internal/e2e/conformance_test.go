//go:build unix

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/mcptest"
)

// aboutToolNames are the scenarios that look for a tool in tools/list, where
// search mode shows its own. All others call tools by name, which search mode
// takes as well.
var aboutToolNames = []string{
	"json-schema-2020-12",                  // looks for json_schema_2020_12_tool
	"http-custom-header-server-validation", // looks for a tool with x-mcp-header
	"http-header-validation",               // calls the first tool listed, without arguments
}

// askingInCalls are the scenarios of 2025-11-25 whose tools ask the client during
// the call. The everything-server refuses that to whoever speaks the modern era
// with it, so they can't pass where the router does, which it does if it may.
var askingInCalls = []string{
	"tools-call-sampling", "tools-call-elicitation", "elicitation-sep1034-defaults", "elicitation-sep1330-enums",
}

// The official conformance suite against the router in front of one server, the
// Go SDK's own for that suite, is to pass what that server itself passes, which
// is what passed says (and TestConformance of mcptest measures). Only checks of
// the tasks extension are left out, which that server does not have.
func TestConformance(t *testing.T) {
	overStdio := func(t *testing.T) map[string]any {
		return map[string]any{"command": mcptest.EverythingServer(t)}
	}
	overStdioLegacy := func(t *testing.T) map[string]any {
		command, args := mcptest.OnlyEra("legacy", mcptest.EverythingServer(t))
		return map[string]any{"command": command, "args": args}
	}
	overHTTP := func(stateless bool) func(t *testing.T) map[string]any {
		return func(t *testing.T) map[string]any {
			return map[string]any{"type": "http", "url": mcptest.EverythingHTTP(t, stateless)}
		}
	}
	for _, test := range []struct {
		revision, backend string
		server            func(t *testing.T) map[string]any
		passed            int // checks, at least, in direct mode
		leftOut           []string
	}{
		{"2025-11-25", "legacy stdio", overStdioLegacy, 82, nil},
		{"2025-11-25", "stdio", overStdio, 66, askingInCalls},
		{"2025-11-25", "http", overHTTP(false), 82, nil},
		{"2026-07-28", "stdio", overStdio, 153, nil},
		{"2026-07-28", "http", overHTTP(true), 153, nil},
	} {
		for _, mode := range []string{"direct", "search"} {
			leftOut := test.leftOut
			if mode == "search" {
				leftOut = slices.Concat(leftOut, aboutToolNames)
			}
			t.Run(test.revision+"/"+test.backend+"/"+mode, func(t *testing.T) {
				t.Parallel()
				s := prepare(t, entries{"everything": test.server(t)}, nil)
				url, router := s.serveHTTP("--mode", mode, "--names", "bare")
				passed, failed := tally(mcptest.ServerConformance(t, url, test.revision), leftOut)
				for _, line := range failed {
					t.Error(line)
				}
				if mode == "direct" && passed < test.passed {
					t.Errorf("%d checks passed, the server itself passes %d", passed, test.passed)
				}
				if t.Failed() {
					t.Logf("the router says:\n%s", router.Stderr())
				}
			})
		}
	}
}

// tally counts the checks that passed, and describes those that failed or that
// are scored and were skipped or only warned about.
func tally(scenarios []mcptest.Scenario, leftOut []string) (passed int, failed []string) {
	for _, s := range scenarios {
		if strings.HasPrefix(s.Name, "tasks-") || slices.Contains(leftOut, s.Name) {
			continue
		}
		passed += s.Passed()
		failed = append(failed, s.Failed()...)
		if s.Scored {
			failed = slices.Concat(failed, s.Skipped(), s.Warned())
		}
	}
	return passed, failed
}
