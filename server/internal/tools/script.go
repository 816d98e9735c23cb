package tools

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/script/journal"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

const (
	scriptTool = "run_script"

	// maxScriptResult is how much of a script's answer the client gets at once, in tokens.
	maxScriptResult = 10_000

	maxTraced = 20 // calls that are listed after an error

	// maxScripts bounds the scripts of one principal: half of those that the engine runs.
	maxScripts = 16
)

// Scripts runs the scripts of clients. Its method may be called by many goroutines at once.
type Scripts interface {
	// RunScript runs a script, which may call the tools that the clients may call.
	RunScript(ctx context.Context, run selector.ScriptRun) selector.ScriptOutcome
}

// scriptArguments are the arguments of run_script.
type scriptArguments struct {
	Code    string          `json:"code"`
	Input   json.RawMessage `json:"input"`
	Timeout float64         `json:"timeout"` // seconds; 0 is the default
}

// Restarts reports whether a request is a script that may go on although it was suspended by a router that has ended.
func (t *Tools) Restarts(r *conversation.Request) bool {
	name, _ := wire.String(r.Name)
	return t.Journals != nil && r.Method == "tools/call" && t.Catalog.Unprefixed(name) == scriptTool
}

// runScript answers run_script.
func (t *Tools) runScript(ctx context.Context, a scriptArguments, c *toolCall) (json.RawMessage, error) {
	if !t.Budgets.scripts.Take(c.Principal) {
		busy := fmt.Sprintf("%d of your scripts run or wait for answers; try again later", maxScripts)
		return scriptResult(selector.ScriptOutcome{Err: &selector.ScriptError{Name: "BusyError", Message: busy}}), nil
	}
	defer t.Budgets.scripts.Release(c.Principal)
	j, err := t.journal(c)
	if err != nil {
		return nil, conversation.InvalidParams(fmt.Sprintf("the script can't go on: %v; run it again, without requestState, if that does no harm", err))
	}
	if j != nil && j.Result() != nil {
		defer j.Close(true)
		return j.Result(), nil
	}
	call := t.runner.callOf(c, nil, nil)
	call.Params, call.Repaired, call.Trail = nil, "", nil
	run := selector.ScriptRun{
		Script: selector.Script{Code: a.Code, Input: a.Input, Timeout: time.Duration(a.Timeout * float64(time.Second))},
		ID:     fmt.Sprintf("%016x", rand.Uint64()), Call: call,
		Tool: t.find,
		Found: func(task string, r selector.Ranking) {
			t.memory.note(c.Owner(), finding{task: task, tools: idsOf(r.Candidates, math.MaxInt), sure: r.Sure})
		},
		Called: func(ctx context.Context, tool *registry.NormalizedTool, r selector.Result, err error) {
			if ctx.Err() == nil {
				t.runner.learn(c, tool, r.JSON, err)
			}
		},
	}
	if token := wire.Member(c.Meta, "progressToken"); token != nil {
		run.Progress = func(done int, tool string) {
			c.From.Notify("", session.Message{Method: "notifications/progress", Params: wire.Marshal(map[string]any{"progressToken": json.RawMessage(token), "progress": done, "message": tool})})
		}
	}
	if j != nil {
		run.Journal, run.Evict = j, func() bool { return j.Flush() && c.Evict() }
	}
	c.Hold(true)
	run.Waiting = func(waits bool) { j.Flush(); c.Hold(!waits) }
	if c.WasSuspended() { // the journal knows which calls were sent, even if the client's process has sent the request again
		run.Call.Meta = wire.DeleteMember(call.Meta, session.Resent)
	}
	outcome := t.Scripts.RunScript(ctx, run)
	if ctx.Err() != nil {
		cause := context.Cause(ctx)
		if j != nil {
			j.Close(errors.Is(cause, conversation.ErrClosed) || errors.Is(cause, session.ErrEnding)) // the next router goes on with it
		}
		return nil, cause
	}
	result := t.runner.limited(scriptResult(outcome), maxScriptResult, scriptTool, c.Owner())
	if j != nil {
		keep, busy := c.WasSuspended(), outcome.Err != nil && outcome.Err.Name == "BusyError" // then it can go on later
		j.Close(keep && (busy || j.End(result) == nil))
	}
	return result, nil
}

// journal returns the journal of the script; nil if the client can't come back to it, or nothing can be kept.
func (t *Tools) journal(c *toolCall) (*journal.Journal, error) {
	id, restarted, ok := c.Restartable()
	if !ok || t.Journals == nil {
		return nil, nil
	}
	rules, err := json.Marshal(t.Settings().Rules)
	if err != nil {
		return nil, err
	}
	under := fmt.Sprintf("%x", sha256.Sum256(rules))
	if restarted {
		return t.Journals.Resume(c.Principal, id, under)
	}
	j, err := t.Journals.Begin(c.Principal, id, under)
	if err != nil {
		return nil, nil // the script goes on while this router runs
	}
	return j, nil
}

// scriptResult returns the result of run_script.
func scriptResult(o selector.ScriptOutcome) json.RawMessage {
	text := "The script returned nothing."
	if o.Value != nil {
		text = string(o.Value)
		if unquoted, ok := wire.String(o.Value); ok {
			text = unquoted
		}
	}
	if o.Err != nil {
		text = explain(o)
	}
	content := []any{textContent{"text", text}}
	if o.Log != "" {
		content = append(content, textContent{"text", "The log:\n" + o.Log})
	}
	for _, block := range o.Content {
		content = append(content, block)
	}
	return wire.Marshal(struct {
		Content []any `json:"content"`
		IsError bool  `json:"isError,omitempty"`
	}{content, o.Err != nil})
}

// explain says why a script failed, and which calls took effect.
func explain(o selector.ScriptOutcome) string {
	text := o.Err.Error()
	if o.Err.Line > 0 {
		text += fmt.Sprintf("\nat line %d, column %d of the script", o.Err.Line, o.Err.Column)
	}
	var done []string
	for _, made := range o.Calls {
		if made.OK {
			done = append(done, fmt.Sprintf("line %d: %s", made.Line, made.Tool))
		}
	}
	if len(done) == 0 {
		return text + "\nNo call took effect."
	}
	more := ""
	if n := len(done) - maxTraced; n > 0 {
		more = fmt.Sprintf("\nand %d more", n)
	}
	return text + "\nThese calls took effect:\n" + strings.Join(done[:min(len(done), maxTraced)], "\n") + more
}

// inCode are the descriptions of our own tools that mode "code" changes.
var inCode = map[string]string{
	"find_tools": `Search the tools of all connected servers by what you want to do. Returns the best matches with their ids and TypeScript declarations, and the ids of more; if no match is sure ("sure": false), the ten nearest. ` +
		`Call them in run_script. With kinds it finds resources and prompts, too, which are not called: read a resource by its uri (resources/read; fill in a uri_template first), get a prompt by its name (prompts/get).`,
	"describe_tools": "TypeScript declarations of up to 20 tools, with full descriptions, by their ids; of resources and prompts, the definitions.",
}

// Allows reports whether clients may call one of our own tools.
func (s Settings) Allows(own string) bool {
	if own == scriptTool {
		return s.Scripts
	}
	return !s.Code || slices.Contains([]string{"find_tools", "describe_tools", "read_result"}, own)
}

// Definition returns the definition of one of our own tools as clients see it.
func (s Settings) Definition(own *registry.NormalizedTool) json.RawMessage {
	if text, changed := inCode[own.Name]; changed && s.Code {
		return wire.SetMember(own.Definition, "description", wire.AppendString(nil, text))
	}
	return own.Definition
}
