package caller

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/cluster/internal/count"
	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/linktest"
	"github.com/mcp-metarouter/metarouter/cluster/internal/transfer"
	"github.com/mcp-metarouter/metarouter/internal/session"
)

// A trial is a gateway and a node that carries out its calls as a script says.
type trial struct {
	t       *testing.T
	network *linktest.Network
	gateway *linktest.Node
	box     *linktest.Node
	caller  *Caller
	counts  count.Counts
	end     func() // ends the caller
	target  Target
	gone    chan struct{}

	mu      sync.Mutex // guards the fields below
	script  func(f *frame.Frame)
	came    []frame.Header // the frames that the node got, but for pulls
	lost    map[frame.Address]chan struct{}
	heard   []heard
	params  map[string][]byte // by call
	sinks   map[string]*transfer.Sink
	sources map[string]*transfer.Source
	nonces  map[string]string
}

type heard struct {
	server string
	owner  session.Client
	m      session.Message
}

// run runs a test in a bubble.
func run(t *testing.T, test func(t *testing.T, tr *trial)) {
	synctest.Test(t, func(t *testing.T) {
		tr := &trial{
			t: t, network: linktest.New(t), gone: make(chan struct{}), lost: make(map[frame.Address]chan struct{}),
			params: make(map[string][]byte), sinks: make(map[string]*transfer.Sink), sources: make(map[string]*transfer.Source), nonces: make(map[string]string),
		}
		tr.gateway, tr.box = tr.network.Join(linktest.NewKey()), tr.network.Join(linktest.NewKey())
		tr.caller = New(Options{
			Wire: tr.gateway, Budget: transfer.NewBudget(transfer.MaxReceived), Log: zap.NewNop(), Counts: &tr.counts, Lost: tr.lostOf,
			OnMessage: func(server string, owner session.Client, m session.Message) {
				tr.mu.Lock()
				defer tr.mu.Unlock()
				tr.heard = append(tr.heard, heard{server, owner, m})
			},
		})
		tr.script = tr.serve
		tr.gateway.Receive(tr.caller.Receive)
		tr.box.Receive(tr.receive)
		tr.target = Target{To: tr.box.Self(), Node: "box", Name: "gpu@box", Server: "gpu", Info: session.Info{Name: "GPU"}, Gone: tr.gone}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { tr.caller.Run(ctx); close(done) }()
		tr.end = func() { cancel(); <-done }
		t.Cleanup(func() {
			tr.end()
			if n := tr.caller.waiting.Load(); n != 0 {
				t.Errorf("%d bytes still count as waiting", n)
			}
			if n := len(tr.caller.exchanges); n != 0 {
				t.Errorf("%d exchanges are still open", n)
			}
		})
		test(t, tr)
	})
}

func (tr *trial) lostOf(a frame.Address) <-chan struct{} {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.lost[a] == nil {
		tr.lost[a] = make(chan struct{})
	}
	return tr.lost[a]
}

// lose has the gateway lose the node.
func (tr *trial) lose() {
	tr.lostOf(tr.box.Self())
	close(tr.lost[tr.box.Self()])
}

// receive handles a frame as the node.
func (tr *trial) receive(f *frame.Frame) {
	tr.mu.Lock()
	script := tr.script
	if f.Header.Kind != frame.Pull && f.Header.Kind != frame.Part {
		tr.came = append(tr.came, f.Header)
	}
	tr.mu.Unlock()
	if f.Header.Kind != frame.Part && f.Verify() != nil {
		tr.t.Errorf("the %s frame is not signed", f.Header.Kind)
	}
	script(f)
}

// follow replaces the node's handler of frames.
func (tr *trial) follow(script func(f *frame.Frame)) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.script = script
}

// kinds returns which frames the node got, once all goroutines wait.
func (tr *trial) kinds() string {
	synctest.Wait()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	var all []string
	for _, h := range tr.came {
		all = append(all, string(h.Kind))
	}
	return strings.Join(all, " ")
}

// frames returns the frames of a kind that the node got.
func (tr *trial) frames(kind frame.Kind) (all []frame.Header) {
	synctest.Wait()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, h := range tr.came {
		if h.Kind == kind {
			all = append(all, h)
		}
	}
	return all
}

// serve is a node that echoes the params of calls.
func (tr *trial) serve(f *frame.Frame) {
	h := &f.Header
	switch h.Kind {
	case frame.Offer:
		if h.Body == nil {
			tr.ready(h, nil)
			return
		}
		sink, err := transfer.NewSink(*h.Body, f.Payload, transfer.NewBudget(1<<30), time.Now())
		if err != nil {
			tr.t.Error(err)
			return
		}
		tr.sinks[h.Call] = sink
		header := *h
		tr.advance(&header)
	case frame.Part:
		if sink := tr.sinks[h.Call]; sink != nil {
			sink.Add(*h.Part, f.Payload, time.Now())
			tr.advance(tr.offerOf(h.Call))
		}
	case frame.Start:
		if h.Nonce == tr.nonces[h.Call] {
			tr.answer(h.Call)
		}
	case frame.Pull:
		if source := tr.sources[h.Call]; source != nil {
			source.Answer(tr.box, h.From, h.Call, *h.Part)
		}
	case frame.Poll:
		if tr.sources[h.Call] != nil {
			tr.answer(h.Call)
			return
		}
		tr.send(h.Call, frame.Header{Kind: frame.State})
	}
}

