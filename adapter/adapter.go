// Package adapter is the router as a library: providers of tools behind one
// interface, for Go programs that hand out work.
//
// An orchestrator has tasks, and wants each done by whatever can do it. It need not
// know what that is: a [ProviderAdapter] lists its tools, says which of them suits a
// task and why, runs it, and says how it is. There are four of them:
//
//   - A [Router] keeps the MCP servers of a .mcp.json running and routes to them.
//     [Open] starts one inside the program, with no other process but the servers.
//   - [Functions] are functions of the program itself. [Add] makes a tool of one; the
//     schema of its arguments comes from a Go struct.
//   - A [Chat] is an AI provider that speaks the chat API of OpenAI. Its models are
//     tools that write, explain, reason and code.
//   - A [Mux] is several providers as one: one catalog, one ranking, and another
//     provider's tool where the first can't answer. A Mux is a provider too.
//
// A program with all of them:
//
//	router, err := adapter.Open(ctx, adapter.Options{}, ".mcp.json")
//	…
//	functions := adapter.NewFunctions("own", adapter.FunctionsOptions{})
//	err = adapter.Add(functions, adapter.Function{Name: "add", Description: "Add two numbers."}, add)
//	…
//	chat, err := adapter.NewChat("openai", adapter.ChatOptions{})
//	…
//	all, err := adapter.NewMux("all", router, functions, chat)
//	…
//	defer all.Close()
//
// It then asks for what suits a task, and runs that:
//
//	query := selector.Query{Task: "How many metres are 6 feet?"}
//	selection, err := all.Select(ctx, query)
//	…
//	fmt.Println(adapter.Why(ctx, all, query, selection))
//	result, err := all.Execute(ctx, selector.Call{Tool: selection.Tool, Arguments: arguments})
//	…
//	fmt.Println(result.Text())
//
// A failure of a tool is a result with IsError, which says what to do about it, since
// whoever chose the tool, often a model, is to read it. A Go error is for the program:
// ctx has ended, or the tool is not the provider's.
//
// Every result of these carries in its _meta how it came about: trace_id, tool_name,
// tool_version, server, node_id, execution_path, verified (the arguments fitted the
// schema), degraded (another tool stood in), attempts, latency_ms and timestamp.
//
// The Examples below are complete, and examples/orchestrator in the source is a small
// program of this kind.
//
// This is also the only package that wires the others to each other.
package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/session"
)

// A ProviderAdapter is whatever offers tools. All methods may be called by many
// goroutines at once.
type ProviderAdapter interface {
	// Name returns the provider's name. It does not change.
	Name() string

	// Tools returns the tools that there are now, sorted by ID. They are shared and
	// must not be modified, nor the slice.
	Tools() []*registry.NormalizedTool

	// FindByCapability returns the tools that bear the tag, such as "database", by
	// ID.
	FindByCapability(tag string) []*registry.NormalizedTool

	// Select picks the tool that suits the query best, or abstains.
	Select(ctx context.Context, q selector.Query) (selector.Selection, error)

	// Execute runs one of the provider's tools. Whatever goes wrong with the tool or
	// on the way to it is a result with IsError, whose Err says why if no tool
	// answered. The error is a [*session.Error] where an MCP server answered with
	// one, the cause of ctx's end, or says that the tool is not the provider's.
	Execute(ctx context.Context, c selector.Call) (selector.Result, error)

	// Health says whether the provider can be used, having asked if it must. It
	// returns when ctx ends at the latest.
	Health(ctx context.Context) Health

	// Changed returns a channel that is closed at the next change of the tools. Take
	// it before the tools, and no change is missed:
	//
	//	for {
	//		changed := p.Changed()
	//		use(p.Tools())
	//		<-changed
	//	}
	Changed() <-chan struct{}

	// Close ends the calls under way and all that the provider has started, and
	// returns when nothing of it is left. Calls that come later are not made, and what
	// Tools returned stays. It may be called again, and then does nothing.
	Close() error
}

var (
	_ ProviderAdapter = (*Router)(nil)
	_ ProviderAdapter = (*Functions)(nil)
	_ ProviderAdapter = (*Chat)(nil)
	_ ProviderAdapter = (*Mux)(nil)
)

// An Explainer is a provider that can say what speaks for its tools, as all of this
// package can. See [Why].
type Explainer interface {
	Explain(ctx context.Context, task string, candidates []selector.Candidate) ([]selector.Explanation, error)
}

