package callee

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/linktest"
	"github.com/mcp-metarouter/metarouter/cluster/internal/transfer"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/session"
)

// A world has a node that carries out calls, and gateways that make them.
type world struct {
	t      *testing.T
	net    *linktest.Network
	node   *linktest.Node
	callee *Callee
	host   *host
	leave  func() // ends Run, and waits for it

	mu      sync.Mutex // guards the fields below
	trusted map[string]bool
	dead    map[frame.Address]chan struct{}
	age     time.Duration // of frames
	shared  map[string]bool
	skew    time.Duration // of the clock on the wall
}

// inWorld runs a test in a bubble.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		test(t, w)
		w.leave()
	})
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, net: linktest.New(t), trusted: make(map[string]bool), dead: make(map[frame.Address]chan struct{}), shared: map[string]bool{"files": true}}
	w.node = w.net.Join(linktest.NewKey())
	w.host = &host{ran: make(map[string]int), execute: func(context.Context, clusternode.Incoming) (json.RawMessage, error) {
		return json.RawMessage(`{"ok":true}`), nil
	}}
	w.callee = New(Options{
		Wire: w.node, Host: w.host, Budget: transfer.NewBudget(transfer.MaxReceived), Log: zap.NewNop(),
		Trusted: func(key string) bool { return locked(w, func() bool { return w.trusted[key] }) },
		Shared:  func(server string) bool { return locked(w, func() bool { return w.shared[server] }) },
		Name:    func(string) string { return "laptop" },
		Lost:    func(a frame.Address) <-chan struct{} { return w.lost(a) },
		Age:     func(*frame.Header) time.Duration { return locked(w, func() time.Duration { return w.age }) },
	})
	w.callee.wall = func() time.Time { return time.Now().Add(locked(w, func() time.Duration { return w.skew })) }
	w.node.Receive(w.callee.Receive)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		w.callee.Run(ctx)
	}()
	w.leave = func() { cancel(); <-over }
	synctest.Wait()
	return w
}

func locked[T any](w *world, f func() T) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	return f()
}

// lost returns a channel to close when the gateway is gone.
func (w *world) lost(a frame.Address) chan struct{} {
	return locked(w, func() chan struct{} {
		if w.dead[a] == nil {
			w.dead[a] = make(chan struct{})
		}
		return w.dead[a]
	})
}

func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// dropped returns how many frames were dropped for the reason.
func (w *world) dropped(reason string) uint64 { return w.callee.Dropped()[reason] }

// A gate is a gateway, which the test directs.
type gate struct {
	*linktest.Node
	w *world

	mu  sync.Mutex
	got []*frame.Frame
}

// gateway adds a trusted gateway.
func (w *world) gateway() *gate {
	g := w.stranger()
	w.set(func() { w.trusted[g.Self().Key] = true })
	return g
}

// stranger adds a gateway that is not trusted.
func (w *world) stranger() *gate {
	g := &gate{Node: w.net.Join(linktest.NewKey()), w: w}
	g.Receive(func(f *frame.Frame) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.got = append(g.got, f)
	})
	return g
}

// say sends a frame to the node.
func (g *gate) say(h frame.Header, payload ...byte) {
	g.w.t.Helper()
	if err := g.Send(g.w.node.Self(), h, payload); err != nil {
		g.w.t.Fatal(err)
	}
}

// offer returns the header of an offer without params, and makes it direct if it is.
func offer(call string, direct bool) frame.Header {
	return frame.Header{Kind: frame.Offer, Call: call, Server: "files", Offer: &frame.CallOffer{Method: "tools/call", Tool: "read", Direct: direct}}
}

// take waits until nothing happens any more, and returns the frames that came; each is verified.
func (g *gate) take() []*frame.Frame {
	g.w.t.Helper()
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	got := g.got
	g.got = nil
	for _, f := range got {
		if f.Header.Kind != frame.Part {
			if err := f.Verify(); err != nil {
				g.w.t.Error(err)
			}
		}
	}
	return got
}

