package login

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
)

// discoverTime bounds the search for the issuer of a server's tokens.
const discoverTime = 30 * time.Second

var errClosing = errors.New("the router ends")

// tasks are the discoveries and refreshes of a source, which go on if their callers end.
type tasks struct {
	life    *life
	flights singleflight.Group
}

// do runs the task in a goroutine, unless one with the name is under way, and waits for its end or
// the end of ctx. The task has a context of its own: others may wait for the same.
func (t *tasks) do(ctx context.Context, name string, limit time.Duration, task func(context.Context) (any, error)) (any, error) {
	select {
	case r := <-t.start(name, limit, task):
		return r.Val, r.Err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (t *tasks) start(name string, limit time.Duration, task func(context.Context) (any, error)) <-chan singleflight.Result {
	return t.flights.DoChan(name, func() (any, error) {
		if !t.life.begin() {
			return nil, errClosing
		}
		defer t.life.work.Done()
		ctx, cancel := context.WithTimeout(t.life.late, limit)
		defer cancel()
		return task(ctx)
	})
}

// A finder finds the issuer of a server's tokens, and remembers it.
type finder struct {
	server oauth.Server
	issuer issuer
	tasks  *tasks

	mu    sync.Mutex // guards found
	found *oauth.Found
}

// find returns the issuer of the server's tokens. again asks the server though the issuer is known.
func (f *finder) find(ctx context.Context, c oauth.Challenge, again bool) (*oauth.Found, error) {
	if found := f.known(); found != nil && !again {
		return found, nil
	}
	result, err := f.tasks.do(ctx, "discover", discoverTime, func(ctx context.Context) (any, error) {
		return f.issuer.discover(ctx, f.server, c)
	})
	if err != nil {
		return nil, fmt.Errorf("find the issuer of its tokens: %w", err)
	}
	found := result.(*oauth.Found)
	if found.Issuer.TokenEndpoint == "" {
		return nil, ErrNoOAuth
	}
	f.learn(found)
	return found, nil
}

// known returns the issuer that was found since the process began, nil before.
func (f *finder) known() *oauth.Found {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.found
}

// learn keeps the issuer; nil forgets it.
func (f *finder) learn(found *oauth.Found) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.found = found
}
