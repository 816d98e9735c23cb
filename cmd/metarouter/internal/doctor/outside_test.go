package doctor

import (
	"errors"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// Each fault of a cluster is named, with the fix.
func TestCheckCluster(t *testing.T) {
	self := clusternode.Info{Node: "desk", Key: "U1", Self: true, Trusted: true, Alive: true}
	box := clusternode.Info{Node: "box", Key: "U2", Trusted: true, Alive: true, Servers: []string{"gpu"}}
	well := func() *Cluster {
		return &Cluster{Nodes: []clusternode.Info{self, box}, Report: clusternode.Report{
			Connected: true, URL: "nats://hub:4222", Server: "2.12.1", JetStream: true,
		}}
	}
	for _, tt := range []struct {
		name     string
		change   func(c *Cluster, join *config.Cluster)
		severity Severity
		problem  string
		fix      string
	}{
		{"refused", func(c *Cluster, _ *config.Cluster) {
			*c = Cluster{Err: errors.New(`There is no connection to NATS: no NATS server answers at nats://hub:4222; start one there, or correct "urls".`)}
		}, Broken, "there is no connection to NATS: no NATS server answers at nats://hub:4222, so servers of other nodes are missing", `start one there, or correct "urls"`},
		{"old", func(c *Cluster, _ *config.Cluster) {
			c.Report.Server, c.Report.Problems = "2.10.29", []string{"The NATS server has version 2.10.29; a cluster needs 2.11 or later."}
		}, Broken, "the NATS server has version 2.10.29.", "a cluster needs 2.11 or later"},
		{"no JetStream", func(c *Cluster, _ *config.Cluster) {
			c.Report.Problems = []string{"JetStream does not answer, so that the servers of other nodes do not change: it is off; start nats-server with -js."}
		}, Broken, "JetStream does not answer, so that the servers of other nodes do not change: it is off.", "start nats-server with -js"},
		{"denied", func(c *Cluster, _ *config.Cluster) {
			c.AddDenied(clusternode.Report{Problems: []string{"Else.", `The permissions of NATS do not let this router publish to $JS.API.INFO; allow it "$JS.API.>".`}})
		}, Broken, "the permissions of NATS do not let this router publish to $JS.API.INFO.", `allow it "$JS.API.>"`},
		{"two names", func(c *Cluster, _ *config.Cluster) {
			c.Report.Problems = []string{"The name box is that of several nodes; one is called box-abcd here. Give it another name: \"node\" in its configuration."}
		}, Warning, "the name box is that of several nodes; one is called box-abcd here.", `Give it another name: "node"`},
		{"problem", func(c *Cluster, _ *config.Cluster) {
			c.Nodes[1].Problem = "it does not trust this node; there, run x"
		}, Warning, "node box: it does not trust this node.", "there, run x"},
		{"server", func(c *Cluster, _ *config.Cluster) {
			c.Report.Problems = []string{"The server gpu@box can't be used: its definitions are not known yet.", "The node box: x."}
		}, Warning, "the server gpu@box can't be used: its definitions are not known yet.", ""},
		{"unused pattern", func(_ *Cluster, join *config.Cluster) { join.Use = []string{"gpu@box", "*@nas"} }, Warning, `"*@nas" in "use" of "cluster" fits no server of a trusted node that is alive; there are gpu@box.`, "correct the pattern"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			join := &config.Cluster{URLs: []string{"nats://me:hush@hub:4222"}, Name: "office"}
			c := caseOf(config.Config{Router: config.Router{Cluster: join}}, status.Status{Name: "s", State: status.Failed}, status.Status{Name: "t", State: status.Ready})
			c.Cluster = well()
			tt.change(c.Cluster, join)
			var x findings
			checkCluster(&x, c)
			found := false
			for _, f := range x.all {
				found = found || f.Severity == tt.severity && strings.Contains(f.Problem, tt.problem) && strings.Contains(f.Fix, tt.fix) && (tt.fix == "") == (f.Fix == "")
				if strings.Contains(f.Problem+f.Fix, "hush") || strings.Contains(f.Problem, "\x1b") {
					t.Errorf("says %q", f.Problem)
				}
			}
			if !found {
				t.Errorf("found %+v", x.all)
			}
			if worse := len(x.all) > 1; worse {
				t.Errorf("found %d things: %+v", len(x.all), x.all)
			}
		})
	}
}
