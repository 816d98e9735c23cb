package cluster_test

import (
	"fmt"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// permissionsOf returns all that a node of the cluster "office" needs of NATS. With these no node can
// read streams to another one, or announce or open a stream in its place. $JS.FC is for buckets with
// much in them.
func permissionsOf(key string) string {
	return fmt.Sprintf(`permissions: {
		publish: { allow: [
			"metarouter.office.stream.*.*.%[1]s.>", "$SRV.PING.metarouter.>", "$KV.metarouter-office.%[1]s.>",
			"$JS.API.INFO", "$JS.API.STREAM.CREATE.KV_metarouter-office", "$JS.API.STREAM.INFO.KV_metarouter-office",
			"$JS.API.CONSUMER.CREATE.KV_metarouter-office.>", "$JS.API.CONSUMER.INFO.KV_metarouter-office.>",
			"$JS.API.CONSUMER.DELETE.KV_metarouter-office.>", "$JS.API.DIRECT.GET.KV_metarouter-office.>", "$JS.FC.KV_metarouter-office.>"
		] }
		subscribe: { allow: ["metarouter.office.stream.%[1]s.>", "$SRV.>", "_INBOX.>"] }
		allow_responses: true
	}`, key)
}

// Nodes that log in with their own keys, which have no permissions but a node's, share servers.
func TestPermissionsOfNodes(t *testing.T) {
	layer.Integration(t)
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
	if answer, err := ann.dial(t, "gpu@box").call("x"); err != nil {
		t.Error(answer, err)
	}
	for _, r := range []*router{ann, box} {
		r.until(t, "JetStream", func() bool { return r.Report().JetStream })
		if report := r.Report(); len(report.Problems) > 0 {
			t.Errorf("the report is %+v", report)
		}
	}
}
