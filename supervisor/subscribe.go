package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

const (
	// unsubscribeTimeout bounds the request that ends a legacy subscription.
	unsubscribeTimeout = 10 * time.Second

	// relistenAfter is the pause before a subscription that a modern server has
	// ended is asked for again; it doubles while they end soon.
	relistenAfter = time.Second
)

// subscriptions are the resources of which somebody wants to hear.
type subscriptions struct {
	turn  chan struct{} // holds an item while the server is told, so that it is told in order
	edits chan struct{} // holds a signal when count has changed; nil for legacy servers

	mu     sync.Mutex     // guards what follows
	count  map[string]int // changed by who has the turn
	agreed []string       // of which a modern server has said that it will tell
	news   chan struct{}  // closed when agreed is replaced, then itself replaced
}

// Subscribe implements [session.Session].
func (p *peer) Subscribe(ctx context.Context, uri string) (cancel func(), err error) {
	if err := p.subscribeTo(ctx, uri); err != nil {
		return nil, err
	}
	if p.meta != nil && p.subscriptions.edits != nil {
		p.subscriptions.awaitAgreement(ctx, uri, p.closed)
	}
	return sync.OnceFunc(func() { p.unsubscribe(uri) }), nil
}

// subscribeTo has the server told that somebody wants to hear of the resource.
func (p *peer) subscribeTo(ctx context.Context, uri string) error {
	s := &p.subscriptions
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if s.add(uri, 0) == 0 && p.meta == nil {
		if _, err := p.Call(ctx, session.Request{Method: "resources/subscribe", Params: uriParams(uri)}); err != nil {
			return err
		}
	}
	if s.add(uri, 1) == 1 && s.edits != nil {
		notify(s.edits)
	}
	return nil
}

// add changes how many want to hear of the resource, and returns how many do.
func (s *subscriptions) add(uri string, n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n = s.count[uri] + n; n == 0 {
		delete(s.count, uri)
	} else {
		s.count[uri] = n
	}
	return n
}

// agreeWait is how long a modern server may take to say what it will tell of.
// What changes before that may be lost.
const agreeWait = time.Second

// agreement returns what the server has last said it will tell of, and a channel
// that is closed when it says so anew.
func (s *subscriptions) agreement() (uris []string, news <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.agreed, s.news
}

// awaitAgreement waits until the server has said that it will tell of the resource.
func (s *subscriptions) awaitAgreement(ctx context.Context, uri string, closed <-chan struct{}) {
	patience := time.NewTimer(agreeWait)
	defer patience.Stop()
	for {
		agreed, news := s.agreement()
		if slices.Contains(agreed, uri) {
			return
		}
		select {
		case <-news:
		case <-patience.C:
			return
		case <-ctx.Done():
			return
		case <-closed:
			return
		}
	}
}

// agree notes what a modern server has said that it will tell.
func (s *subscriptions) agree(params json.RawMessage) {
	var agreed []string
	if json.Unmarshal(wire.Member(wire.Member(params, "notifications"), "resourceSubscriptions"), &agreed) != nil {
		agreed = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.agreed = agreed
	close(s.news)
	s.news = make(chan struct{})
}

// unsubscribe gives up one subscription. It does not wait for the server.
func (p *peer) unsubscribe(uri string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cause != nil {
		return // and nobody may be added to owned
	}
	p.owned.Go(func() {
		s := &p.subscriptions
		s.turn <- struct{}{} // whoever has it gives it back in time
		defer func() { <-s.turn }()
		if s.add(uri, -1) > 0 {
			return
		}
		if p.meta != nil {
			if s.edits != nil {
				notify(s.edits)
			}
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), unsubscribeTimeout)
		defer cancel()
		p.Call(ctx, session.Request{Method: "resources/unsubscribe", Params: uriParams(uri)})
	})
}

func uriParams(uri string) json.RawMessage {
	return append(wire.AppendString([]byte(`{"uri":`), uri), '}')
}

// wanted returns the resources that somebody wants to hear of, sorted.
func (s *subscriptions) wanted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.count))
}

// listenOn has a modern server say when its lists and resources change, as
// legacy ones do unasked, until the session ends. A change of what is wanted is
// a new subscription, in force before the old one ends. It returns when the first
// is in force, so that no change after it is missed.
func (p *peer) listenOn(log *zap.Logger) {
	if p.meta == nil {
		return
	}
	settled := make(chan struct{})
	p.subscriptions.edits = make(chan struct{}, 1)
	if p.spawn(func() { p.keepListening(settled, log) }) {
		<-settled
	}
}

// keepListening closes settled when the first subscription is in force, or has
// failed.
func (p *peer) keepListening(settled chan struct{}, log *zap.Logger) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	settle := sync.OnceFunc(func() { close(settled) })
	defer settle()
	var current *request
	pause := relistenAfter
	for lost := false; ; {
		begun := time.Now()
		_, news := p.subscriptions.agreement()
		kinds := p.changingLists()
		next, err := p.subscribe(ctx, kinds)
		if err == nil && next != nil {
			p.await(next, news)
		}
		if current != nil {
			p.cancel(current)
			p.end(current)
		}
		if err != nil {
			return
		}
		settle()
		if lost { // what changed meanwhile was not told
			for _, kind := range kinds {
				p.tell(session.Message{Method: "notifications/" + kind + "/list_changed"})
			}
		}
		current, lost = next, false
		var ended chan reply // never, if nothing is subscribed to
		if current != nil {
			ended = current.answer
		}
		select {
		case <-p.closed:
			return
		case <-p.subscriptions.edits:
		case r := <-ended:
			_, err := r.result()
			log.Debug("the server has ended the subscription", zap.Error(err))
			if e, ok := errors.AsType[*session.Error](err); ok && e.Code == session.CodeMethodNotFound {
				<-p.closed // there are none
				return
			}
			if time.Since(begun) > maxReconnect {
				pause = relistenAfter
			}
			if within(p.closed, pause) {
				return
			}
			pause, lost = min(2*pause, maxReconnect), true
		}
	}
}

// await waits until a subscription is in force, or has ended.
func (p *peer) await(subscription *request, news <-chan struct{}) {
	patience := time.NewTimer(agreeWait)
	defer patience.Stop()
	select {
	case <-news:
	case r := <-subscription.answer:
		subscription.answer <- r // for who listens for its end; there is but one
	case <-patience.C:
	case <-p.closed:
	}
}

// changingLists returns the kinds of which the server says that their lists change.
func (p *peer) changingLists() []string {
	return slices.DeleteFunc([]string{"tools", "prompts", "resources"}, func(kind string) bool {
		return string(wire.Member(wire.Member(p.info.Capabilities, kind), "listChanged")) != "true"
	})
}

// subscribe sends a subscription to all that is wanted; nil if that is nothing.
func (p *peer) subscribe(ctx context.Context, kinds []string) (*request, error) {
	filter := []byte{}
	for _, kind := range kinds {
		filter = fmt.Appendf(filter, `,"%sListChanged":true`, kind)
	}
	if uris := p.subscriptions.wanted(); len(uris) > 0 {
		filter = fmt.Appendf(filter, `,"resourceSubscriptions":%s`, wire.Marshal(uris))
	}
	if len(filter) == 0 {
		return nil, nil
	}
	params := fmt.Appendf(nil, `{"notifications":{%s}}`, filter[1:])
	return p.begin(ctx, session.Request{Method: listen, Params: params})
}

const listen = "subscriptions/listen"
