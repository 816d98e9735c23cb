package peer

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A client answers with what it was asked, and notes the notifications that it got.
type client struct {
	name         string
	home         *client // nil if it has none
	modern       bool
	capabilities string

	mu    sync.Mutex
	heard []string
	asked chan struct{} // if not nil, Ask sends to it and waits for the end of its context

	// answer is what Ask does, if it is not nil.
	answer func(ctx context.Context, method string) (json.RawMessage, error)
}

func (c *client) Home() session.Client {
	if c.home == nil {
		return nil
	}
	return c.home
}
func (c *client) ClientName() string            { return "" }
func (c *client) Modern() bool                  { return c.modern }
func (c *client) Capabilities() json.RawMessage { return json.RawMessage(c.capabilities) }

func (c *client) Notify(server string, m session.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = append(c.heard, strings.TrimPrefix(m.Method, "notifications/")+string(m.Params))
}

func (c *client) Ask(ctx context.Context, server string, m session.Message) (json.RawMessage, error) {
	if c.answer != nil {
		return c.answer(ctx, m.Method)
	}
	if c.asked != nil {
		c.asked <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return fmt.Appendf(nil, `{"by":%q,"to":%q,"params":%s}`, c.name, m.Method, m.Params), nil
}

// clientOf returns a client that is its own home.
func clientOf(name string) *client {
	c := &client{name: name, capabilities: `{"roots":{}}`}
	c.home = c
	return c
}

// Whom a server asks, by the calls that are under way.
func TestAskAttributed(t *testing.T) {
	alice, bob, owner := clientOf("alice"), clientOf("bob"), clientOf("owner")
	for name, tc := range map[string]struct {
		callers []session.Client
		origin  int // of the message: the number of the call, from 1; 0 if not known
		owner   session.Client
		method  string
		want    string
	}{
		"the only caller":             {[]session.Client{alice}, 0, nil, "sampling/createMessage", `"by":"alice"`},
		"two calls of one":            {[]session.Client{alice, alice}, 0, nil, "elicitation/create", `"by":"alice"`},
		"no caller":                   {nil, 0, nil, "sampling/createMessage", "only while a request of that client is under way"},
		"no caller, owned":            {nil, 0, owner, "elicitation/create", "only while a request of that client is under way"},
		"the router itself":           {[]session.Client{nil}, 0, nil, "sampling/createMessage", "only while a request of that client is under way"},
		"two clients":                 {[]session.Client{alice, bob}, 0, nil, "sampling/createMessage", "it is unknown which client is meant"},
		"two clients, on one stream":  {[]session.Client{alice, bob}, 1, nil, "sampling/createMessage", `"by":"alice"`},
		"two without a home":          {[]session.Client{&client{name: "x"}, &client{name: "y"}}, 0, nil, "sampling/createMessage", "it is unknown which client is meant"},
		"roots, shared":               {[]session.Client{alice}, 0, nil, "roots/list", `{"roots":[]}`},
		"roots, owned":                {nil, 0, owner, "roots/list", `"by":"owner"`},
		"roots, owner has none":       {nil, 0, &client{capabilities: "{}"}, "roots/list", `{"roots":[]}`},
		"roots, owned, during a call": {[]session.Client{alice}, 0, alice, "roots/list", `"by":"alice"`},
	} {
		t.Run(name, func(t *testing.T) {
			p, s := pair(t)
			var asked bool
			p.host.Asked = func(string) { asked = true }
			p.host.Owner = func() session.Client { return tc.owner }
			var calls sync.WaitGroup
			var origin int64
			for i, from := range tc.callers {
				calls.Go(func() { p.Call(t.Context(), session.Request{Method: "m", From: from}) })
				m := s.read()
				if i+1 == tc.origin {
					fmt.Sscan(string(m.ID), &origin)
				}
			}
			p.Receive(wire.Message{ID: json.RawMessage("5"), Method: tc.method, Params: json.RawMessage("{}")}, origin)
			answer := s.read()
			if got := string(answer.Result) + string(answer.Error); string(answer.ID) != "5" || !strings.Contains(got, tc.want) {
				t.Errorf("answered with %s, want %s", got, tc.want)
			}
			if !asked {
				t.Error("the host was not notified that the server asks")
			}
			if got, want := p.Questions.RootsSent(), tc.method == "roots/list" && tc.owner != nil && strings.Contains(tc.want, "by"); got != want {
				t.Errorf("it has got the roots of a client: %t, want %t", got, want)
			}
			s.out.Close()
			calls.Wait()
		})
	}
}

func TestAskWithdrawn(t *testing.T) {
	p, s := pair(t)
	c := clientOf("c")
	c.asked = make(chan struct{})
	begin(t, p, s, c)
	s.write(`{"id":"q","method":"sampling/createMessage","params":{}}`)
	<-c.asked
	s.write(`{"method":"notifications/cancelled","params":{"requestId":"q"}}`)
	p.Wait() // Ask has ended, and nothing is answered
	s.write(`{"id":"r","method":"ping"}`)
	if m := s.read(); string(m.ID) != `"r"` {
		t.Errorf("the withdrawn request was answered: %s %s", m.Result, m.Error)
	}
}

// Equal tokens of several clients stay apart, and each client sees its own.
func TestProgress(t *testing.T) {
	p, s := pair(t)
	a, b := clientOf("a"), clientOf("b")
	var calls sync.WaitGroup
	tokens := map[*client]string{a: `"t"`, b: `9007199254740993`}
	for _, c := range []*client{a, b} {
		calls.Go(func() {
			meta := json.RawMessage(`{"progressToken":` + tokens[c] + `}`)
			if _, err := p.Call(t.Context(), session.Request{Method: "m", Meta: meta, From: c}); err != nil {
				t.Error(err)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			for i, heard := range c.heard {
				expect.Equal(t, heard, fmt.Sprintf(`progress{"progress":%d,"progressToken":%s}`, i, tokens[c]), "%s heard", c.name)
			}
			expect.Equal(t, len(c.heard), 100, "%s heard of progress … times before the result", c.name)
		})
	}
	requests := []wire.Message{s.read(), s.read()}
	for i := range 100 {
		for _, m := range requests {
			s.write(`{"method":"notifications/progress","params":{"progress":%d,"progressToken":%s}}`, i, wire.Member(wire.Member(m.Params, "_meta"), "progressToken"))
		}
	}
	s.write(`{"method":"notifications/progress","params":{"progress":1,"progressToken":77}}`) // of no request
	for _, m := range requests {
		s.write(`{"id":%s,"result":{}}`, m.ID)
	}
	calls.Wait()
}

// A modern server's questions to a legacy client are asked one by one, and the
// request is repeated with the answers.
func TestRounds(t *testing.T) {
	p, s := pair(t)
	p.agreed.meta = json.RawMessage(`{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`)
	c := clientOf("c")
	c.capabilities = `{"elicitation":{}}`
	go func() {
		first := s.read()
		s.write(`{"id":%s,"result":{"resultType":"input_required","requestState":"s 1","inputRequests":{"a":{"method":"elicitation/create","params":{"n":1}},"b":{"method":"elicitation/create","params":{"n":2}}}}}`, first.ID)
		second := s.read()
		answers := wire.Member(second.Params, "inputResponses")
		if string(wire.Member(second.Params, "requestState")) != `"s 1"` || string(wire.Member(second.Params, "x")) != "1" ||
			string(wire.Member(answers, "a")) != `{"by":"c","to":"elicitation/create","params":{"n":1}}` || wire.Member(answers, "b") == nil {
			t.Errorf("the request was repeated with %s", second.Params)
		}
		s.write(`{"id":%s,"result":{"resultType":"input_required","requestState":"s 2"}}`, second.ID)
		third := s.read()
		if string(wire.Member(third.Params, "requestState")) != `"s 2"` || string(wire.Member(third.Params, "inputResponses")) != "{}" {
			t.Errorf("the request was repeated again with %s", third.Params)
		}
		s.write(`{"id":%s,"result":{"resultType":"complete"}}`, third.ID)
	}()
	result, err := p.Call(t.Context(), session.Request{Method: "tools/call", Params: json.RawMessage(`{"x":1}`), From: c})
	if err != nil || string(result) != `{"resultType":"complete"}` {
		t.Errorf("Call = %s, %v", result, err)
	}
}

func TestRoundsEnd(t *testing.T) {
	p, s := pair(t)
	p.agreed.meta = json.RawMessage(`{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`)
	go func() {
		for range maxRounds + 1 {
			s.write(`{"id":%s,"result":{"resultType":"input_required","requestState":"again"}}`, s.read().ID)
		}
	}()
	_, err := p.Call(t.Context(), session.Request{Method: "tools/call", From: clientOf("c")})
	expect.Error(t, err, "asked for input 10 times")
	// A modern client answers itself.
	go func() {
		s.write(`{"id":%s,"result":{"resultType":"input_required"}}`, s.read().ID)
	}()
	modern := clientOf("m")
	modern.modern = true
	if result, err := p.Call(t.Context(), session.Request{Method: "tools/call", From: modern}); err != nil || !strings.Contains(string(result), "input_required") {
		t.Errorf("Call = %s, %v", result, err)
	}
}

// A server may use the id of a request again that it has withdrawn.
func TestAskWithTheSameID(t *testing.T) {
	p, s := pair(t)
	patient, prompt := clientOf("patient"), clientOf("prompt")
	patient.asked = make(chan struct{})
	first, second := begin(t, p, s, patient), begin(t, p, s, prompt)
	ask := func(method string, origin int64) {
		p.Receive(wire.Message{ID: json.RawMessage("1"), Method: method, Params: json.RawMessage("{}")}, origin)
	}
	ask("sampling/createMessage", first)
	<-patient.asked
	p.Receive(wire.Message{Method: Cancelled, Params: json.RawMessage(`{"requestId":1}`)}, 0)
	ask("elicitation/create", second)
	if m := s.read(); string(m.ID) != "1" || !strings.Contains(string(m.Result), `"to":"elicitation/create"`) {
		t.Errorf("answered with %s %s", m.Result, m.Error)
	}
	p.Wait()
}

// begin begins a call of the client, which ends with the test, and returns its id.
func begin(t *testing.T, p *Peer, s *script, c session.Client) (id int64) {
	var calling sync.WaitGroup
	calling.Go(func() { p.Call(t.Context(), session.Request{Method: "tools/call", From: c}) })
	t.Cleanup(calling.Wait)
	fmt.Sscan(string(s.read().ID), &id)
	return id
}
