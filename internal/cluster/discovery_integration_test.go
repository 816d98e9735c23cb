package cluster_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap/zaptest"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// stranger connects to NATS without being a node.
func stranger(t *testing.T, s *natsserver.Server) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(s.URL())
	expect.OK(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// Each router is an instance of a NATS service, which the tools of NATS show.
func TestService(t *testing.T) {
	layer.Integration(t)
	s := natsserver.Start(t)
	file, key := newKey(t)
	box := newRouter(t, zaptest.NewLogger(t), file, key)
	box.run(t, configOf(s, "box"))
	conn := stranger(t, s)
	var info micro.Info
	for limit := time.Now().Add(time.Minute); info.ID == "" && time.Now().Before(limit); {
		changed := box.Changed()
		if answer, err := conn.Request("$SRV.INFO.metarouter", nil, time.Second); err == nil {
			expect.OK(t, json.Unmarshal(answer.Data, &info))
			break
		}
		select {
		case <-changed:
		case <-time.After(time.Second):
		}
	}
	if m := info.Metadata; info.Name != "metarouter" || info.Version != "1.2.3" || m["cluster"] != "metarouter" || m["node"] != "box" || m["key"] != key || m["router"] == "" || m["version"] != "1.2.3" {
		t.Errorf("%+v", info)
	}
}

// Of two nodes with one name, each has a name of its own here; calls reach the right one.
func TestOneName(t *testing.T) {
	layer.Integration(t)
	s := natsserver.Start(t)
	fileA, keyA := newKey(t)
	fileB, keyB := newKey(t)
	fileC, keyC := newKey(t)
	if keyB > keyC {
		fileB, keyB, fileC, keyC = fileC, keyC, fileB, keyB
	}
	log := zaptest.NewLogger(t)
	ann, first, second := newRouter(t, log.Named("ann"), fileA, keyA), newRouter(t, log.Named("first"), fileB, keyB), newRouter(t, log.Named("second"), fileC, keyC)
	first.offer(1, "gpu")
	second.offer(2, "gpu")
	ann.run(t, configOf(s, "ann", keyB, keyC))
	first.run(t, configOf(s, "box", keyA, keyC))
	second.run(t, configOf(s, "box", keyA, keyB))
	other := "box-" + strings.ToLower(keyC[2:6])
	want := []string{"gpu@box: gpu_0", "gpu@" + other + ": gpu_0 gpu_1"}
	slices.Sort(want)
	ann.has(t, want...)
	if one := ann.dial(t, "gpu@"+other); one.Key != keyC || one.Node != other {
		t.Errorf("%+v", one.Stream)
	}
	expect.Equal(t, len(ann.Report().Problems), 1)
}

// A bucket that is deleted is made again, and what others have removed is put again.
func TestLostValues(t *testing.T) {
	layer.Integration(t)
	s := natsserver.Start(t)
	ann, box := twoRouters(t)
	box.offer(1, "gpu")
	ann.run(t, configOf(s, "ann", box.key))
	box.run(t, configOf(s, "box", ann.key))
	ann.has(t, "gpu@box: gpu_0")
	js, err := jetstream.New(stranger(t, s))
	expect.OK(t, err)
	expect.OK(t, js.DeleteKeyValue(t.Context(), "metarouter-metarouter"))
	box.offer(2, "gpu", "disk")
	ann.has(t, "disk@box: disk_0 disk_1", "gpu@box: gpu_0 gpu_1")
	kv, err := js.KeyValue(t.Context(), "metarouter-metarouter")
	expect.OK(t, err)
	keys, err := kv.Keys(t.Context())
	expect.OK(t, err)
	for _, key := range keys {
		if strings.HasSuffix(key, ".node") || strings.Contains(key, ".def.") {
			kv.Put(t.Context(), key, []byte("forged"))
		}
	}
	// A node that joins now learns the true values.
	late := newRouter(t, zaptest.NewLogger(t).Named("late"), ann.keyFile, ann.key)
	late.run(t, configOf(s, "ann", box.key))
	late.has(t, "disk@box: disk_0 disk_1", "gpu@box: gpu_0 gpu_1")
}
