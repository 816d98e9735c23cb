package selector

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/schema"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A Provider picks tools and runs them, as a [Selector] does.
type Provider interface {
	Select(ctx context.Context, q Query) (Selection, error)
	Plan(ctx context.Context, q Query) ([]Step, error)
	Check(ctx context.Context, t *registry.NormalizedTool, args json.RawMessage) Checked
	Execute(ctx context.Context, c Call) (Result, error)
}

// A RouteRequest is a task, and the permissions of [Route].
type RouteRequest struct {
	Query Query

	// Call is the call to make. Its Tool is nil where Route selects the tool. A tool that
	// is set was chosen by the caller: Route selects and plans nothing, and leaves
	// arguments that do not fit to the server's [Policy]. Whether the tool may run, Route
	// decides as for any other.
	Call Call

	Plan      bool    // answer with a plan, and run nothing, where the task needs several tools
	DryRun    bool    // only select
	Strict    bool    // run nothing if the arguments do not fit the schema or could not be checked, whatever the server's Policy says
	Threshold float64 // the confidence below which Route runs no tool
	RunUnsure bool    // run the tool even if the confidence is below Threshold
	RunUnsafe bool    // run the tool even if it is not harmless, see [Harmless]

	// Refresh waits for servers that were not listed yet, and then reports whether the
	// catalog has changed since it was searched. Route calls it if the selection is not sure,
	// and searches once more if it has. May be nil.
	Refresh func(ctx context.Context) bool

	// Arguments returns the arguments of the call, if they depend on the tool that was selected; may be nil. permitted says
	// whether the tool may run.
	Arguments func(t *registry.NormalizedTool, permitted bool) json.RawMessage
}

// Routed is the result of a [RouteRequest].
type Routed struct {
	Selection Selection
	Plan      []Step // not empty where the task needs several tools; nothing else was done then

	Arguments json.RawMessage // of the call, repaired where that makes them fit
	Ambiguous bool            // nothing says which of Selection.Places is meant, and the tool is not the same on all
	Missing   []string        // required arguments that Arguments lacks
	Problems  []string        // a sentence for each fault of Arguments
	Unchecked bool            // it is not known whether Arguments fit, and Problems says why
	Unsure    string          // that the confidence is below the threshold; "" if it is not
	Unsafe    string          // why the tool is not harmless; "" if it is

	Ran    bool   // the tool was executed
	Result Result // of the execution
}

// Route does a task with the right tool: it selects the tool, checks the arguments,
// decides whether the tool may run, and executes it. Routed says how far it came. The
// error is one of p's.
func Route(ctx context.Context, p Provider, q RouteRequest) (r Routed, err error) {
	chosen := q.Call.Tool != nil
	if chosen {
		r.Selection = Selection{Tool: q.Call.Tool, Confidence: 1, Sure: true}
	} else {
		q.Query.Arguments = q.Call.Arguments
		r.Selection, err = p.Select(ctx, q.Query)
		if err == nil && !r.Selection.Sure && q.Refresh != nil && q.Refresh(ctx) {
			r.Selection, err = p.Select(ctx, q.Query)
		}
		if err != nil {
			return r, err
		}
	}
	if q.Plan && !chosen {
		if r.Plan, err = p.Plan(ctx, q.Query); err != nil || len(r.Plan) > 0 {
			return r, err
		}
	}
	call := q.Call
	call.Tool, call.Arguments = r.Selection.Tool, argumentsOf(q.Call)
	r.Ambiguous = r.Selection.Ambiguous && !sameEverywhere(call.Tool)
	if call.Tool == nil || q.DryRun {
		return r, nil
	}

	r.Unsure = belowThreshold(r.Selection.Confidence, q.Threshold)
	_, r.Unsafe = Harmless(call.Tool)
	permitted := (r.Unsure == "" || q.RunUnsure) && (r.Unsafe == "" || q.RunUnsafe) && !r.Ambiguous
	if q.Arguments != nil {
		call.Arguments = argumentsOf(Call{Arguments: q.Arguments(call.Tool, permitted)})
	}
	checked := p.Check(ctx, call.Tool, call.Arguments)
	call.Checked = &checked // so that the execution does not check again
	r.Arguments, r.Problems, r.Unchecked = checked.Arguments, checked.Faults, checked.Unchecked
	r.Missing = Missing(call.Tool, r.Arguments)
	if !chosen && (len(r.Missing) > 0 || q.Strict && (len(r.Problems) > 0 || r.Unchecked)) || !permitted {
		return r, nil
	}

	r.Ran = true
	r.Result, err = p.Execute(ctx, call)
	return r, err
}

// argumentsOf returns the arguments of the call, {} without any.
func argumentsOf(c Call) json.RawMessage {
	if args := bytes.TrimSpace(c.Arguments); len(args) > 0 && string(args) != "null" {
		return args
	}
	return json.RawMessage("{}")
}

// harmful are the inferred capabilities of tools that [Route] does not run by itself, unless
// their server declares them read-only.
var harmful = []struct{ tag, effect string }{{"write", "write"}, {"delete", "delete"}, {"payment", "pay"}}

// belowThreshold says that the confidence is below the threshold; "" if it is not. The
// confidence is rounded down, so that 0.499 is not shown as 0.50.
func belowThreshold(confidence, threshold float64) string {
	if confidence >= threshold {
		return ""
	}
	return fmt.Sprintf("the confidence %.2f is below %.2f", math.Floor(100*confidence)/100, threshold)
}

// Harmless reports whether the tool does no harm: its server declares it read-only and
// nothing speaks against that, or declares it not destructive and nothing in its definition is
// about writing, deleting or paying. Otherwise reason says why not.
func Harmless(t *registry.NormalizedTool) (ok bool, reason string) {
	if t.Reads() {
		return true, ""
	}
	if t.Doubt != "" {
		return false, "its server says that it is harmless, but " + t.Doubt
	}
	if t.Hints.Destructive == nil || *t.Hints.Destructive {
		return false, "its server does not say that it is harmless (readOnlyHint true, or destructiveHint false)"
	}
	for _, h := range harmful {
		if slices.Contains(t.Capabilities, h.tag) {
			return false, "its name or description says that it may " + h.effect
		}
	}
	return true, ""
}

// maxMissing is how many missing arguments are named.
const maxMissing = 100

// Missing returns the arguments that the tool's schema requires at its top level and that
// args, a JSON object or nil, does not have. It stops after 100.
func Missing(t *registry.NormalizedTool, args json.RawMessage) []string {
	given := make(map[string]bool)
	for name := range wire.All(args) {
		given[name] = true
	}
	missing := slices.DeleteFunc(schema.ParametersOf(t.InputSchema).Required, func(name string) bool { return given[name] })
	return missing[:min(len(missing), maxMissing)]
}