// one returns the only frame that came, of the kind.
func (g *gate) one(kind frame.Kind) *frame.Frame {
	g.w.t.Helper()
	got := g.take()
	if len(got) != 1 || got[0].Header.Kind != kind {
		g.w.t.Fatalf("got %s, want %s", kinds(got), kind)
	}
	return got[0]
}

// none fails if a frame came.
func (g *gate) none() {
	g.w.t.Helper()
	if got := g.take(); len(got) > 0 {
		g.w.t.Fatalf("got %s, want nothing", kinds(got))
	}
}

func kinds(all []*frame.Frame) string {
	var texts []string
	for _, f := range all {
		text := string(f.Header.Kind)
		if f.Header.Error != nil {
			text += fmt.Sprintf("%+v", *f.Header.Error)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// start offers a call and starts it.
func (g *gate) start(h frame.Header, payload ...byte) {
	g.w.t.Helper()
	g.say(h, payload...)
	accept := g.one(frame.Accept)
	g.say(frame.Header{Kind: frame.Start, Call: h.Call, Nonce: accept.Header.Nonce})
}

// A host runs a function of the test.
type host struct {
	mu       sync.Mutex // guards the fields below
	ran      map[string]int
	execute  func(context.Context, clusternode.Incoming) (json.RawMessage, error)
	hear     func(string, session.Client, session.Message)
	told     []string
	released []session.Client
	levels   []string
	open     atomic.Int32 // subscriptions
	ends     map[string]chan struct{}
	last     clusternode.Incoming
}

func (h *host) Execute(ctx context.Context, in clusternode.Incoming) (json.RawMessage, bool, error) {
	h.mu.Lock()
	h.ran[in.ID]++
	h.last = in
	execute := h.execute
	h.mu.Unlock()
	result, err := execute(ctx, in)
	return result, false, err
}

func (h *host) does(f func(context.Context, clusternode.Incoming) (json.RawMessage, error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.execute = f
}

func (h *host) runs(id string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ran[id]
}

func (h *host) Subscribe(_ context.Context, in clusternode.Incoming) (<-chan struct{}, func(), error) {
	if in.URI == "none" {
		return nil, nil, &session.Error{Code: -32002, Message: "no such resource"}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = in
	done := make(chan struct{})
	if h.ends == nil {
		h.ends = make(map[string]chan struct{})
	}
	h.ends[in.ID] = done
	h.open.Add(1)
	return done, func() { h.open.Add(-1) }, nil
}

func (h *host) Listen(hear func(string, session.Client, session.Message)) func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hear = hear
	return func() {}
}

func (h *host) Keeps(server string, _ session.Client) bool { return server == "kept" }

func (h *host) Release(home session.Client) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released = append(h.released, home)
}

func (h *host) Tell(_ session.Client, method string, _ json.RawMessage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = append(h.told, method)
}

func (h *host) SetLevel(_ context.Context, level string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.levels = append(h.levels, level)
}

// A call runs once, after its start. Its result names the call, is kept until the gateway has it,
// and is sent again when it asks.
func TestCall(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		g := w.gateway()
		params := `{"name":"read","arguments":{"path":"a"}}`
		h := offer("1", false)
		h.Home, h.Offer.Client, h.Offer.Meta = "home", "editor", json.RawMessage(`{"a":1}`)
		h.Offer.Capabilities, h.Offer.Origin = json.RawMessage(`{"roots":{}}`), session.Origin{Profile: "p", Name: "ann", Principal: "abc"}
		h.Body = &frame.Body{ID: "b", Size: int64(len(params)), Sum: transfer.Sum([]byte(params))}
		g.say(h, []byte(params)...)
		accept := g.one(frame.Accept)
		if w.host.runs("1") != 0 {
			t.Fatal("it ran before its start")
		}
		g.say(frame.Header{Kind: frame.Start, Call: "1", Nonce: accept.Header.Nonce})
		result := g.one(frame.Result)
		if want := (frame.CallResult{Server: "files", Method: "tools/call", Tool: "read", Arguments: h.Body.Sum}); *result.Header.Result != want || string(result.Payload) != `{"ok":true}` {
			t.Errorf("got %+v with %s", result.Header.Result, result.Payload)
		}
		in := w.host.last
		who, ok := session.CallerOf(in.Request.From)
		if !ok || who.MayLogIn || !who.OverHTTP || who.Name != "ann@laptop" || who.Principal == "abc" {
			t.Errorf("it was called by %+v", who)
		}
		if in.Gateway != "laptop" || in.Server != "files" || in.Tool != "read" || string(in.Request.Params) != params || string(in.Request.Meta) != `{"a":1}` ||
			in.Request.From.ClientName() != "editor" || in.Request.From.Home() == nil || in.Request.Origin.Profile != "p" {
			t.Errorf("it ran as %+v", in)
		}
		if in.Request.Origin.Rules != nil {
			t.Errorf("no rules became %s", in.Request.Origin.Rules)
		}
		for range 2 {
			g.say(frame.Header{Kind: frame.Poll, Call: "1"})
			if again := g.one(frame.Result); string(again.Payload) != `{"ok":true}` {
				t.Errorf("got %s again", again.Payload)
			}
		}
		g.say(frame.Header{Kind: frame.Done, Call: "1"})
		g.say(frame.Header{Kind: frame.Poll, Call: "1"})
		if state := g.one(frame.State); state.Header.Running || state.Header.Error != nil {
			t.Errorf("the state is %+v", state.Header)
		}
		if n := w.host.runs("1"); n != 1 {
			t.Errorf("it ran %d times", n)
		}
	})
}

// A result that its gateway does not fetch is forgotten.
func TestResultExpires(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		g := w.gateway()
		g.say(offer("1", true))
		g.one(frame.Result)
		time.Sleep(keepTime - 2*time.Second)
		g.say(frame.Header{Kind: frame.Poll, Call: "1"})
		g.one(frame.Result)
		time.Sleep(4 * time.Second)
		g.say(frame.Header{Kind: frame.Poll, Call: "1"})
		g.one(frame.State)
		w.empty()
	})
}

