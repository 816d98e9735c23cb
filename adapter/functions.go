package adapter

import (
	"bytes"
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

	"github.com/mcp-metarouter/metarouter/discovery"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/session"
)

// FunctionsOptions say how functions are run. The zero value works.
type FunctionsOptions struct {
	Version       string        // of the tools, as results tell it
	Timeout       time.Duration // of a call, unless the Function says; 0 is none
	MaxConcurrent int           // calls under way at once, beyond which others wait; 0 is any number
	Log           *zap.Logger   // nil is silence
}

// Functions are Go functions of this program, as tools. [Add] makes a tool of one and
// Remove takes it away, at any time.
type Functions struct {
	shelf
	bench    *bench
	taxonomy *discovery.Taxonomy
	options  FunctionsOptions

	mu    sync.RWMutex // guards added, and has the registry change together with it
	added map[string]*added
}

// An added function is one that is a tool.
type added struct {
	tool    registry.NormalizedTool
	timeout time.Duration
	call    func(ctx context.Context, arguments json.RawMessage) (json.RawMessage, error)
}

// A Function says what is to be known of a Go function as a tool.
type Function struct {
	Name        string // of the tool, unique among the Functions
	Title       string // for people; may be empty
	Description string // what it does and when to use it, by which it is found

	// Capabilities are tags that the tool bears, beside those that its name,
	// description and parameters speak for.
	Capabilities []string

	// Hints say what a call does. One that only reads, or that is idempotent, is made
	// again where that helps; nothing is assumed of what is nil.
	Hints registry.Hints

	// Timeout is how long a call may take; 0 is what FunctionsOptions says, and less
	// than 0 is as long as it likes.
	Timeout time.Duration
}

// NewFunctions returns a provider of no functions yet. The name is the first half of
// the IDs of its tools, "name:function".
func NewFunctions(name string, o FunctionsOptions) *Functions {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	log := o.Log.Named("functions")
	b := newBench(session.Info{Name: name, Version: o.Version}, selector.Policy{MaxConcurrent: o.MaxConcurrent}, log)
	f := &Functions{
		shelf: newShelf(name, b, log), bench: b, taxonomy: discovery.NewTaxonomy(nil),
		options: o, added: make(map[string]*added),
	}
	b.work, b.limit = f.run, f.limit
	return f
}

// Add makes a tool of fn, which takes the place of another one of its name.
//
// The schema of the arguments is that of In, a struct or a map with string keys (see
// [jsonschema.For]; types with a JSON of their own are any JSON, or a string where they
// are texts). A field is required unless it is tagged omitempty or omitzero, a tag
// jsonschema describes it, and nothing but the fields may be given:
//
//	type order struct {
//		Item  string `json:"item" jsonschema:"what is ordered"`
//		Count int    `json:"count,omitempty" jsonschema:"how many; 1 if absent"`
//	}
//
// Arguments that do not fit never reach fn.
//
// What fn returns becomes the result's structuredContent, and its JSON the text. Where
// that is no object, structuredContent is {"result": …}; the text of a string is the
// string. An error or a panic of fn is a tool error.
//
// ctx ends when the caller's does, when the time of the call is up and at Close. The
// call then ends too, whatever fn does, but Close waits until fn has returned.
//
// It is an error if there is no name, or if In has no schema of an object, as it is
// recursive, say, or has a field with the option "string" in its tag.
func Add[In, Out any](f *Functions, about Function, fn func(ctx context.Context, in In) (Out, error)) error {
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
			return textResult(fmt.Sprintf("The arguments do not fit %s; it was not called: %v", about.Name, err), nil, true), nil
		}
		out, err := fn(ctx, in)
		switch {
		case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return nil, context.Cause(ctx)
		case err != nil:
			return textResult(err.Error(), nil, true), nil
		}
		return outputResult(out)
	}
	timeout := about.Timeout
	if timeout == 0 {
		timeout = f.options.Timeout
	}
	if err := f.put(&added{tool, timeout, call}); err != nil {
		return fmt.Errorf("add function %q: %w", about.Name, err)
	}
	return nil
}

// describe returns the tool that a function of these types is.
func (f *Functions) describe(about Function, in, out reflect.Type) (registry.NormalizedTool, error) {
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
	return newTool(f.name, f.taxonomy, definition, about.Capabilities)
}

// newTool returns the tool of the definition, cleaned and tagged as those of servers
// are, which bears the given capabilities too.
func newTool(provider string, x *discovery.Taxonomy, definition any, capabilities []string) (registry.NormalizedTool, error) {
	encoded, err := json.Marshal(definition)
	if err != nil {
		return registry.NormalizedTool{}, err
	}
	tool, err := discovery.Normalize(provider, encoded, nil)
	if err != nil {
		return registry.NormalizedTool{}, err
	}
	tags := slices.Clone(capabilities)
	if x != nil {
		for _, tag := range x.Infer(tool) {
			tags = append(tags, tag.Name)
		}
	}
	tool.Capabilities = registry.Tags(tags)
	return tool, nil
}

// outputResult returns the result of a function that returned out.
func outputResult(out any) (json.RawMessage, error) {
	encoded, err := json.Marshal(out)
	if err != nil {
		return textResult("What it returned can't be encoded: "+err.Error(), nil, true), nil
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
	return textResult(text, encoded, false), nil
}

// put makes the function a tool.
func (f *Functions) put(a *added) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bench.life.Err() != nil {
		return errClosed
	}
	before := f.added[a.tool.Name]
	f.added[a.tool.Name] = a
	err := f.publish()
	if err != nil {
		delete(f.added, a.tool.Name)
		if before != nil {
			f.added[a.tool.Name] = before
		}
	}
	return err
}

// Remove takes away the tool of that name, and reports whether there was one. Calls
// under way go on.
func (f *Functions) Remove(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.added[name] == nil {
		return false
	}
	delete(f.added, name)
	return f.publish() == nil
}

// publish makes the registry say what there is. f.mu must be held.
func (f *Functions) publish() error {
	offer := registry.Offer{Version: f.bench.info.Version, Tools: make([]registry.NormalizedTool, 0, len(f.added))}
	for _, name := range slices.Sorted(maps.Keys(f.added)) {
		offer.Tools = append(offer.Tools, f.added[name].tool)
	}
	_, err := f.registry.Replace(f.name, offer)
	return err
}

func (f *Functions) find(name string) (*added, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	a, ok := f.added[name]
	return a, ok
}

// limit is how long a call may take.
func (f *Functions) limit(name string) time.Duration {
	if a, ok := f.find(name); ok {
		return a.timeout
	}
	return 0
}

// run calls a function. See [bench.work].
func (f *Functions) run(ctx context.Context, name string, arguments json.RawMessage, _ session.Request) (json.RawMessage, error) {
	a, ok := f.find(name)
	if !ok {
		return nil, fmt.Errorf("function %q was removed: %w", name, session.ErrNotSent)
	}
	return a.call(ctx, arguments)
}

// Health says that the functions can be called, until Close.
func (f *Functions) Health(context.Context) Health {
	h := Health{Name: f.name, State: Up, Tools: len(f.Tools())}
	if f.bench.life.Err() != nil {
		h.State, h.Reason = Down, "it is closed"
	}
	return h
}

// Close ends the calls under way, and returns when all functions have returned.
func (f *Functions) Close() error {
	f.bench.close()
	return f.registry.Close()
}
