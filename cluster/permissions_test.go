package cluster_test

import (
	"fmt"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// permissionsOf returns all that a node of the cluster "office" needs of NATS. With these no node can
// read frames to another one, or beat or announce in its place. $JS.FC is for buckets with much in them.
func permissionsOf(key string) string {
	return fmt.Sprintf(`permissions: {
		publish: { allow: [
			"metarouter.office.beat.%[1]s", "metarouter.office.to.>", "$JS.API.>", "$JS.FC.>", "$KV.metarouter-office-nodes.%[1]s", "$KV.metarouter-office-definitions.>"
		] }
		subscribe: { allow: ["metarouter.office.beat.*", "metarouter.office.to.%[1]s.>", "_INBOX.>"] }
	}`, key)
}

// Nodes that log in with their own keys, which have no permissions but a node's, share servers.
func TestPermissionsOfNodes(t *testing.T) {
	fileA, keyA := newKey(t)
	fileB, keyB := newKey(t)
	s := natsserver.Start(t, natsserver.Options{Extra: fmt.Sprintf(
		"authorization { users: [ { nkey: %s, %s }, { nkey: %s, %s } ] }", keyA, permissionsOf(keyA), keyB, permissionsOf(keyB))})
	log := zaptest.NewLogger(t)
	ann, box := newRouter(t, log.Named("ann"), fileA, keyA), newRouter(t, log.Named("box"), fileB, keyB)
	box.offer(2, "gpu")
	configOf := func(node, file, trusted string) config.Cluster {
		c := configOf(s, node, trusted)
		c.Name, c.Creds = "office", file
		return c
	}
	ann.run(t, configOf("ann", fileA, keyB))
	box.run(t, configOf("box", fileB, keyA))
	ann.has(t, "gpu@box: gpu_0 gpu_1")
	remote, err := ann.Session(t.Context(), "gpu@box", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := remote.Call(t.Context(), call("gpu_0", "x")); err != nil {
		t.Error(err)
	}
	for _, r := range []*router{ann, box} {
		r.until(t, "JetStream", func() bool { return r.Report().JetStream })
		if report := r.Report(); len(report.Problems) > 0 || len(report.Denied) > 0 {
			t.Errorf("the report is %+v", report)
		}
	}
}
