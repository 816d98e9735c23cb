//go:build unix

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/fakeserver"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// aboutToolNames are the scenarios that look for a tool in tools/list, which in search mode has only
// the router's own tools. All others call tools by name, which works in search mode too.
var aboutToolNames = []string{
	"json-schema-2020-12",                  // looks for json_schema_2020_12_tool
	"http-custom-header-server-validation", // looks for a tool with x-mcp-header
	"http-header-validation",               // calls the first tool listed, without arguments
}

// askingInCalls are the scenarios of 2025-11-25 whose tools ask the client during the call. The
// everything-server does not do that in the modern era, which the router prefers, so they fail
// there.
var askingInCalls = []string{
	"tools-call-sampling", "tools-call-elicitation", "elicitation-sep1034-defaults", "elicitation-sep1330-enums",
}

// The router in front of the Go SDK's server for the official conformance suite has to pass at least
// as many checks as the server itself: passed, which TestConformance of package external measures.
// Checks of the tasks extension are left out, since that server does not have it.
func TestConformance(t *testing.T) {
	t.Parallel()
	overStdio := func(t *testing.T) map[string]any {
		return map[string]any{"command": external.EverythingServer(t)}
	}
	overStdioLegacy := func(t *testing.T) map[string]any {
		command, args := fakeserver.OnlyEra("legacy", external.EverythingServer(t))
		return map[string]any{"command": command, "args": args}
	}
	overHTTP := func(stateless bool) func(t *testing.T) map[string]any {
		return func(t *testing.T) map[string]any {
			return map[string]any{"type": "http", "url": external.EverythingHTTP(t, stateless)}
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
			if mode == "search" && test.backend != "http" && !layer.Everything() {
				continue
			}
			leftOut := test.leftOut
			if mode == "search" {
				leftOut = slices.Concat(leftOut, aboutToolNames)
			}
			t.Run(test.revision+"/"+test.backend+"/"+mode, func(t *testing.T) {
				t.Parallel()
				s := prepare(t, entries{"everything": test.server(t)}, map[string]any{"listWait": "60s"})
				url, router := s.serveHTTP("--mode", mode, "--names", "bare")
				passed, failed := tally(external.ServerConformance(t, url, test.revision), leftOut)
				for _, line := range failed {
					t.Error(line)
				}
				if mode == "direct" && passed < test.passed {
					t.Errorf("%d checks passed, the server itself passes %d", passed, test.passed)
				}
				if t.Failed() {
					t.Logf("stderr of the router:\n%s", router.Stderr())
				}
			})
		}
	}
}

// tally counts the passed checks and describes the failed ones, and the scored ones that were skipped
// or have a warning.
func tally(scenarios []external.Scenario, leftOut []string) (passed int, failed []string) {
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
