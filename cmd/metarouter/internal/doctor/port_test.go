package doctor

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

func TestPort(t *testing.T) {
	for _, tt := range []struct {
		port         Port
		problem, fix string
	}{
		{Port{Address: "127.0.0.1:8787", Holder: "python3 (process 7)", End: "kill 7", Set: true, Next: "127.0.0.1:8788"},
			`python3 (process 7) listens at 127.0.0.1:8787, the "http.addr" of the configuration, so 'metarouter serve --http' can't start there.`,
			`end that program: kill 7; or write another address: "metarouter": {"http": {"addr": "127.0.0.1:8788"}}`},
		{Port{Address: "127.0.0.1:8787", Holder: "metarouter (process 7)", Router: true, Clients: []string{"Cursor"}, Next: "127.0.0.1:8788"},
			`metarouter (process 7) listens at 127.0.0.1:8787: a router that does not answer for this configuration, so 'metarouter serve --http' can't start there. Cursor has an entry for this address.`,
			`write another address: "metarouter": {"http": {"addr": "127.0.0.1:8788"}}, and into the entry of Cursor: "url": "http://127.0.0.1:8788/mcp"`},
		{Port{Address: "127.0.0.1:8787", Holder: "another program", Clients: []string{"Cursor", "Windsurf"}},
			`another program listens at 127.0.0.1:8787, so 'metarouter serve --http' can't start there. Cursor and Windsurf have an entry for this address.`,
			`end that program, or write another port into "metarouter": {"http": {"addr": "…"}}`},
	} {
		c := caseOf(config.Config{Servers: []config.Server{stdio("x")}}, status.Status{Name: "s", State: status.Idle})
		c.Port = &tt.port
		r := Examine(c)
		if len(r.Findings) != 1 || r.Findings[0].Severity != Warning || r.Findings[0].Problem != tt.problem || r.Findings[0].Fix != tt.fix {
			t.Errorf("found %+v\nwant %s\n%s", r.Findings, tt.problem, tt.fix)
		}
		if !r.OK {
			t.Error("a port in use keeps servers from working")
		}
	}
}
