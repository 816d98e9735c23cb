package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/approval"
	"github.com/mcp-metarouter/metarouter/internal/script"
	"github.com/mcp-metarouter/metarouter/internal/script/host"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/server/internal/budget"
)

const (
	scriptTool = "run_script"

	// maxScriptResult is how much of a script's answer the client gets at once, in tokens.
	maxScriptResult = 10_000
)

// Scripts runs the scripts of clients. Its methods may be called by many goroutines at once.
type Scripts interface {
	// RunScript runs a script, which may call the tools that the clients may call.
	RunScript(ctx context.Context, run host.Run) script.Outcome

	// IsScript reports whether the tool is a stored script.
	IsScript(t *registry.NormalizedTool) bool
}

// scriptArguments are the arguments of run_script.
type scriptArguments struct {
	Code    string          `json:"code"`
	Input   json.RawMessage `json:"input"`
	Timeout float64         `json:"timeout"` // seconds; 0 is the default
	Resume  string          `json:"resume"`  // the id of a held script, instead of the others
}

// runScript answers run_script.
func (t *Tools) runScript(ctx context.Context, a scriptArguments, c *toolCall) (json.RawMessage, error) {
	switch {
	case a.Resume != "":
		return t.runner.held.resume(ctx, c, a.Resume, t.runner.resumes(c, a.Resume))
	case a.Code == "":
		return t.refuse(t.own[scriptTool], c, "do not fit", `arguments: "code" is missing; write the script, or "resume" with the id of a held one`)
	}
	return t.runner.script(ctx, c, nil, func(ctx context.Context, c *toolCall, run host.Run) (json.RawMessage, error) {
		run.Script = script.Script{Code: a.Code, Input: a.Input, Timeout: time.Duration(a.Timeout * float64(time.Second))}
		run.Call.Repaired = ""
		o := t.Scripts.RunScript(ctx, run)
		return t.runner.limited(o.Result(), maxScriptResult, scriptTool, c.Owner()), nil
	})
}

// script runs a script of a client. run gets the run without the script. tool is a stored script, else nil.
func (r *runner) script(ctx context.Context, c *toolCall, tool *registry.NormalizedTool, run runScript) (json.RawMessage, error) {
	if approval.PersonAt(c.From, "") != nil || c.WasSuspended() { // the client can ask its person
		return r.scriptOf(ctx, c, tool, nil, run)
	}
	own := *c // c ends with the request
	result, err := r.held.run(ctx, c, func(id string) string { return r.resumes(c, id) }, func(ctx context.Context, h *heldScript) (json.RawMessage, error) {
		return r.scriptOf(ctx, &own, tool, h, run)
	})
	c.executed = tool != nil && (err != nil || wire.Member(wire.Member(result, "_meta"), "trace_id") != nil) // else it is held, or too many run
	return result, err
}

// A runScript runs a script.
type runScript func(ctx context.Context, c *toolCall, run host.Run) (json.RawMessage, error)

// resumes says how a client goes on with a held script.
func (r *runner) resumes(c *toolCall, id string) string {
	if r.Settings().Scripts {
		return fmt.Sprintf(`call %s with {"resume": %q}`, scriptTool, id)
	}
	return fmt.Sprintf("call %s again with the same arguments, while this router runs", c.Name)
}

// scriptOf is script for a client; h is the client if the script may be held, else nil.
func (r *runner) scriptOf(ctx context.Context, c *toolCall, tool *registry.NormalizedTool, h *heldScript, run runScript) (json.RawMessage, error) {
	if r.Budget.Take(budget.Scripts, c.Principal, 0) != nil {
		busy := fmt.Sprintf("%d of your scripts run or wait for answers; try again later", r.Budget.Bound(budget.Scripts).Each)
		return script.Outcome{Err: &script.Error{Name: "BusyError", Message: busy}}.Result(), nil
	}
	defer r.Budget.Release(budget.Scripts, c.Principal, 0)
	one := host.Run{Call: r.callOf(c, tool, nil), Tool: r.find}
	one.Linked = func(server string, result json.RawMessage) json.RawMessage {
		return r.Linked(c.Owner(), server, result)
	}
	if h != nil {
		one.Call.From, one.Called = h, h.called
	} else {
		one.Waiting = func(waits bool) { c.Hold(!waits) }
	}
	if token := wire.Member(c.Meta, "progressToken"); token != nil {
		one.Progress = func(done int, tool string) {
			one.Call.From.Notify("", session.Message{Method: "notifications/progress", Params: wire.Marshal(map[string]any{"progressToken": json.RawMessage(token), "progress": done, "message": tool})})
		}
	}
	one.Call.Params = nil // a script has its arguments alone
	result, err := run(ctx, c, one)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return result, err
}

// inCode are the descriptions of our own tools that mode "code" changes.
var inCode = map[string]string{
	"find_tools": `Search the tools of all connected servers by what you want to do. Returns the best matches with their ids and TypeScript declarations, and the ids of more; if no match is sure ("sure": false), the ten nearest. ` +
		`Call them in run_script. With kinds it finds resources, prompts and skills, too, which are not called: read a resource or skill by its uri (resources/read; fill in a uri_template first), get a prompt by its name (prompts/get).`,
	"describe_tools": "TypeScript declarations of up to 20 tools, with full descriptions, by their ids; of resources and prompts, the definitions.",
}

// inDirect is the description of find_tools in direct mode.
const inDirect = `Search the tools of all connected servers by what you want to do. "name" of a match is its name in this server's list of tools: ` +
	`load it by this name, with your client's prefix before it, and call it. If no match is sure ("sure": false), the ten nearest are named. ` +
	`With kinds it finds resources and prompts, too: read a resource by its uri (resources/read; fill in a uri_template first), get a prompt by its name (prompts/get).`

// Allows reports whether clients may call one of our own tools.
func (s Settings) Allows(own string) bool {
	if own == scriptTool {
		return s.Scripts
	}
	return !s.Code || slices.Contains([]string{"find_tools", "describe_tools", "read_result"}, own)
}

// Definition returns the definition of one of our own tools as clients see it.
func (s Settings) Definition(own *registry.NormalizedTool) json.RawMessage {
	text, changed := inCode[own.Name]
	switch {
	case s.Direct && own.Name == "find_tools":
		text = inDirect
	case !changed || !s.Code:
		return own.Definition
	}
	return wire.SetMember(own.Definition, "description", wire.AppendString(nil, text))
}