// empty fails unless the callee has forgotten all calls.
func (w *world) empty() {
	w.t.Helper()
	synctest.Wait()
	c := w.callee
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) > 0 || c.kept.Len() > 0 || c.total != (usage{}) || c.verifying != 0 || c.early.Load() != 0 {
		w.t.Errorf("it has %d calls, %d results, %+v, %d offers, %d bytes", len(c.calls), c.kept.Len(), c.total, c.verifying, c.early.Load())
	}
	for key, u := range c.usage {
		if *u != (usage{gateways: u.gateways}) || u.gateways == 0 {
			w.t.Errorf("%s has %+v", key, *u)
		}
	}
}

// Each error of a call reaches the gateway as its kind.
func TestErrors(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	for _, tt := range []struct {
		name string
		err  error
		want frame.Fault
		body bool
	}{
		{"the server's", &session.Error{Code: 7, Message: "no"}, frame.Fault{Sent: true, Own: &session.Error{Code: 7, Message: "no"}}, false},
		{"a long one of the server's", &session.Error{Code: 7, Message: long}, frame.Fault{Sent: true, Own: &session.Error{Code: 7}}, true},
		{"not sent", fmt.Errorf("it is off: %w", session.ErrNotSent), frame.Fault{Reason: "it is off: not sent"}, false},
		{"closed", fmt.Errorf("it died: %w", session.ErrClosed), frame.Fault{Sent: true, Reason: "it died: session closed"}, false},
		{"both", errors.Join(session.ErrClosed, session.ErrNotSent), frame.Fault{Reason: "session closed\nnot sent"}, false},
		{"another", errors.New("odd"), frame.Fault{Sent: true, Reason: "odd"}, false},
		{"a panic", nil, frame.Fault{Sent: true, Reason: "internal error"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.host.does(func(context.Context, clusternode.Incoming) (json.RawMessage, error) {
					if tt.err == nil {
						panic("oops")
					}
					return nil, tt.err
				})
				g := w.gateway()
				g.say(offer("1", true))
				f := g.one(frame.Result)
				got := *f.Header.Error
				if got.Sent != tt.want.Sent || got.Reason != tt.want.Reason || (got.Own == nil) != (tt.want.Own == nil) || got.Own != nil && (got.Own.Code != tt.want.Own.Code || got.Own.Message != tt.want.Own.Message) {
					t.Errorf("got %+v", got)
				}
				if tt.body {
					var own session.Error
					if err := json.Unmarshal(f.Payload, &own); err != nil || own.Message != long {
						t.Errorf("the body has %d bytes: %v", len(f.Payload), err)
					}
				}
			})
		})
	}
}

