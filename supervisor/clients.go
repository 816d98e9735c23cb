package supervisor

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/session"
)

// clients passes actions of the router's clients, besides calls, on to the servers.
type clients struct {
	*common
	servers *servers
}

// Notify sends a notification to all servers that have a session for the client alone.
// It does not wait for them.
func (c *clients) Notify(home session.Client, method string, params json.RawMessage) {
	for _, s := range c.servers.all() {
		if own := s.pool.of(home); own != nil {
			own.NotifyLater(method, params)
		}
	}
}

// SetLevel asks legacy servers for log messages from the level on, also those that
// start later. It waits for each at most two seconds.
func (c *clients) SetLevel(ctx context.Context, level string) {
	c.level.Store(&level)
	var setting sync.WaitGroup
	for _, s := range c.servers.all() {
		all := s.pool.all()
		if in, _ := s.public.now(); in != nil {
			all = append(all, in)
		}
		for _, in := range all {
			setting.Go(func() { in.SetLevel(ctx, level) })
		}
	}
	setting.Wait()
}

// Release ends the sessions that are the client's alone.
func (c *clients) Release(home session.Client) {
	for _, s := range c.servers.all() {
		s.pool.releaseClient(home)
	}
}

// Asks reports whether clients get a session of their own with the server, as it runs now, since it has
// asked a client for something.
func (c *clients) Asks(name string) bool {
	s := c.servers.get(name)
	if s == nil {
		return false
	}
	in, _ := s.public.now()
	if in == nil || in.Modern() {
		return false
	}
	return len(s.pool.opener.asks(in, allCapabilities)) > 0
}

// Keeps reports whether a client has a session of its own with the server. home is the client's
// session.
func (c *clients) Keeps(name string, home session.Client) bool {
	s := c.servers.get(name)
	return s != nil && s.pool.of(home) != nil
}
