// Package functions makes tools of Go functions of the program itself.
//
//	own := functions.New("own", functions.Options{})
//	err := functions.Add(own, functions.Function{Name: "add", Description: "Add two numbers."}, add)
//
// [Add] derives the schema of a function's arguments from a Go struct, and arguments are
// checked against it before each call. The [Provider] is an [adapter.ProviderAdapter], so
// package providers/mux combines it with other providers.
package functions

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/capability"
	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/inprocess"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// Options say how functions are run. The zero value works.
type Options struct {
	Version       string        // of the tools, for tool_version in results
	Timeout       time.Duration // of a call, if the Function has no other; default: unlimited
	MaxConcurrent int           // calls at a time, others wait; default: any number
	Log           *zap.Logger   // default: no log
}

// A Provider offers Go functions of this program as tools. [Add] adds a function and
// Remove removes it, at any time.
type Provider struct {
	*store
	registry *registry.Registry
	server   *inprocess.Server
	taxonomy *capability.Taxonomy
	options  Options

	mu    sync.RWMutex // guards added; the registry changes under it, so that both are in step
	added map[string]*added
}

type store = inprocess.Store

var _ adapter.ProviderAdapter = (*Provider)(nil)

type added struct {
	tool    registry.NormalizedTool
	timeout time.Duration
	call    func(ctx context.Context, arguments json.RawMessage) (json.RawMessage, error)
}

// A Function describes a Go function as a tool.
type Function struct {
	Name        string // of the tool, unique in the Provider
	Title       string // for people; may be empty
	Description string // what it does and when to use it; searches use it

	Capabilities []string       // tags of the tool, besides those inferred from its name, description and parameters
	Hints        registry.Hints // a call that only reads, or is idempotent, may be repeated after a failure
	Timeout      time.Duration  // of a call; default: Options.Timeout; below 0: none
}

// New returns a provider without functions. The name is the first half of the IDs of its
// tools, "name:function". The provider must be closed.
func New(name string, o Options) *Provider {
	log := cmp.Or(o.Log, zap.NewNop()).Named("functions")
	f := &Provider{registry: registry.New(), taxonomy: capability.NewTaxonomy(nil), options: o, added: make(map[string]*added)}
	f.server = inprocess.NewServer(inprocess.Options{
		Info: session.Info{Name: name, Version: o.Version}, Policy: execute.Policy{MaxConcurrent: o.MaxConcurrent}, Log: log, Run: f.run, Limit: f.limit,
	})
	f.store = inprocess.NewStore(name, f.registry, f.server, selector.Options{Log: log}, nil)
	return f
}

// Add adds fn as a tool. It replaces a tool of the same name.
//
// The schema of the arguments is the schema of In, a struct or a map with string keys (see
// [jsonschema.For]). A type with its own JSON encoding has the schema of any JSON, or of a
// string if it encodes as text. A field is required unless its tag has omitempty or
// omitzero, the tag jsonschema describes it, and no other properties are allowed:
//
//	type order struct {
//		Item  string `json:"item" jsonschema:"the article to order"`
//		Count int    `json:"count,omitempty" jsonschema:"how many; 1 if absent"`
//	}
//
// fn is not called with arguments that do not fit the schema, or are too many to check.
//
// fn's value becomes the result's structuredContent, and its JSON the text. If it is not a JSON
// object, structuredContent is {"result": …}; the text of a string is the string itself. An
// error or a panic of fn is a tool error.
//
// ctx ends with the caller's context, at the timeout, and at Close. The call ends then too, but
// Close waits until fn has returned.
//
// Add fails if the Function has no name, or if In has no schema of an object: for example, if In
// is recursive, or a field has the option "string" in its tag.
func Add[In, Out any](f *Provider, about Function, fn func(ctx context.Context, in In) (Out, error)) error {
	if fn == nil {
		return fmt.Errorf("add function %q: it is nil", about.Name)
	}
	tool, err := f.describe(about, reflect.TypeFor[In](), reflect.TypeFor[Out]())
	if err != nil {
		return fmt.Errorf("add function %q: %w", about.Name, err)
	}
	call := func(ctx context.Context, arguments json.RawMessage) (json.RawMessage, error) {
		var in In
		if err := json.Unmarshal(arguments, &in); err != nil {
			return content.Text(fmt.Sprintf("The arguments do not fit %s; it was not called: %v", about.Name, err), nil, true), nil
		}
		out, err := fn(ctx, in)
		switch {
		case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return nil, context.Cause(ctx)
		case err != nil:
			return content.Text(err.Error(), nil, true), nil
		}
		return outputResult(out)
	}
	if err := f.put(&added{tool, cmp.Or(about.Timeout, f.options.Timeout), call}); err != nil {
		return fmt.Errorf("add function %q: %w", about.Name, err)
	}
	return nil
}