// Offers that break a rule are refused or ignored, and nothing runs.
func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		name    string
		change  func(w *world, g *gate, h *frame.Header)
		refused string // "" if the offer is ignored
		dropped string
	}{
		{"not trusted", func(w *world, g *gate, _ *frame.Header) { w.set(func() { delete(w.trusted, g.Self().Key) }) }, "", "untrusted"},
		{"not shared", func(_ *world, _ *gate, h *frame.Header) { h.Server = "mail" }, errNotShared.Error(), "unshared"},
		{"no server", func(_ *world, _ *gate, h *frame.Header) { h.Server = "" }, errNotShared.Error(), "unshared"},
		{"a clock behind", func(w *world, _ *gate, _ *frame.Header) { w.set(func() { w.skew = maxSkew + time.Second }) }, "", "clock"},
		{"a clock ahead", func(w *world, _ *gate, _ *frame.Header) { w.set(func() { w.skew = -maxSkew - time.Second }) }, "", "clock"},
		{"old", func(w *world, _ *gate, _ *frame.Header) { w.set(func() { w.age = startTime + time.Millisecond }) }, errOld.Error(), "expired"},
		{"no ID", func(_ *world, _ *gate, h *frame.Header) { h.Call = "" }, "", "malformed"},
		{"a long ID", func(_ *world, _ *gate, h *frame.Header) { h.Call = strings.Repeat("x", maxID+1) }, "", "malformed"},
		{"no offer", func(_ *world, _ *gate, h *frame.Header) { h.Offer = nil }, "", "malformed"},
		{"a method of sessions", func(_ *world, _ *gate, h *frame.Header) { h.Offer.Method, h.Offer.Tool = "logging/setLevel", "" }, "", "malformed"},
		{"a request as a call of a tool", func(_ *world, _ *gate, h *frame.Header) { h.Offer.Method = "resources/read" }, "", "malformed"},
		{"no tool", func(_ *world, _ *gate, h *frame.Header) { h.Offer.Tool = "" }, "", "malformed"},
		{"meta that is no object", func(_ *world, _ *gate, h *frame.Header) { h.Offer.Meta = json.RawMessage(`[]`) }, "", "malformed"},
		{"capabilities that are no object", func(_ *world, _ *gate, h *frame.Header) { h.Offer.Capabilities = json.RawMessage(`"x"`) }, "", "malformed"},
		{"a long principal", func(_ *world, _ *gate, h *frame.Header) { h.Offer.Origin.Principal = strings.Repeat("x", maxName+1) }, "", "malformed"},
		{"two lines as a name", func(_ *world, _ *gate, h *frame.Header) { h.Offer.Origin.Name = "ann\nbob" }, "", "malformed"},
		{"too large", func(_ *world, _ *gate, h *frame.Header) {
			h.Body = &frame.Body{ID: "b", Size: transfer.MaxBody + 1, Sum: transfer.Sum(nil)}
		}, errInvalid.Error(), "malformed"},
		{"a negative size", func(_ *world, _ *gate, h *frame.Header) {
			h.Body = &frame.Body{ID: "b", Size: -1, Sum: transfer.Sum(nil)}
		}, errInvalid.Error(), "malformed"},
		{"leaving", func(w *world, _ *gate, _ *frame.Header) {
			w.callee.mu.Lock()
			defer w.callee.mu.Unlock()
			w.callee.leaving = true
		}, errRefusing.Error(), ""},
	} {
		for _, direct := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", tt.name, direct), func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					g := w.gateway()
					h := offer("1", direct)
					tt.change(w, g, &h)
					g.say(h)
					if tt.refused == "" {
						g.none()
					} else if f := g.one(frame.Refuse); f.Header.Error.Sent || f.Header.Error.Reason != tt.refused || f.Header.Call != h.Call {
						t.Errorf("got %+v", f.Header.Error)
					}
					if tt.dropped != "" && w.dropped(tt.dropped) != 1 {
						t.Errorf("dropped: %v", w.callee.Dropped())
					}
					if len(w.host.ran) > 0 {
						t.Error("it ran")
					}
					w.empty()
				})
			})
		}
	}
}

