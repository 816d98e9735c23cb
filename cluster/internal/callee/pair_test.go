package callee

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/cluster/internal/caller"
	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/linktest"
	"github.com/mcp-metarouter/metarouter/cluster/internal/transfer"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/session"
)

// pair adds a gateway with a real caller, and returns its session with the server.
func (w *world) pair(t *testing.T) (s session.Session, end func()) {
	wire := w.net.Join(linktest.NewKey())
	w.set(func() { w.trusted[wire.Self().Key] = true })
	c := caller.New(caller.Options{
		Wire: wire, Budget: transfer.NewBudget(transfer.MaxReceived), Log: zap.NewNop(),
		Lost:      func(a frame.Address) <-chan struct{} { return w.lost(a) },
		OnMessage: func(string, session.Client, session.Message) {},
	})
	wire.Receive(c.Receive)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		c.Run(ctx)
	}()
	s = c.Session(caller.Target{To: w.node.Self(), Node: "box", Name: "files@box", Server: "files", Gone: make(chan struct{})}, nil)
	return s, func() { cancel(); <-over }
}

// A person is a client that answers questions and counts notifications.
type person struct {
	mu       sync.Mutex // guards the fields below
	notified int
	asked    int
}

func (p *person) Home() session.Client { return p }
func (*person) ClientName() string     { return "editor" }
func (*person) Modern() bool           { return false }
func (*person) Capabilities() json.RawMessage {
	return json.RawMessage(`{"elicitation":{}}`)
}

func (p *person) Notify(string, session.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notified++
}

func (p *person) Ask(_ context.Context, _ string, m session.Message) (json.RawMessage, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	return json.RawMessage(`{"action":"accept","content":` + string(m.Params) + `}`), nil
}

// A request goes from a client to a server on the other side and back: notifications, a question
// with a long text, and a long result.
func TestPair(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		long := `"` + strings.Repeat("q", 3<<20) + `"`
		w.host.does(func(ctx context.Context, in clusternode.Incoming) (json.RawMessage, error) {
			for range 10 {
				in.Request.From.Notify("files", session.Message{Method: "notifications/progress", Params: json.RawMessage(`{"progress":1}`)})
			}
			return in.Request.From.Ask(ctx, "files", session.Message{Method: "elicitation/create", Params: json.RawMessage(`{"message":` + long + `}`)})
		})
		s, end := w.pair(t)
		defer end()
		p, ran := &person{}, &session.Run{}
		result, err := s.Call(t.Context(), session.Request{Method: "tools/call", Params: json.RawMessage(`{"name":"read"}`), Meta: json.RawMessage(`{"progressToken":1}`), From: p, Ran: ran})
		if want := `{"action":"accept","content":{"message":` + long + `}}`; err != nil || string(result) != want {
			t.Errorf("got %d bytes, %v", len(result), err)
		}
		if p.asked != 1 || p.notified != 10 || !ran.Verified {
			t.Errorf("asked %d times, notified %d times, %+v", p.asked, p.notified, ran)
		}
		end()                    // this router says at the end that the result has arrived
		time.Sleep(keepTime / 2) // so that the gateway has said that the result arrived
		synctest.Wait()
		w.empty()
	})
}

// With frames that are lost, doubled and late, and a node that is frozen at times, each call ends;
// a call that must not run twice does not, and no call ran that has an error which says that it was
// not sent.
func TestFaults(t *testing.T) {
	seeds := 8
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) { runFaults(t, w, rand.New(rand.NewPCG(uint64(seed), 1))) })
		})
	}
}

func runFaults(t *testing.T, w *world, random *rand.Rand) {
	var mu sync.Mutex // guards ledger, outcomes and random
	ledger := make(map[string]int)
	w.host.does(func(ctx context.Context, in clusternode.Incoming) (json.RawMessage, error) {
		mu.Lock()
		ledger[string(in.Request.Params)]++
		pause := time.Duration(random.IntN(3000)) * time.Millisecond
		mu.Unlock()
		if _, err := in.Request.From.Ask(ctx, "files", session.Message{Method: "elicitation/create", Params: json.RawMessage(`{}`)}); err != nil {
			return nil, fmt.Errorf("%w: %w", session.ErrClosed, err)
		}
		select {
		case <-time.After(pause):
			return json.RawMessage(`{"ok":true}`), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	w.net.Delay(20 * time.Millisecond)
	dice := rand.New(rand.NewPCG(random.Uint64(), 2)) // Drop is called with the network's lock held
	w.net.Drop(func(_, _ *linktest.Node, f *frame.Frame) bool { return dice.IntN(100) < 8 })
	s, end := w.pair(t)
	defer end()
	outcomes := make(map[string]int)
	var calling sync.WaitGroup
	for i := range 300 {
		repeatable := i%3 == 0
		params := fmt.Sprintf(`{"name":"read","arguments":{"n":%d}}`, i)
		calling.Go(func() {
			time.Sleep(time.Duration(i) * 50 * time.Millisecond)
			result, err := s.Call(t.Context(), session.Request{Method: "tools/call", Params: json.RawMessage(params), From: &person{}, Repeatable: repeatable})
			mu.Lock()
			defer mu.Unlock()
			n := ledger[params]
			switch {
			case err == nil && (string(result) != `{"ok":true}` || n != 1):
				t.Errorf("%s ran %d times and has the result %s", params, n, result)
			case err == nil:
				outcomes["ok"]++
			case errors.Is(err, session.ErrNotSent) && n > 0 && !repeatable:
				t.Errorf("%s ran, and the error is %v", params, err)
			case errors.Is(err, session.ErrNotSent):
				outcomes["not sent"]++
			case errors.Is(err, session.ErrClosed):
				outcomes["unknown"]++
			default:
				t.Errorf("%s: %v", params, err)
			}
		})
	}
	for range 3 {
		mu.Lock()
		before, frozen := random.IntN(3000), random.IntN(5000)
		mu.Unlock()
		time.Sleep(time.Duration(before) * time.Millisecond)
		w.node.Freeze()
		time.Sleep(time.Duration(frozen) * time.Millisecond)
		w.node.Thaw()
	}
	calling.Wait()
	time.Sleep(2 * keepTime)
	synctest.Wait()
	mu.Lock()
	defer mu.Unlock()
	for params, n := range ledger {
		if n > 1 {
			t.Errorf("%s ran %d times", params, n)
		}
	}
	if outcomes["ok"] < 100 {
		t.Errorf("outcomes: %v", outcomes)
	}
	t.Log(outcomes)
	w.empty()
}
