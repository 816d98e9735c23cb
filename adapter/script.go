package adapter

import (
	"context"
	"path/filepath"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/script"
	"github.com/mcp-metarouter/metarouter/internal/script/host"
	"github.com/mcp-metarouter/metarouter/selector"
)

// newEngine returns the engine for scripts, which takes up nothing before the first script.
func newEngine(dataDir string) *script.Engine {
	if dataDir == "" {
		return script.New("")
	}
	return script.New(filepath.Join(dataDir, "scripts", "engine"))
}

// RunScript runs a script, which may call the tools that the clients may call.
func (c calls) RunScript(ctx context.Context, run ScriptRun) selector.ScriptOutcome {
	return host.Do(ctx, c.router.scripts, c.view(), limitsOf(c.router.current.load().config.Router), run)
}

// RunScript runs a script for the program itself. Its bounds are "scripts" of the configuration, and its calls are as
// as of [Router.Execute].
func RunScript(ctx context.Context, r *Router, s selector.Script) selector.ScriptOutcome {
	return r.RunScript(ctx, ScriptRun{Script: s})
}

// limitsOf returns the bounds of scripts in a configuration.
func limitsOf(c config.Router) script.Limits {
	limits, s := script.DefaultLimits, c.Scripts
	limits.Timeout, limits.CPU, limits.Memory, limits.Calls, limits.Concurrent = s.Timeout, s.CPU, s.Memory, s.Calls, s.Concurrent
	return limits
}
