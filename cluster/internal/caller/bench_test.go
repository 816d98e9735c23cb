package caller_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/cluster/internal/callee"
	"github.com/mcp-metarouter/metarouter/cluster/internal/caller"
	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/link"
	"github.com/mcp-metarouter/metarouter/cluster/internal/transfer"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/nodeidentity"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// An echoHost answers each call with a text.
type echoHost struct{ result json.RawMessage }

func (h echoHost) Execute(context.Context, clusternode.Incoming) (json.RawMessage, bool, error) {
	return h.result, false, nil
}

func (echoHost) Subscribe(context.Context, clusternode.Incoming) (<-chan struct{}, func(), error) {
	return nil, nil, session.ErrNotSent
}

func (echoHost) Listen(func(string, session.Client, session.Message)) func() { return func() {} }
func (echoHost) Release(session.Client)                                      {}
func (echoHost) Keeps(string, session.Client) bool                           { return false }
func (echoHost) Tell(session.Client, string, json.RawMessage)                {}
func (echoHost) SetLevel(context.Context, string)                            {}

// open connects a node to a NATS server.
func open(b *testing.B, url string) *link.Link {
	id, err := nodeidentity.Open(filepath.Join(b.TempDir(), "node.nk"))
	if err != nil {
		b.Fatal(err)
	}
	l, err := link.Open(b.Context(), link.Options{Config: config.Cluster{URLs: []string{url}, Name: "bench"}, Identity: id})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(l.Close)
	for !l.State().Connected {
		select {
		case <-l.Changed():
		case <-time.After(10 * time.Millisecond):
		}
	}
	return l
}

// between returns a session of one node with a server of another, over a NATS server.
func between(b *testing.B, result string) session.Session {
	url := natsserver.Start(b).URL()
	here, there := open(b, url), open(b, url)
	never := make(chan struct{})
	r := caller.New(caller.Options{
		Wire: here, Budget: transfer.NewBudget(transfer.MaxReceived), Log: zap.NewNop(),
		Lost:      func(frame.Address) <-chan struct{} { return never },
		OnMessage: func(string, session.Client, session.Message) {},
	})
	e := callee.New(callee.Options{
		Wire: there, Host: echoHost{json.RawMessage(result)}, Budget: transfer.NewBudget(transfer.MaxReceived), Log: zap.NewNop(),
		Trusted: func(string) bool { return true }, Shared: func(string) bool { return true },
		Name: func(string) string { return "gateway" },
		Lost: func(frame.Address) <-chan struct{} { return never }, Age: func(*frame.Header) time.Duration { return 0 },
	})
	here.Receive(r.Receive)
	there.Receive(e.Receive)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	running.Go(func() { e.Run(ctx) })
	b.Cleanup(func() { cancel(); running.Wait() })
	s := r.Session(caller.Target{To: there.Self(), Node: "box", Name: "echo@box", Server: "echo", Gone: never}, nil)
	for { // until both have subscribed
		ctx, cancel := context.WithTimeout(b.Context(), time.Second)
		_, err := s.Call(ctx, session.Request{Method: "tasks/list"})
		cancel()
		if err == nil {
			return s
		}
	}
}

// BenchmarkCall measures calls over a NATS server on this machine, without the rest of the routers.
func BenchmarkCall(b *testing.B) {
	for _, size := range []int{100, 1 << 20} {
		for _, direct := range []bool{true, false} {
			for _, callers := range []int{1, 64} {
				if size > 100 && callers > 1 {
					continue
				}
				b.Run(fmt.Sprintf("size=%d/direct=%t/callers=%d", size, direct, callers), func(b *testing.B) {
					s := between(b, `{"content":[{"type":"text","text":"`+strings.Repeat("x", size)+`"}]}`)
					r := session.Request{Method: "tools/call", Params: json.RawMessage(`{"name":"echo","arguments":{"text":"hello"}}`), Repeatable: direct}
					took := make([]time.Duration, b.N)
					var next atomic.Int64
					var running sync.WaitGroup
					b.ReportAllocs()
					b.ResetTimer()
					for range callers {
						running.Go(func() {
							for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
								begin := time.Now()
								if _, err := s.Call(b.Context(), r); err != nil {
									b.Error(err)
									return
								}
								took[i-1] = time.Since(begin)
							}
						})
					}
					running.Wait()
					b.StopTimer()
					slices.Sort(took)
					b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
				})
			}
		}
	}
}
