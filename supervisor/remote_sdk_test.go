//go:build unix

package supervisor

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// An agreeable client accepts whatever a server asks for.
type agreeable struct{ *client }

func (agreeable) Ask(ctx context.Context, server string, m session.Message) (json.RawMessage, error) {
	switch m.Method {
	case "sampling/createMessage":
		return json.RawMessage(`{"role":"assistant","content":{"type":"text","text":"sampled"},"model":"m"}`), nil
	case "roots/list":
		return json.RawMessage(`{"roots":[]}`), nil
	}
	return json.RawMessage(`{"action":"accept","content":{"name":"Ann","username":"Ann"}}`), nil
}

// The SDK's own server, in both eras, with all that one can ask of the other.
func TestRemoteSDK(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		name := map[bool]string{false: "legacy", true: "modern"}[modern]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := supervise(t, at(external.EverythingHTTP(t, modern), config.AutoHTTP))
			if st := f.await("r", status.Ready); st.Era != name || st.Transport != "http" {
				t.Fatalf("status = %+v", st)
			}
			c := clientOf("c")
			c.capabilities = `{"sampling":{},"elicitation":{},"roots":{}}`
			call := func(tool, arguments, want string) {
				t.Helper()
				s, err := f.Session(t.Context(), "r", c)
				expect.OK(t, err)
				raw, err := s.Call(t.Context(), session.Request{
					Method: "tools/call", Params: []byte(`{"name":"` + tool + `","arguments":` + arguments + `}`),
					Meta: []byte(`{"progressToken":"p","` + peer.MetaLogLevel + `":"debug"}`), From: agreeable{c},
				})
				if err != nil || !strings.Contains(string(raw), want) {
					t.Errorf("%s: %s, %v, want %q", tool, raw, err, want)
				}
			}
			call("test_simple_text", `{}`, "simple text")
			call("test_x_mcp_header", `{"region":" Malmö "}`, "region= Malmö ")
			call("test_tool_with_progress", `{}`, "")
			c.mu.Lock()
			if heard := strings.Join(c.heard, " "); strings.Count(heard, `"progressToken":"p"`) != 3 {
				t.Errorf("the client heard %s", heard)
			}
			c.heard = nil
			c.mu.Unlock()
			if modern {
				call("test_tool_with_logging", `{}`, "successfully")
				c.mu.Lock()
				if heard := strings.Join(c.heard, " "); strings.Count(heard, "message{") != 3 {
					t.Errorf("the client heard %s", heard)
				}
				c.mu.Unlock()
				call("test_input_required_result_elicitation", `{}`, "Ann")
				call("test_input_required_result_multi_round", `{}`, "")
				call("test_input_required_result_sampling", `{}`, "sampled")
			} else {
				call("test_elicitation", `{"message":"who"}`, "Ann")
				call("test_sampling", `{"prompt":"x"}`, "sampled") // over a session of the client's own
			}
			before, _ := f.listings("r")
			call("test_trigger_tool_change", `{}`, "")
			mcptest.WaitFor(t, "the changed tools to be listed", func() bool { n, _ := f.listings("r"); return n > before })
		})
	}
}
