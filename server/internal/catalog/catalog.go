package catalog

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A Source is where the catalog comes from, as [adapter.Router] is.
type Source interface {
	exposure.Waiter

	// Snapshot returns the catalog as it is now. It does not block.
	Snapshot() *registry.Snapshot

	// Settled returns when every server without a stored catalog was listed or
	// has failed, or when ctx ends. The error says why servers of other nodes may be
	// missing.
	Settled(ctx context.Context) error
}

// A Catalog is the latest catalog as clients see it. Its methods may be called by
// many goroutines at once.
type Catalog struct {
	source  Source
	options func() *Options

	building  sync.Mutex // one goroutine at a time makes a view: that takes long for very many tools
	current   atomic.Pointer[View]
	firstWait sync.Once
	waitUntil time.Time // for servers never seen before; set by firstWait
}

// New returns the catalog of the source. options returns the options that are in force.
func New(source Source, options func() *Options) *Catalog {
	return &Catalog{source: source, options: options}
}

// View returns the view of the latest snapshot, with the options that are in force.
func (c *Catalog) View() *View {
	if v := c.current.Load(); v.isOf(c.source.Snapshot(), c.options()) {
		return v
	}
	c.building.Lock()
	defer c.building.Unlock()
	snapshot, o := c.source.Snapshot(), c.options()
	if v := c.current.Load(); v.isOf(snapshot, o) {
		return v // another goroutine has made it
	}
	v := NewView(snapshot, o)
	c.current.Store(v)
	return v
}

// Forget drops the view, until there is a request again.
func (c *Catalog) Forget() { c.current.Store(nil) }

// IsOwn reports whether the name means one of the router's own tools.
func (c *Catalog) IsOwn(name string) bool { return exposure.IsOwn(name) && !c.View().shadows(name) }

// Listed finds the tool that a client means among those that are listed. For a tool that did not
// change since the last view, it does not wait for a view of the latest snapshot: another server
// may have added very many tools. It reports false if there is no such tool, or several.
func (c *Catalog) Listed(name string) (t *registry.NormalizedTool, ok bool) {
	if v := c.current.Load(); v != nil && v.Options == c.options() {
		if tool, ok := v.Names.Only(v.Names.Unprefixed(name, c.source.Servers)); ok {
			if now, _ := c.source.Snapshot().Tool(tool.ID); now == tool {
				return tool, true
			}
		}
	}
	names := c.View().Names
	return names.Only(names.Unprefixed(name, c.source.Servers))
}

// Unprefixed returns the name of a tool without the prefix that callers may put before it.
func (c *Catalog) Unprefixed(name string) string {
	if c.options().Prefix == "" {
		return name
	}
	return c.View().Names.Unprefixed(name, c.source.Servers)
}

// Of returns the view of a snapshot and of options that need not be the latest.
func (c *Catalog) Of(snapshot *registry.Snapshot, options *Options) *View {
	if v := c.View(); v.isOf(snapshot, options) {
		return v
	}
	return NewView(snapshot, options)
}

// Settle waits for servers that were never listed, and reports whether the catalog
// differs from before.
func (c *Catalog) Settle(ctx context.Context, before *registry.Snapshot) (changed bool) {
	c.firstWait.Do(func() { c.waitUntil = time.Now().Add(c.options().ListWait) })
	ctx, cancel := context.WithDeadline(ctx, c.waitUntil)
	defer cancel()
	_ = c.source.Settled(ctx) // clients are notified of later changes
	return c.source.Snapshot() != before
}

// Tool finds the tool that a client means; see [exposure.Resolve].
func (c *Catalog) Tool(ctx context.Context, name string) (*registry.NormalizedTool, error) {
	if tool, ok := c.Listed(name); ok {
		return tool, nil
	}
	return exposure.Resolve(ctx, c.source, name, func() *exposure.ToolNames { return c.View().Names },
		func() bool { return c.Settle(ctx, c.View().Snapshot) })
}

// Prompt finds the prompt that a client means. Its error is a [*exposure.NameError].
func (c *Catalog) Prompt(ctx context.Context, name string) (*registry.Prompt, error) {
	prompt, err := c.View().Prompts.Resolve(name)
	if err != nil && c.Settle(ctx, c.View().Snapshot) {
		prompt, err = c.View().Prompts.Resolve(name)
	}
	return prompt, c.View().Prompts.AsListed(err)
}

// Locate returns where to ask for a resource, to be tried one after the other: the
// server that lists it, or the servers with templates that match it, or else all
// servers that have any. It returns nil if no server can have it.
func (c *Catalog) Locate(ctx context.Context, uri string) []Address {
	found := c.View().locate(ctx, uri, c.serverNames())
	if len(found) == 0 && c.Settle(ctx, c.View().Snapshot) {
		found = c.View().locate(ctx, uri, c.serverNames())
	}
	return found
}

// maxOthers bounds the servers of other nodes that are asked for a resource that no server lists:
// there may be thousands.
const maxOthers = 16

// serverNames returns the servers that are asked for a resource that no server lists: the router's own
// first.
func (c *Catalog) serverNames() (names []string) {
	var others []string
	for _, s := range c.source.Servers() {
		switch {
		case s.Node() == "":
			names = append(names, s.Name)
		case len(others) < maxOthers:
			others = append(others, s.Name)
		}
	}
	return append(names, others...)
}

// Split returns the server that a name such as server:tool begins with, and the
// rest of it.
func (c *Catalog) Split(name string) (server, tool string, ok bool) {
	return exposure.Split(name, c.options().Separator, c.source.Servers())
}
