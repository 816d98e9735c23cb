package supervisor

import (
	"context"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/launch"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/signal"
)

// A common is what all servers of a Supervisor share.
type common struct {
	handler  Handler
	options  Options
	log      *zap.Logger
	launcher *launch.Launcher
	starting signal.Slots  // for servers that start
	ending   chan struct{} // closed when Run is to return
	sole     soleClient
	level    atomic.Pointer[string] // of the log messages that servers are to send; nil if none was set
	changed  broadcast              // of any status
}

// A soleClient is the router's only client, if it has but one.
type soleClient struct {
	enabled  bool
	attached chan session.Client // holds the client once that is attached
}

// get returns the router's only client, nil if the router may have several. It waits
// for that client until ctx ends.
func (s *soleClient) get(ctx context.Context) session.Client {
	if !s.enabled {
		return nil
	}
	select {
	case c := <-s.attached:
		s.attached <- c
		return c
	case <-ctx.Done():
		return nil
	}
}

// A broadcast wakes all goroutines that wait for the next event.
type broadcast struct {
	mu   sync.Mutex // guards next
	next chan struct{}
}

// wait returns a channel that is closed at the next event.
func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

// send is an event.
func (b *broadcast) send() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}
