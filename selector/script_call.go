package selector

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mcp-metarouter/metarouter/internal/script"
	"github.com/mcp-metarouter/metarouter/internal/session"
)

// A scriptClient is the client of a call of a script.
type scriptClient struct {
	session.Client                 // of the outermost script
	ctx            context.Context // of the call
}

// Unwrap returns the client of the script, for [session.As].
func (c *scriptClient) Unwrap() session.Client { return c.Client }

// Ask implements [session.Client]. The script's time stands still while a person is asked. ctx may be the session's.
func (c *scriptClient) Ask(ctx context.Context, server string, m session.Message) (json.RawMessage, error) {
	return c.Client.Ask(session.WithAsked(ctx, func() func() { return script.Pause(c.ctx) }), server, m)
}

// Sending implements [session.Sending].
func (c *scriptClient) Sending(repeatable bool) error { return session.Sending(c.Client, repeatable) }

var errLost = errors.New("the router ended before its result came")

// AsCall returns a client's call of a stored script as the only call of a script, with its context.
func (run ScriptRun) AsCall(ctx context.Context, c Call) (context.Context, Call) {
	run.Call.From = c.From
	c.From = (&scriptHost{run: &run}).from(ctx)
	return context.WithValue(ctx, runKey{}, run), c
}

type runKey struct{}

// ScriptRunOf returns the run of a stored script that a call of the context runs, without the script and the call.
func ScriptRunOf(ctx context.Context) ScriptRun {
	run, _ := ctx.Value(runKey{}).(ScriptRun)
	return run
}