// Execute runs the provider's tool of that ID. The arguments are a map, a struct or
// whatever else encoding/json makes an object of, or the JSON itself as
// [json.RawMessage]; nil is none.
func Execute(ctx context.Context, p ProviderAdapter, id string, arguments any) (selector.Result, error) {
	tool, ok := Tool(p, id)
	if !ok {
		return selector.Result{}, noTool(p.Name(), id)
	}
	call := selector.Call{Tool: tool}
	if arguments != nil {
		var err error
		if call.Arguments, err = json.Marshal(arguments); err != nil {
			return selector.Result{}, fmt.Errorf("encode the arguments of %s: %w", id, err)
		}
	}
	return p.Execute(ctx, call)
}

// Tool returns the provider's tool of that ID. A [Mux] knows its tools by their
// qualified IDs too, whether or not these are in use.
func Tool(p ProviderAdapter, id string) (t *registry.NormalizedTool, ok bool) {
	if knows, ok := p.(interface {
		Tool(id string) (*registry.NormalizedTool, bool)
	}); ok {
		return knows.Tool(id)
	}
	tools := p.Tools()
	i := slices.IndexFunc(tools, func(t *registry.NormalizedTool) bool { return t.ID == id })
	if i < 0 {
		return nil, false
	}
	return tools[i], true
}

// noTool is the error for a tool that a provider lacks. It wraps [session.ErrNotSent].
func noTool(provider, id string) error {
	return fmt.Errorf("provider %q has no tool %q: %w", provider, id, session.ErrNotSent)
}

// errClosed is why a provider that was closed answers no call.
var errClosed = fmt.Errorf("the provider is closed: %w", session.ErrNotSent)

// Why says in a line which tool was selected for the query and why, or why none was:
//
//	utilities:unit_convert, confidence 0.97: its name has "convert", its parameters have "feet"; it bears math
func Why(ctx context.Context, p ProviderAdapter, q selector.Query, s selector.Selection) string {
	chosen := selector.Candidate{Tool: s.Tool, Score: s.Score, Confidence: s.Confidence, Features: s.Features}
	line := ""
	switch {
	case s.Tool == nil && len(s.Alternatives) == 0:
		return "no tool suits the task"
	case s.Tool == nil:
		chosen = s.Alternatives[0]
		line = "no tool suits the task; the nearest is "
	}
	line += fmt.Sprintf("%s, confidence %.2f", chosen.Tool.ID, chosen.Confidence)
	var reasons []string
	if e, ok := p.(Explainer); ok {
		if all, err := e.Explain(ctx, q.Task, []selector.Candidate{chosen}); err == nil && len(all) == 1 {
			if why := all[0].Why(); why != "" {
				reasons = append(reasons, why)
			}
		}
	}
	var borne []string
	for _, tag := range registry.Tags(q.Capabilities) {
		if slices.Contains(chosen.Tool.Capabilities, tag) {
			borne = append(borne, tag)
		}
	}
	if len(borne) > 0 {
		reasons = append(reasons, "it bears "+strings.Join(borne, ", "))
	}
	if len(s.Partial) > 0 {
		reasons = append(reasons, "it lacks "+strings.Join(s.Partial, ", "))
	}
	if len(reasons) > 0 {
		line += ": " + strings.Join(reasons, "; ")
	}
	return line
}

// A State says how a provider is, or a part of it.
type State string

const (
	Up       State = "up"       // it can be used
	Starting State = "starting" // it can't be used yet
	Degraded State = "degraded" // some of its parts can't be used
	Down     State = "down"     // it can't be used
)

// Health says how a provider is.
type Health struct {
	Name   string   `json:"name"` // the provider's, or the part's
	State  State    `json:"state"`
	Reason string   `json:"reason,omitempty"` // why it is not Up
	Tools  int      `json:"tools"`            // that are known, whatever the state
	Parts  []Health `json:"parts,omitempty"`  // such as the servers of a router
}

// Err returns nil if the provider can be used, if only in part, and otherwise an error
// that says why it can't.
func (h Health) Err() error {
	if h.State == Up || h.State == Degraded {
		return nil
	}
	return errors.New(h.String())
}

// String says how the provider is in a line, such as `mcp is degraded: files is down:
// it ended`.
func (h Health) String() string {
	line := fmt.Sprintf("%s is %s", h.Name, h.State)
	if h.Reason != "" {
		line += ": " + h.Reason
	}
	return line
}

// whole returns the health of what consists of the parts. It is as they are if they
// are all in one state, and degraded otherwise.
func whole(name string, tools int, parts []Health) Health {
	h := Health{Name: name, State: Up, Tools: tools, Parts: parts}
	var reasons []string
	for i, part := range parts {
		if i == 0 {
			h.State = part.State
		} else if h.State != part.State {
			h.State = Degraded
		}
		if part.State != Up {
			reasons = append(reasons, part.String())
		}
	}
	h.Reason = strings.Join(reasons, "; ")
	return h
}
