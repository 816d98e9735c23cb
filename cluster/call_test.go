package cluster_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

func call(tool, argument string) session.Request {
	return session.Request{
		Method: "tools/call", Params: json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":{"text":%q}}`, tool, argument)),
		Origin: &session.Origin{}, Ran: &session.Run{},
	}
}

func TestCall(t *testing.T) {
	s := natsserver.Start(t)
	fileA, keyA := newKey(t)
	fileB, keyB := newKey(t)
	log := zaptest.NewLogger(t)
	ann, box := newRouter(t, log.Named("ann"), fileA, keyA), newRouter(t, log.Named("box"), fileB, keyB)
	box.offer(1, "gpu")
	ann.run(t, configOf(s, "ann", keyB))
	c := configOf(s, "box", keyA)
	box.run(t, c)
	ann.has(t, "gpu@box: gpu_0")
	one, err := ann.Session(t.Context(), "gpu@box", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{10, 3 << 20} {
		r := call("gpu_0", strings.Repeat("x", size))
		result, err := one.Call(t.Context(), r)
		if want := `{"content":[{"type":"text","text":"gpu_0 of gpu for ann"}]}`; err != nil || string(result) != want {
			t.Errorf("%s, %v", result, err)
		}
		if !r.Ran.Verified || len(r.Ran.Nodes) != 1 || r.Ran.Nodes[0] != "box" {
			t.Errorf("%+v", r.Ran)
		}
	}
	if i := one.Info(); i.Name != "gpu" || !i.Remote || i.PID != 0 {
		t.Errorf("%+v", i)
	}

	c.Share = []string{"nothing"} // the session ends, and no call is made any more
	box.configs <- c
	<-one.Done()
	if _, err := one.Call(t.Context(), call("gpu_0", "x")); !errors.Is(err, session.ErrNotSent) {
		t.Error(err)
	}
	if to := ann.Counters().To["box"]; to["ok"] != 2 {
		t.Errorf("%v", to)
	}
	if from := box.Counters().From["ann"]; from["ok"] != 2 {
		t.Errorf("%v", from)
	}
}

// Calls under way when the node leaves in peace have their results; those after it are not sent.
func TestLeaveUnderLoad(t *testing.T) {
	s := natsserver.Start(t)
	fileA, keyA := newKey(t)
	fileB, keyB := newKey(t)
	ann, box := newRouter(t, zap.NewNop(), fileA, keyA), newRouter(t, zap.NewNop(), fileB, keyB)
	box.offer(1, "gpu")
	ann.run(t, configOf(s, "ann", keyB))
	box.run(t, configOf(s, "box", keyA))
	ann.has(t, "gpu@box: gpu_0")
	one, err := ann.Session(t.Context(), "gpu@box", nil)
	if err != nil {
		t.Fatal(err)
	}
	var callers sync.WaitGroup
	var mu sync.Mutex
	ok := 0
	for range 16 {
		callers.Go(func() {
			for {
				_, err := one.Call(t.Context(), call("gpu_0", "x"))
				if err != nil {
					if !errors.Is(err, session.ErrNotSent) {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				if ok++; ok == 500 {
					go box.stop()
				}
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	box.stop()
	if box.calls != ok {
		t.Errorf("%d calls ran, %d have a result", box.calls, ok)
	}
}
