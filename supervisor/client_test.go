package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/session"
)

// A client answers with what it was asked, and notes the notifications that it got.
type client struct {
	name         string
	home         *client // nil if it has none
	modern       bool
	capabilities string
	place        Place // nil for the router's

	mu    sync.Mutex
	heard []string
	asked chan struct{} // if not nil, Ask sends to it and waits for the end of its context
}

func (c *client) Home() session.Client {
	if c.home == nil {
		return nil
	}
	return c.home
}
func (c *client) Caller() session.Caller        { return session.Caller{Place: c.place} }
func (c *client) ClientName() string            { return c.name }
func (c *client) Modern() bool                  { return c.modern }
func (c *client) Capabilities() json.RawMessage { return json.RawMessage(c.capabilities) }

func (c *client) Notify(server string, m session.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = append(c.heard, strings.TrimPrefix(m.Method, "notifications/")+string(m.Params))
}

func (c *client) Ask(ctx context.Context, server string, m session.Message) (json.RawMessage, error) {
	if c.asked != nil {
		c.asked <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return fmt.Appendf(nil, `{"by":%q,"to":%q,"params":%s}`, c.name, m.Method, m.Params), nil
}

// clientOf returns a client that is its own home.
func clientOf(name string) *client {
	c := &client{name: name, capabilities: "{}"}
	c.home = c
	return c
}
