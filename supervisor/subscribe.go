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

	mu    sync.Mutex // guards count, which is changed by who has the turn
	count map[string]int
}

// Subscribe implements [session.Session].
func (p *peer) Subscribe(ctx context.Context, uri string) (cancel func(), err error) {
	s := &p.subscriptions
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if s.add(uri, 0) == 0 && p.meta == nil {
		if _, err := p.Call(ctx, session.Request{Method: "resources/subscribe", Params: uriParams(uri)}); err != nil {
			return nil, err
		}
	}
	if s.add(uri, 1) == 1 && s.edits != nil {
		notify(s.edits)
	}
	return sync.OnceFunc(func() { p.unsubscribe(uri) }), nil
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
// a new subscription, in force before the old one ends.
func (p *peer) listenOn(log *zap.Logger) {
	if p.meta == nil {
		return
	}
	p.subscriptions.edits = make(chan struct{}, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cause == nil {
		p.owned.Go(func() { p.keepListening(log) })
	}
}

func (p *peer) keepListening(log *zap.Logger) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var current *request
	pause := relistenAfter
	for {
		begun := time.Now()
		next, err := p.subscribe(ctx)
		if current != nil {
			p.cancel(current)
			p.end(current)
		}
		if err != nil {
			return
		}
		current = next
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
			pause = min(2*pause, maxReconnect)
		}
	}
}

// subscribe sends a subscription to all that is wanted; nil if that is nothing.
func (p *peer) subscribe(ctx context.Context) (*request, error) {
	filter := []byte{}
	for _, kind := range []string{"tools", "prompts", "resources"} {
		if string(wire.Member(wire.Member(p.info.Capabilities, kind), "listChanged")) == "true" {
			filter = fmt.Appendf(filter, `,"%sListChanged":true`, kind)
		}
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
