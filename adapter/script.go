package adapter

import (
	"context"

	"github.com/mcp-metarouter/metarouter/internal/script"
	"github.com/mcp-metarouter/metarouter/internal/script/host"
	"github.com/mcp-metarouter/metarouter/selector"
)

// RunScript runs a script, which may call the tools that the clients may call.
func (c calls) RunScript(ctx context.Context, run ScriptRun) selector.ScriptOutcome {
	s := c.router.current.load().config.Router.Scripts
	limits := script.Limits{Timeout: s.Timeout, CPU: s.CPU, Memory: s.Memory, Calls: s.Calls, Concurrent: s.Concurrent}
	return host.Do(ctx, c.router.scripts, c.view(), limits, run)
}

// RunScript runs a script for the program itself. Its bounds are "scripts" of the configuration, and its calls are as
// those of [Router.Execute].
func RunScript(ctx context.Context, r *Router, s selector.Script) selector.ScriptOutcome {
	return r.RunScript(ctx, ScriptRun{Script: s})
}