// Params for another tool than the offer's are refused.
func TestBadParams(t *testing.T) {
	for _, params := range []string{
		``, `[]`, `"x"`, `{`, `{"name":"write"}`, `{"name":"read","name":"write"}`, `{"name":"write","name":"read"}`, `{"name":7}`,
		`{"name":"read","_meta":{}}`, "{\"name\":\"read\",\n\"arguments\":{}}", `{"name":"read"} x`,
	} {
		t.Run(params, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				g := w.gateway()
				h := offer("1", true)
				h.Body = &frame.Body{ID: "b", Size: int64(len(params)), Sum: transfer.Sum([]byte(params))}
				g.say(h, []byte(params)...)
				g.one(frame.Refuse)
				w.empty()
			})
		})
	}
}

// A start runs nothing if it is not exactly the one for the offer, in time and from its gateway.
func TestStart(t *testing.T) {
	for _, tt := range []struct {
		name    string
		change  func(w *world, g *gate, h *frame.Header) (from *gate)
		dropped string
	}{
		{"another nonce", func(_ *world, g *gate, h *frame.Header) *gate { h.Nonce = "x"; return g }, "nonce"},
		{"no nonce", func(_ *world, g *gate, h *frame.Header) *gate { h.Nonce = ""; return g }, "nonce"},
		{"from another gateway", func(w *world, _ *gate, _ *frame.Header) *gate { return w.gateway() }, ""},
		{"from another router of the node", func(w *world, g *gate, _ *frame.Header) *gate {
			other := &gate{Node: w.net.Join(g.Key()), w: w}
			return other
		}, ""},
		{"late by both clocks", func(_ *world, g *gate, _ *frame.Header) *gate { time.Sleep(startTime + time.Millisecond); return g }, "expired"},
		{"late by the wall clock", func(w *world, g *gate, _ *frame.Header) *gate {
			w.set(func() { w.skew = startTime + time.Millisecond })
			return g
		}, "expired"},
		{"the wall clock was set back", func(w *world, g *gate, _ *frame.Header) *gate {
			w.set(func() { w.skew = -startTime - time.Millisecond })
			return g
		}, "expired"},
		{"late by how old it is", func(w *world, g *gate, _ *frame.Header) *gate {
			w.set(func() { w.age = startTime + time.Millisecond })
			return g
		}, "expired"},
		{"no longer shared", func(w *world, g *gate, _ *frame.Header) *gate {
			w.set(func() { w.shared["files"] = false })
			return g
		}, "unshared"},
		{"no longer trusted", func(w *world, g *gate, _ *frame.Header) *gate {
			w.set(func() { clear(w.trusted) })
			return g
		}, "untrusted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				g := w.gateway()
				g.say(offer("1", false))
				h := frame.Header{Kind: frame.Start, Call: "1", Nonce: g.one(frame.Accept).Header.Nonce}
				tt.change(w, g, &h).say(h)
				synctest.Wait()
				if len(w.host.ran) > 0 {
					t.Error("it ran")
				}
				if tt.dropped != "" && w.dropped(tt.dropped) != 1 {
					t.Errorf("dropped: %v", w.callee.Dropped())
				}
				w.set(func() { w.skew, w.age = 0, 0; w.shared["files"] = true; w.trusted[g.Self().Key] = true })
				g.take()
				time.Sleep(startTime + time.Second)
				g.take()
				h = frame.Header{Kind: frame.Start, Call: "1", Nonce: h.Nonce}
				g.say(h)
				if state := g.one(frame.State); state.Header.Running || state.Header.Error == nil || state.Header.Error.Sent {
					t.Errorf("after that, the state is %+v", state.Header)
				}
				if len(w.host.ran) > 0 {
					t.Error("it ran later")
				}
				w.empty()
			})
		})
	}
}

