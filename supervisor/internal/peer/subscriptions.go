package peer

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
	"golang.org/x/sync/semaphore"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const (
	// unsubscribeTimeout bounds the request that ends a legacy subscription.
	unsubscribeTimeout = 10 * time.Second

	// minPause is the pause before a subscription that a modern server has ended is
	// asked for again; it doubles up to maxPause while they end soon.
	minPause = time.Second
	maxPause = 30 * time.Second

	// agreeTimeout is how long a modern server may take to acknowledge a
	// subscription. Changes before that may be lost.
	agreeTimeout = time.Second
)

// Subscriptions are the resources that clients have subscribed to, each once towards
// the server. Towards a modern server all of them, and the changes of its lists, are
// one request, which is replaced at each change.
type Subscriptions struct {
	NoLists bool // changes of lists are heard in another way; set before Follow

	conn      *Conn
	turn      *semaphore.Weighted // of 1, while a request about them is under way, so that they keep their order
	edits     chan struct{}       // holds an item when count has changed, for the loop of Follow
	following bool                // Follow has begun; set before the session is shared
	news      signal.Change       // of agreed

	mu     sync.Mutex     // guards the fields below
	count  map[string]int // subscribers by resource; changed only by the holder of turn
	agreed []string       // resources that a modern server has acknowledged
}

// add subscribes to the resource until cancel is called.
func (s *Subscriptions) add(ctx context.Context, uri string) (cancel func(), err error) {
	if s.turn.Acquire(ctx, 1) != nil {
		return nil, context.Cause(ctx)
	}
	if s.change(uri, 0) == 0 && s.conn.agreed.meta == nil {
		_, err = s.conn.Request(ctx, session.Request{Method: "resources/subscribe", Params: wire.Marshal(map[string]string{"uri": uri})})
	}
	if err == nil && s.change(uri, 1) == 1 && s.following {
		signal.Leave(s.edits)
	}
	s.turn.Release(1)
	if err != nil {
		return nil, err
	}
	if s.following {
		s.awaitAgreement(ctx, uri)
	}
	return sync.OnceFunc(func() { s.conn.Go(func() { s.remove(uri) }) }), nil
}

// remove gives up one subscription.
func (s *Subscriptions) remove(uri string) {
	_ = s.turn.Acquire(context.Background(), 1) // its holder gives it back in time
	defer s.turn.Release(1)
	switch {
	case s.change(uri, -1) > 0:
	case s.following:
		signal.Leave(s.edits)
	case s.conn.agreed.meta == nil:
		ctx, cancel := context.WithTimeout(context.Background(), unsubscribeTimeout)
		defer cancel()
		s.conn.Request(ctx, session.Request{Method: "resources/unsubscribe", Params: wire.Marshal(map[string]string{"uri": uri})})
	}
}

// change adds n to the number of subscribers to the resource, and returns the sum.
func (s *Subscriptions) change(uri string, n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n = s.count[uri] + n; n == 0 {
		delete(s.count, uri)
	} else {
		s.count[uri] = n
	}
	return n
}

// Wanted returns the resources that clients have subscribed to, sorted.
func (s *Subscriptions) Wanted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.count))
}

// agree notes the subscriptions that a modern server has acknowledged.
func (s *Subscriptions) agree(params json.RawMessage) {
	var agreed []string
	if json.Unmarshal(wire.Member(wire.Member(params, "notifications"), "resourceSubscriptions"), &agreed) != nil {
		agreed = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.agreed = agreed
	s.news.Notify()
}

// awaitAgreement waits until the server has acknowledged the resource.
func (s *Subscriptions) awaitAgreement(ctx context.Context, uri string) {
	ctx, cancel := context.WithTimeout(ctx, agreeTimeout)
	defer cancel()
	for {
		s.mu.Lock()
		agreed, news := slices.Contains(s.agreed, uri), s.news.Next()
		s.mu.Unlock()
		if agreed {
			return
		}
		select {
		case <-news:
		case <-ctx.Done():
			return
		case <-s.conn.Done():
			return
		}
	}
}

// Follow subscribes to changes of a modern server's lists and resources, which
// legacy servers send without a request, until the session ends. It must be called
// before the session is shared, and returns when the first subscription is in force,
// so that no later change is missed.
func (s *Subscriptions) Follow(log *zap.Logger) {
	if s.conn.agreed.meta == nil {
		return
	}
	first := make(chan struct{})
	s.following = true
	if s.conn.Go(func() { s.follow(sync.OnceFunc(func() { close(first) }), log) }) {
		<-first
	}
}

// follow keeps one subscription to everything that is wanted. A change of that is a
// new subscription, in force before the old one ends. first is called when the first
// one is in force, or has failed.
func (s *Subscriptions) follow(first func(), log *zap.Logger) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer first()
	var current *pendingRequest
	pause := minPause
	for lost := false; ; {
		begun := time.Now()
		next, err := s.subscribe(ctx)
		if current != nil {
			cancelAtServer(s.conn, current)
			s.conn.Calls.remove(current)
		}
		if err != nil {
			return
		}
		first()
		if lost { // changes since the old one ended were not sent
			for _, kind := range s.changingLists() {
				s.conn.host.Message(session.Message{Method: "notifications/" + kind + "/list_changed"})
			}
		}
		current, lost = next, false
		var ended chan Reply // never, if nothing is subscribed to
		if current != nil {
			ended = current.answer
		}
		select {
		case <-s.conn.Done():
			return
		case <-s.edits:
		case r := <-ended:
			_, err := r.Result()
			log.Debug("the server has ended the subscription", zap.Error(err))
			if e, ok := errors.AsType[*session.Error](err); ok && e.Code == session.CodeMethodNotFound {
				<-s.conn.Done() // it knows no subscriptions
				return
			}
			if time.Since(begun) > maxPause {
				pause = minPause
			}
			if signal.Within(s.conn.Done(), pause) {
				return
			}
			pause, lost = min(2*pause, maxPause), true
		}
	}
}

// subscribe sends a subscription to everything that is wanted, and waits until it is
// in force or has ended. It returns nil if nothing is wanted.
func (s *Subscriptions) subscribe(ctx context.Context) (*pendingRequest, error) {
	news := s.news.Next()
	filter := []byte{}
	for _, kind := range s.changingLists() {
		filter = fmt.Appendf(filter, `,"%sListChanged":true`, kind)
	}
	if uris := s.Wanted(); len(uris) > 0 {
		filter = fmt.Appendf(filter, `,"resourceSubscriptions":%s`, wire.Marshal(uris))
	}
	if len(filter) == 0 {
		return nil, nil
	}
	params := fmt.Appendf(nil, `{"notifications":{%s}}`, filter[1:])
	one, err := s.conn.begin(ctx, session.Request{Method: listen, Params: params})
	if err != nil {
		return nil, err
	}
	select {
	case <-news:
	case r := <-one.answer:
		one.answer <- r // for follow, which is the only reader
	case <-time.After(agreeTimeout):
	case <-s.conn.Done():
	}
	return one, nil
}

// changingLists returns the kinds of lists that the server says may change.
func (s *Subscriptions) changingLists() []string {
	if s.NoLists {
		return nil
	}
	return slices.DeleteFunc([]string{"tools", "prompts", "resources"}, func(kind string) bool {
		return string(wire.Member(wire.Member(s.conn.agreed.info.Capabilities, kind), "listChanged")) != "true"
	})
}
