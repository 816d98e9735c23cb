package web

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/server"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A running is a router that is served over HTTP.
type running struct {
	*Listener
	router *adapter.Router
	edits  chan config.Config
	later  atomic.Int64 // by how much the time at which certificates must be valid is later
}

// start serves a router with the configuration until the test ends.
func start(t testing.TB, c config.Config, log *zap.Logger) (r *running) {
	t.Helper()
	c.Router.HTTP.MaxHeader = 1 << 16
	l, err := New(c.Router.HTTP, Flags{}, nil, log)
	expect.OK(t, err)
	expect.OK(t, l.Listen(t.Context()))
	if l.certificate != nil {
		l.certificate.every = 0
	}
	if l.clients != nil {
		l.clients.every, l.clients.sweep = 0, time.Millisecond
		l.clients.now = func() time.Time { return time.Now().Add(time.Duration(r.later.Load())) }
	}
	ctx, cancel := context.WithCancel(context.Background())
	r = &running{Listener: l, router: adapter.New(c, adapter.Options{}), edits: make(chan config.Config)}
	s := server.NewServers(server.Profiles{
		Open: func(_ server.View, chosen []string) (server.Router, server.Options) {
			return r.router.Scope(chosen...), server.Options{}
		},
		Exists: func(name string) bool { _, ok := r.router.Config().Router.Profiles[name]; return ok },
		Edited: r.router.Edited, Whole: r.router,
	})
	ended := make(chan error, 3)
	go func() { ended <- r.router.Run(ctx, r.edits) }()
	go func() { ended <- s.Run(ctx) }()
	go func() { ended <- l.Serve(ctx, s, r.router) }()
	t.Cleanup(func() {
		cancel()
		for range 3 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	return r
}

// edit puts another configuration into use.
func (r *running) edit(c config.Config) {
	edited := r.router.Edited()
	c.Router.HTTP.MaxHeader = 1 << 16
	r.edits <- c
	<-edited
}