// describe returns the tool of a function with these types.
func (f *Provider) describe(about Function, in, out reflect.Type) (registry.NormalizedTool, error) {
	input, err := inputSchema(in)
	if err != nil {
		return registry.NormalizedTool{}, err
	}
	definition := map[string]any{
		"name": about.Name, "description": about.Description, "inputSchema": input, "annotations": about.Hints,
	}
	if about.Title != "" {
		definition["title"] = about.Title
	}
	if output := outputSchema(out); output != nil {
		definition["outputSchema"] = output
	}
	return inprocess.NewTool(f.Name(), f.taxonomy, definition, about.Capabilities)
}

// outputResult returns the result of a function that returned out.
func outputResult(out any) (json.RawMessage, error) {
	encoded, err := json.Marshal(out)
	if err != nil {
		return content.Text("What it returned can't be encoded: "+err.Error(), nil, true), nil
	}
	if v := reflect.ValueOf(out); v.Kind() == reflect.Map && v.IsNil() {
		encoded = []byte("{}")
	}
	text := string(encoded)
	if s, ok := out.(string); ok {
		text = s
	}
	if !bytes.HasPrefix(encoded, []byte("{")) {
		encoded = wire.Marshal(map[string]json.RawMessage{"result": encoded})
	}
	return content.Text(text, encoded, false), nil
}

// put makes the function a tool.
func (f *Provider) put(a *added) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.server.Closed() {
		return inprocess.ErrClosed
	}
	f.added[a.tool.Name] = a
	return f.publish() // all are this provider's, by their names
}

// Remove removes the tool of that name, and reports whether it existed. Running calls go
// on.
func (f *Provider) Remove(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.added[name] == nil {
		return false
	}
	delete(f.added, name)
	return f.publish() == nil
}

// publish puts the added functions into the registry. f.mu must be held.
func (f *Provider) publish() error {
	offer := registry.Offer{Version: f.options.Version, Tools: make([]registry.NormalizedTool, 0, len(f.added))}
	for _, name := range slices.Sorted(maps.Keys(f.added)) {
		offer.Tools = append(offer.Tools, f.added[name].tool)
	}
	_, err := f.registry.Replace(f.Name(), offer)
	return err
}

func (f *Provider) find(name string) (*added, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	a, ok := f.added[name]
	return a, ok
}

// limit returns the time limit of a call; see [inprocess.Options].
func (f *Provider) limit(name string) time.Duration {
	if a, ok := f.find(name); ok {
		return a.timeout
	}
	return 0
}

// run calls a function; see [inprocess.Options].
func (f *Provider) run(ctx context.Context, name string, arguments json.RawMessage, _ session.Request) (json.RawMessage, error) {
	a, ok := f.find(name)
	if !ok {
		return nil, fmt.Errorf("function %q was removed: %w", name, session.ErrNotSent)
	}
	return a.call(ctx, arguments)
}

// Health implements [adapter.ProviderAdapter].
func (f *Provider) Health(context.Context) adapter.Health {
	h := adapter.Health{Name: f.Name(), State: adapter.Up, Tools: len(f.Tools())}
	if f.server.Closed() {
		h.State, h.Reason = adapter.Down, "it is closed"
	}
	return h
}

// Close ends the running calls, and waits until all functions have returned.
func (f *Provider) Close() error {
	f.server.Close()
	return f.store.Close()
}
