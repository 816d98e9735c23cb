//go:build unix

package e2e

import (
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/layer"
)

// A command line has neither a model nor a user for the questions of servers. It says so, with
// the server and what to do, whatever the server makes of the refusal.
func TestQuestionsOfCommandLine(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	s := prepare(t, entries{
		"old": fake("-tools", "ask,echo"), "new": fake("-tools", "ask", "-era", "modern"), "both": fake("-tools", "ask", "-era", "both"),
	}, nil)
	for _, server := range []string{"old", "new", "both"} {
		for method, want := range map[string]string{
			"sampling/createMessage": `server "` + server + `" asked for the answer of a model (sampling), and a command line has no model; call ` + server + `:ask from an MCP client that offers sampling`,
			"elicitation/create":     `server "` + server + `" asked its user a question (elicitation), which a command line can't show; call ` + server + `:ask from an MCP client that can`,
		} {
			if stdout, stderr, _ := s.run("call", server+":ask", "method="+method); strings.Count(stderr, want) != 1 {
				t.Errorf("%s, %s: %s\n%s\nlacks once %s", server, method, stdout, stderr, want)
			}
		}
	}
	if _, stderr, code := s.run("call", "old:echo", "message=x"); code != 0 || stderr != "" {
		t.Errorf("echo: %d %s", code, stderr)
	}
}