// A start that another node has signed in the gateway's name runs nothing.
func TestForgedStart(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		g := w.gateway()
		g.say(offer("1", false))
		h := frame.Header{
			Kind: frame.Start, Call: "1", Nonce: g.one(frame.Accept).Header.Nonce,
			From: g.Self(), To: w.node.Self(), Time: time.Now().UnixMilli(),
		}
		data, err := frame.Encode(h, nil, linktest.NewKey())
		if err != nil {
			t.Fatal(err)
		}
		w.stranger().SendRaw(w.node.Self(), data)
		synctest.Wait()
		if len(w.host.ran) > 0 || w.dropped("forged") != 1 {
			t.Errorf("it ran: %v, %v", w.host.ran, w.callee.Dropped())
		}
		g.say(frame.Header{Kind: frame.Start, Call: "1", Nonce: h.Nonce})
		g.one(frame.Result) // the forged one did no harm
	})
}

// A recorded exchange that is played again, at once and later, runs nothing twice.
func TestReplay(t *testing.T) {
	for _, later := range []time.Duration{0, time.Second, 10 * time.Second, 45 * time.Second, 70 * time.Second, 3 * time.Minute} {
		t.Run(later.String(), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				g := w.gateway()
				var tape []*frame.Frame
				var raw [][]byte
				w.net.Drop(func(from, to *linktest.Node, f *frame.Frame) bool {
					if to == w.node {
						tape = append(tape, f)
					}
					return false
				})
				g.start(offer("1", false))
				g.one(frame.Result)
				g.say(offer("2", true))
				g.one(frame.Result)
				g.say(frame.Header{Kind: frame.Tell, Call: "t", Home: "h", Message: &frame.Notification{Method: "x"}})
				g.say(frame.Header{Kind: frame.Done, Call: "1"})
				synctest.Wait()
				w.net.Drop(nil)
				for _, f := range tape {
					data, err := frame.Encode(f.Header, f.Payload, g.Key())
					if err != nil {
						t.Fatal(err)
					}
					raw = append(raw, data)
				}
				time.Sleep(later)
				for range 3 {
					for _, data := range raw {
						g.SendRaw(w.node.Self(), data)
					}
					synctest.Wait()
				}
				if w.host.runs("1") != 1 || w.host.runs("2") != 1 {
					t.Errorf("they ran %v times", w.host.ran)
				}
				// A clock that is set back does not make the frames new.
				w.set(func() { w.skew = -later })
				for _, data := range raw {
					g.SendRaw(w.node.Self(), data)
				}
				synctest.Wait()
				if w.host.runs("1") != 1 || w.host.runs("2") != 1 {
					t.Errorf("after the clock was set back, they ran %v times", w.host.ran)
				}
				w.set(func() { w.skew = 0 })
				if n := len(slices.DeleteFunc(g.take(), func(f *frame.Frame) bool { return f.Header.Kind != frame.Accept })); n > 0 {
					t.Errorf("%d offers were accepted", n)
				}
			})
		})
	}
}
