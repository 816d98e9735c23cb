package caller

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// A remote is a session with a server of another node, for one client.
type remote struct {
	caller *Caller
	target Target
	from   session.Client // nil for the router itself

	mu    sync.Mutex    // guards ended
	ended chan struct{} // closed when the session or one of its subscriptions has ended; nil before the first subscription
}

// Session returns a session with a server of another node, for a client; nil is the router itself.
// It ends when the target is gone, or a subscription that was made with it has ended.
func (c *Caller) Session(t Target, from session.Client) session.Session {
	return &remote{caller: c, target: t, from: from}
}

// Notify implements [session.Session]. Other nodes get notifications of clients with a session only.
func (s *remote) Notify(_ context.Context, method string, params json.RawMessage) error {
	home := s.caller.homes.at(s.from, s.target.To)
	if home == "" {
		return nil
	}
	if err := s.caller.Wire.Send(s.target.To, s.caller.tell(home, method, params), nil); err != nil {
		return notSent("notify node %q: %w", s.target.Node, err)
	}
	return nil
}

// Listen implements [session.Session].
func (s *remote) Listen(hear func(session.Message)) (stop func()) {
	return s.caller.events.listen(s.target, hear)
}

// Done implements [session.Session].
func (s *remote) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return s.ended
	}
	return s.target.Gone
}

// Info implements [session.Session].
func (s *remote) Info() session.Info { return s.target.Info }

const (
	// askAgain is the pause before a subscription without an answer is asked for again.
	askAgain = 2 * time.Second

	// subscribeTime bounds how long a subscription may take to begin. Its server may have to start.
	subscribeTime = 65 * time.Second
)

// A subscription is one to a resource of a server of another node. It belongs to its goroutine.
type subscription struct {
	*exchange
	target Target
	uri    string
	ctx    context.Context // until the subscription is no longer wanted
	began  chan error      // the result of Subscribe
}

// Subscribe implements [session.Session]. When the subscription ends, because the node is lost, has
// ended it, or cancel was called, the session ends.
func (s *remote) Subscribe(ctx context.Context, uri string) (cancel func(), err error) {
	c := s.caller
	if signal.IsClosed(s.target.Gone) {
		return nil, notSent("node %q has left, or no longer shares the server; see: metarouter nodes", s.target.Node)
	}
	life, end := context.WithCancel(c.life)
	one := &subscription{
		exchange: c.newExchange(newID(), s.target.To, s.target.Name, s.from), target: s.target, uri: uri, ctx: life, began: make(chan error, 1),
	}
	c.events.use(s.target)
	if !c.start(func() {
		defer s.endSoon()()
		defer end()
		one.run()
	}) {
		end()
		return nil, notSent("%w", errLeft)
	}
	select {
	case err := <-one.began:
		if err != nil {
			end()
			return nil, err
		}
		return end, nil
	case <-ctx.Done():
		end()
		return nil, context.Cause(ctx)
	}
}

// endSoon has Done return a channel that is closed when end is called.
func (s *remote) endSoon() (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		s.ended = make(chan struct{})
	}
	ended := s.ended
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !signal.IsClosed(ended) {
			close(ended)
		}
	}
}

// run begins the subscription, and returns when it has ended.
func (s *subscription) run() {
	s.caller.open(s.exchange)
	defer s.stop()
	offer := &frame.CallOffer{}
	if s.from != nil {
		offer.Client, offer.Modern, offer.Capabilities = s.from.ClientName(), s.from.Modern(), s.from.Capabilities()
	}
	ask := frame.Header{Kind: frame.Subscribe, Home: s.caller.homes.at(s.from, s.to), Server: s.target.Server, URI: s.uri, Offer: offer}
	if err := s.send(ask, nil); err != nil {
		s.began <- notSent("subscribe at node %q: %w", s.target.Node, err)
		return
	}
	running := false
	asked := time.Now()
	lost := s.caller.Lost(s.to)
	for {
		timer := time.NewTimer(askAgain)
		select {
		case <-s.in.came:
			for _, f := range s.in.take() {
				if f.Header.Kind != frame.State || !s.caller.verified(f) {
					continue
				}
				if f.Header.Running {
					if !running {
						s.began <- nil
					}
					running = true
					continue
				}
				timer.Stop()
				if !running {
					s.began <- subscribeError(s.target.Node, f.Header.Error)
				}
				return
			}
		case <-timer.C:
			if !running {
				if time.Since(asked) > subscribeTime {
					s.unsubscribe()
					s.began <- notSent("node %q does not answer the subscription", s.target.Node)
					return
				}
				_ = s.send(ask, nil)
			}
		case <-lost:
			timer.Stop()
			s.goneBefore(running)
			return
		case <-s.target.Gone:
			timer.Stop()
			s.unsubscribe()
			s.goneBefore(running)
			return
		case <-s.ctx.Done():
			timer.Stop()
			s.unsubscribe()
			s.goneBefore(running)
			return
		}
		timer.Stop()
	}
}

func subscribeError(node string, f *frame.Fault) error {
	if f == nil {
		return notSent("node %q has ended the subscription", node)
	}
	return faultError(node, f)
}

// goneBefore says that the subscription will not begin, if it has not.
func (s *subscription) goneBefore(running bool) {
	if !running {
		s.began <- notSent("node %q has left, or no longer shares the server; see: metarouter nodes", s.target.Node)
	}
}

// unsubscribe ends the subscription at the node.
func (s *subscription) unsubscribe() {
	_ = s.caller.Wire.Send(s.to, frame.Header{Kind: frame.Unsubscribe, Call: s.id}, nil)
}