func (tr *trial) offerOf(call string) *frame.Header {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, h := range tr.came {
		if h.Call == call && h.Kind == frame.Offer {
			return &h
		}
	}
	tr.t.Errorf("no call %s was offered", call)
	return &frame.Header{Offer: &frame.CallOffer{}}
}

// advance collects the params of a call, and accepts it.
func (tr *trial) advance(offer *frame.Header) {
	sink := tr.sinks[offer.Call]
	if data, ok, _ := sink.Bytes(); ok {
		delete(tr.sinks, offer.Call)
		tr.ready(offer, data)
		return
	}
	if pull, _, err := sink.Next(time.Now()); err == nil && pull.Length > 0 {
		tr.send(offer.Call, frame.Header{Kind: frame.Pull, Part: &pull})
	}
}

// ready accepts a call when its params are there.
func (tr *trial) ready(offer *frame.Header, params []byte) {
	tr.params[offer.Call] = params
	if offer.Offer.Direct {
		tr.answer(offer.Call)
		return
	}
	tr.nonces[offer.Call] = "nonce-" + offer.Call
	tr.send(offer.Call, frame.Header{Kind: frame.Accept, Nonce: tr.nonces[offer.Call]})
}

// answer sends the result of a call: its params.
func (tr *trial) answer(call string) {
	result := tr.params[call]
	if result == nil {
		result = []byte("{}")
	}
	tr.sources[call] = transfer.NewSource("result", result)
	tr.sources[call].Send(tr.box, tr.gateway.Self(), frame.Header{Kind: frame.Result, Call: call, Result: tr.resultOf(call)})
}

func (tr *trial) resultOf(call string) *frame.CallResult {
	h := tr.offerOf(call)
	r := &frame.CallResult{Server: h.Server, Method: h.Offer.Method, Tool: h.Offer.Tool, Arguments: transfer.Sum(nil)}
	if h.Body != nil {
		r.Arguments = h.Body.Sum
	}
	return r
}

// send sends a frame of the node.
func (tr *trial) send(call string, h frame.Header) {
	h.Call = call
	if err := tr.box.Send(tr.gateway.Self(), h, nil); err != nil {
		tr.t.Error(err)
	}
}

// An outcome is how a call ended.
type outcome struct {
	result json.RawMessage
	err    error
	took   time.Duration
	ran    session.Run
}

// call makes a call, and returns a channel with its outcome.
func (tr *trial) call(ctx context.Context, r session.Request) <-chan outcome {
	ended := make(chan outcome, 1)
	begin := time.Now()
	go func() {
		var o outcome
		r.Ran = &o.ran
		o.result, o.err = tr.caller.Session(tr.target, r.From).Call(ctx, r)
		o.took = time.Since(begin)
		ended <- o
	}()
	return ended
}

func echo(text string) session.Request {
	params, _ := json.Marshal(map[string]any{"name": "echo", "arguments": map[string]string{"text": text}})
	return session.Request{Method: toolsCall, Params: params}
}

// drop loses the first n frames of a kind.
func (tr *trial) drop(kind frame.Kind, n int) {
	tr.network.Drop(func(_, _ *linktest.Node, f *frame.Frame) bool {
		if f.Header.Kind != kind || n == 0 {
			return false
		}
		n--
		return true
	})
}

func (tr *trial) dropped(why count.Reason) uint64 {
	_, _, dropped := tr.counts.Now()
	return dropped[why]
}

// A client is a client of the gateway.
type client struct {
	home *client // may be nil; a home is its own

	mu       sync.Mutex // guards the fields below
	notified []string
	asked    int
	answer   func(ctx context.Context, m session.Message) (json.RawMessage, error)
}

func newHome() *client {
	c := &client{}
	c.home = c
	return c
}

func (c *client) Home() session.Client {
	if c.home == nil {
		return nil
	}
	return c.home
}
func (c *client) ClientName() string { return "tester" }
func (c *client) Modern() bool       { return false }
func (c *client) Capabilities() json.RawMessage {
	return json.RawMessage(`{"sampling":{},"elicitation":{}}`)
}

func (c *client) Notify(server string, m session.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notified = append(c.notified, server+" "+m.Method+" "+string(m.Params))
}

func (c *client) Ask(ctx context.Context, server string, m session.Message) (json.RawMessage, error) {
	c.mu.Lock()
	c.asked++
	answer := c.answer
	c.mu.Unlock()
	return answer(ctx, m)
}
