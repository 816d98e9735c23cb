package host

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mcp-metarouter/metarouter/internal/script"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/selector"
)

// A client is the client of a call of a script.
type client struct {
	session.Client                 // of the outermost script
	ctx            context.Context // of the call
}

// Unwrap returns the client of the script, for [session.As].
func (c *client) Unwrap() session.Client { return c.Client }

// Ask implements [session.Client]. The script's time stands still while a person is asked. ctx may be the session's.
func (c *client) Ask(ctx context.Context, server string, m session.Message) (json.RawMessage, error) {
	return c.Client.Ask(session.WithAsked(ctx, func() func() { return script.Pause(c.ctx) }), server, m)
}

var errLost = errors.New("the router ended before its result came")

// AsCall returns a client's call of a stored script as the only call of a script, with its context.
func (run Run) AsCall(ctx context.Context, c selector.Call) (context.Context, selector.Call) {
	run.Call.From = c.From
	c.From = (&host{run: &run}).from(ctx)
	return context.WithValue(ctx, runKey{}, run), c
}

type runKey struct{}

// RunOf returns the run of a stored script that a call of the context runs, without the script and the call.
func RunOf(ctx context.Context) Run {
	run, _ := ctx.Value(runKey{}).(Run)
	return run
}
