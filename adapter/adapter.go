// Package adapter is the router as a library: providers of tools behind one
// interface, for Go programs that hand out work.
//
// # Providers
//
// A [ProviderAdapter] lists its tools, selects a tool for a task with the reasons, runs it,
// and reports its own health. There are four providers:
//
//   - A [Router] keeps the MCP servers of a .mcp.json running. [Open] starts one inside the
//     program, with no other process but the servers.
//   - Package adapter/functions makes tools of functions of the program itself.
//   - Package providers/openai makes tools of language models.
//   - Package providers/mux combines several providers into one, with one catalog and one
//     ranking. It uses another provider's tool where the first can't answer.
//
// # Use
//
// [selector.Route] does a task with a provider: it selects the tool, checks the arguments, decides
// whether the tool may run, and runs it; [Why] says in a line why it chose the tool.
// A program that decides by itself calls Select and Execute of the provider instead.
//
// # Results and errors
//
// A tool's failure is a result with IsError. Its text says how to go on, since a model often
// reads it. A Go error is for the program: ctx has ended, or the provider does not have the
// tool.
//
// The _meta of a result says how it was made: trace_id, tool_name, tool_version, server,
// node_id, execution_path, verified (a signature of the node that ran the tool was checked;
// false on one machine), degraded (another tool was used instead), arguments_checked (they
// were validated against the schema), attempts, latency_ms and timestamp.
//
// The examples below are complete. docs/go.md has a program with all providers, and providers/orchestrator
// is a larger one. providers is a module of its own.
package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/inprocess"
	"github.com/mcp-metarouter/metarouter/internal/taglist"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// A ProviderAdapter offers tools. All methods may be called by many goroutines at once.
type ProviderAdapter interface {
	// Name returns the provider's name. It does not change.
	Name() string

	// Tools returns the tools that the provider has now, sorted by ID. Neither the tools
	// nor the slice may be modified, since they are shared.
	Tools() []*registry.NormalizedTool

	// FindByCapability returns the tools that have the tag, such as "database", sorted by
	// ID.
	FindByCapability(tag string) []*registry.NormalizedTool

	// Select picks the best tool for the query, or abstains.
	Select(ctx context.Context, q selector.Query) (selector.Selection, error)

	// Execute runs one of the provider's tools. A failure of the tool, or on the way to
	// it, is a result with IsError; its Err is set if no tool has answered. The error is
	// an [*Error] of an MCP server, the cause of ctx's end, or says that the provider does
	// not have the tool.
	Execute(ctx context.Context, c selector.Call) (selector.Result, error)

	// Health reports whether the provider can be used. It may ask another program for
	// that, and returns when ctx ends at the latest.
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

	// Close ends the calls in flight and everything that the provider has started, and waits
	// for the end of both. Later calls fail. The tools that Tools has returned stay readable.
	// Further calls of Close do nothing.
	Close() error
}

var (
	_ ProviderAdapter   = (*Router)(nil)
	_ selector.Provider = (*Router)(nil) // see [selector.Route]
)

// Execute runs the provider's tool of that ID. The arguments are a map, a struct, another
// value that encoding/json encodes as an object, or the JSON itself as [json.RawMessage];
// nil means no arguments.
func Execute(ctx context.Context, p ProviderAdapter, id string, arguments any) (selector.Result, error) {
	tool, ok := Tool(p, id)
	if !ok {
		return selector.Result{}, inprocess.NoTool(p.Name(), id)
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

// Tool returns the provider's tool of that ID. A Mux also knows its tools by their qualified
// IDs, and a Router by IDs with the prefix of "gateway" in its configuration.
func Tool(p ProviderAdapter, id string) (*registry.NormalizedTool, bool) {
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

// Why says in a line which tool was selected for the query and why, or why there is no such tool:
//
//	utilities:unit_convert, confidence 0.97: its name has "convert", its parameters have "feet"; its capabilities have math
func Why(ctx context.Context, p ProviderAdapter, q selector.Query, s selector.Selection) string {
	chosen := selector.Candidate{Tool: s.Tool, Score: s.Score, Confidence: s.Confidence, Features: s.Features}
	line := ""
	switch {
	case s.Tool == nil && len(s.Alternatives) == 0:
		return "no tool fits the task"
	case s.Tool == nil:
		chosen = s.Alternatives[0]
		line = "no tool fits the task; the nearest is "
	case !s.Sure:
		line = "no tool is a sure match; the nearest is "
	}
	line += fmt.Sprintf("%s, confidence %.2f", chosen.Tool.ID, chosen.Confidence)
	var reasons []string
	if e, ok := p.(interface {
		Explain(ctx context.Context, task string, candidates []selector.Candidate) ([]selector.Explanation, error)
	}); ok {
		if all, err := e.Explain(ctx, q.Task, []selector.Candidate{chosen}); err == nil && len(all) == 1 {
			if why := all[0].Why(); why != "" {
				reasons = append(reasons, why)
			}
		}
	}
	var asked []string
	for _, tag := range taglist.Clean(q.Capabilities) {
		if slices.Contains(chosen.Tool.Capabilities, tag) {
			asked = append(asked, tag)
		}
	}
	if len(asked) > 0 {
		reasons = append(reasons, "its capabilities have "+strings.Join(asked, ", "))
	}
	if len(s.Partial) > 0 {
		reasons = append(reasons, "it lacks "+strings.Join(s.Partial, ", "))
	}
	if len(reasons) > 0 {
		line += ": " + strings.Join(reasons, "; ")
	}
	return line
}

// A State is the state of a provider, or of a part of it.
type State string

const (
	Up       State = "up"       // it can be used
	Starting State = "starting" // it can't be used yet
	Degraded State = "degraded" // some of its parts can't be used
	Down     State = "down"     // it can't be used
)

// Health is the health of a provider.
type Health struct {
	Name   string   `json:"name"` // the provider's, or the part's
	State  State    `json:"state"`
	Reason string   `json:"reason,omitempty"` // why it is not Up
	Tools  int      `json:"tools"`            // that are known, whatever the state
	Parts  []Health `json:"parts,omitempty"`  // such as the servers of a router
}

// Err returns nil if the provider can be used, if only in part, and otherwise the reason.
func (h Health) Err() error {
	if h.State == Up || h.State == Degraded {
		return nil
	}
	return errors.New(h.String())
}

// String returns a line such as `mcp is degraded: files is down: it ended`.
func (h Health) String() string {
	line := fmt.Sprintf("%s is %s", h.Name, h.State)
	if h.Reason != "" {
		line += ": " + h.Reason
	}
	return line
}

// CombineHealth returns the health of a provider that consists of parts. If their states differ,
// it is [Degraded].
func CombineHealth(name string, tools int, parts []Health) Health {
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
