//go:build unix

package supervisor

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// The scenario of the official suite for ID-JAG. Its issuer has no keys by which a router could let its user in over HTTP.
func TestIDJAGConformance(t *testing.T) {
	layer.Full(t)
	self, err := os.Executable()
	expect.OK(t, err)
	result := external.ClientConformance(t, self+" -test.run=TestIDJAGDriver", "auth/enterprise-managed-authorization", "2025-11-25")
	expect.List(t, append(result.Failed(), result.Warned()...), nil, "failed checks")
	if result.Passed() < 2 {
		t.Errorf("%d checks passed", result.Passed())
	}
}

// TestIDJAGDriver is the command that the suite starts.
func TestIDJAGDriver(t *testing.T) {
	layer.Full(t)
	var suite struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		Router       string `json:"idp_client_id"`
		Token        string `json:"idp_id_token"`
		Issuer       string `json:"idp_issuer"`
	}
	if json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &suite) != nil || suite.Token == "" {
		t.Skip("this is no test: the conformance suite runs it")
	}
	entry := at(flag.Arg(0), config.StreamableHTTP)
	entry.Headers, entry.Exchange, entry.OAuth = nil, &config.Exchange{Type: "id-jag"}, &config.OAuth{ClientID: suite.ClientID, ClientSecret: suite.ClientSecret}
	f := supervise(t, entry)
	subject := session.Subject{Principal: "ann", Token: suite.Token, Issuer: suite.Issuer, ClientID: suite.Router}
	ann := person{clientOf("a"), "ann", ""}
	s, err := f.Session(session.WithSubject(t.Context(), subject), entry.Name, ann)
	expect.OK(t, err)
	_, err = s.Call(t.Context(), session.Request{Method: "tools/call", Params: json.RawMessage(`{"name":"test-tool","arguments":{}}`), From: ann})
	expect.OK(t, err)
}
