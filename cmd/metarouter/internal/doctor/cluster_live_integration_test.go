package doctor

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// The faults of a real NATS server are found, once, with the fix.
func TestAskCluster(t *testing.T) {
	layer.Integration(t)
	folder := t.TempDir()
	t.Setenv("HOME", folder)
	t.Setenv("XDG_CONFIG_HOME", folder)
	t.Setenv("AppData", folder)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	expect.OK(t, err)
	free.Close() // nothing listens there now
	user := natsserver.User{Name: "me", Password: "hush"}
	denied := user
	denied.DenySubscribe = []string{"metarouter.*.stream.>"}
	login := func(url string) string { return strings.Replace(url, "nats://", "nats://me:hush@", 1) }
	for _, tt := range []struct {
		name     string
		url      func(t *testing.T) string
		severity Severity
		problem  string
		fix      string
	}{
		{"refused", func(*testing.T) string { return "nats://" + free.Addr().String() }, Broken, "no NATS server answers at nats://" + free.Addr().String(), "start one there"},
		{"no such host", func(*testing.T) string { return "nats://hub.invalid:4222" }, Broken, "no computer is called hub.invalid", "VPN, DNS"},
		{"login", func(t *testing.T) string {
			return natsserver.Start(t, natsserver.Options{Users: []natsserver.User{user}}).URL()
		}, Broken, "refuses the login", `set "creds"`},
		{"no JetStream", func(t *testing.T) string { return natsserver.Start(t, natsserver.Options{NoJetStream: true}).URL() }, Broken, "JetStream does not answer", "-js"},
		{"small payload", func(t *testing.T) string { return natsserver.Start(t, natsserver.Options{MaxPayload: 65536}).URL() }, Warning, "messages of 65536 bytes only", "max_payload"},
		{"denied", func(t *testing.T) string {
			return login(natsserver.Start(t, natsserver.Options{Users: []natsserver.User{denied}}).URL())
		}, Broken, "do not let this router subscribe to metarouter.metarouter.stream.", "allow it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			join := &config.Cluster{URLs: []string{tt.url(t)}, Name: "metarouter", Node: "desk"}
			c := caseOf(config.Config{Router: config.Router{Cluster: join}})
			var x findings
			times := 0
			mcptest.WaitFor(t, "the finding", func() bool { // a server that has just started may answer too late
				c.Cluster = AskCluster(t.Context(), join, "1.2.3")
				x = findings{}
				checkCluster(&x, c)
				for _, f := range x.all {
					if strings.Contains(f.Problem, tt.problem) && strings.Contains(f.Fix, tt.fix) && f.Severity == tt.severity {
						times++
					}
				}
				return times > 0
			})
			for _, f := range x.all {
				expect.Equal(t, strings.Contains(f.Problem+f.Fix, "hush"), false, "says %q", f.Problem)
				t.Logf("%s: %s → %s", f.Severity, f.Problem, f.Fix)
			}
			if times != 1 || len(x.all) > 1 {
				t.Errorf("found %d times, among %d", times, len(x.all))
			}
		})
	}
	t.Run("key", func(t *testing.T) { keyIsExposed(t, "nats://"+free.Addr().String()) })
	if AskCluster(t.Context(), nil, "1") != nil {
		t.Error("a router without a cluster has one")
	}
}

// keyIsExposed checks that a key that others can read is named before anything is asked.
func keyIsExposed(t *testing.T, url string) {
	path, err := configpath.NodeKey()
	expect.OK(t, err)
	if err := os.Chmod(path, 0o644); err != nil || safefile.OwnersOnly(filepath.Dir(path)) != nil {
		t.Skip("no modes here")
	}
	join := &config.Cluster{URLs: []string{url}, Name: "metarouter", Node: "desk"}
	c := caseOf(config.Config{Router: config.Router{Cluster: join}})
	c.Cluster = AskCluster(t.Context(), join, "1.2.3")
	var x findings
	checkCluster(&x, c)
	if len(x.all) != 1 || x.all[0].Severity != Broken || !strings.Contains(x.all[0].Problem, "other users can read "+path) || !strings.Contains(x.all[0].Fix, "chmod 600") {
		t.Errorf("found %+v", x.all)
	}
}
