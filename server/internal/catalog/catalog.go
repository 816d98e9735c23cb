package catalog

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A Servers waits for servers whose tools may not be known yet.
type Servers interface {
	// Servers returns the state of each server of the configuration.
	Servers() []adapter.ServerInfo

	// Await returns when the server can be called. Its error wraps
	// [session.ErrNotSent] and says why the server can't be called.
	Await(ctx context.Context, server string) error
}

// A Source is where the catalog comes from, as [adapter.Parts] is.
type Source interface {
	Servers

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

// HasServer reports whether there is a server of that name.
func (c *Catalog) HasServer(name string) bool {
	return slices.ContainsFunc(c.source.Servers(), func(s adapter.ServerInfo) bool { return s.Name == name })
}

// Listed finds the tool that a client means among those that are listed. For a tool that did not
// change since the last view, it does not wait for a view of the latest snapshot: another server
// may have added very many tools. It reports false if there is no such tool, or several.
func (c *Catalog) Listed(name string) (t *registry.NormalizedTool, ok bool) {
	if v := c.current.Load(); v != nil && v.Options == c.options() {
		tool, ok := v.Names.Only(c.unprefixed(v.Names, name))
		if ok {
			now, listed := c.source.Snapshot().Tool(tool.ID)
			ok = listed && now == tool
		}
		if ok {
			return tool, true
		}
	}
	names := c.View().Names
	return names.Only(c.unprefixed(names, name))
}

// Unprefixed returns the name of a tool without the prefix that callers may put before it.
func (c *Catalog) Unprefixed(name string) string {
	if c.options().Prefix == "" {
		return name
	}
	return c.unprefixed(c.View().Names, name)
}

func (c *Catalog) unprefixed(names *ToolNames, name string) string {
	if names.prefix == "" || !strings.HasPrefix(name, names.prefix) { // else there may be thousands of servers to look at
		return name
	}
	return names.Unprefixed(name, c.source.Servers())
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
	_ = c.source.Settled(ctx) // clients are notified of what comes later
	return c.source.Snapshot() != before
}

// Tool finds the tool that a client means; see [Resolve].
func (c *Catalog) Tool(ctx context.Context, name string) (*registry.NormalizedTool, error) {
	if tool, ok := c.Listed(name); ok {
		return tool, nil
	}
	return Resolve(ctx, c.source, name, func() *ToolNames { return c.View().Names },
		func() bool { return c.Settle(ctx, c.View().Snapshot) })
}

// Prompt finds the prompt that a client means. Its error is a [*NameError].
func (c *Catalog) Prompt(ctx context.Context, name string) (*registry.Prompt, error) {
	prompt, err := c.View().Prompts.Resolve(ctx, name)
	if err != nil && c.Settle(ctx, c.View().Snapshot) {
		prompt, err = c.View().Prompts.Resolve(ctx, name)
	}
	return prompt, c.View().Prompts.AsListed(err)
}

// Locate returns where to ask for a resource, to be tried one after the other: the
// server that lists it, or the servers whose templates match it, or else all
// servers that have any. It returns nil if no server can have it.
func (c *Catalog) Locate(ctx context.Context, uri string) []Address {
	found := c.View().locate(uri, c.serverNames())
	if len(found) == 0 && c.Settle(ctx, c.View().Snapshot) {
		found = c.View().locate(uri, c.serverNames())
	}
	return found
}

// maxOthers bounds the servers of other nodes that are asked for a resource that no server lists:
// there may be thousands.
const maxOthers = 16

// serverNames returns the servers that are asked for a resource that none lists: the router's own
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
	return Split(name, c.options().Separator, c.source.Servers())
}

// Resolve finds the tool that a name of any form means. If the name begins with a
// server's, that server may have tools that the catalog does not know: Resolve
// waits for the server, which may start it, and fails with an error that wraps
// [session.ErrNotSent] if it can't be called. For any other name, Resolve calls
// settle, which waits for servers that were never listed and reports whether the
// catalog has changed. names returns the names of the latest catalog.
func Resolve(ctx context.Context, servers Servers, name string, names func() *ToolNames, settle func() (changed bool)) (*registry.NormalizedTool, error) {
	all := servers.Servers()
	meant := names().Unprefixed(name, all)
	tool, err := names().Resolve(ctx, meant)
	if e, ok := errors.AsType[*NameError](err); !ok || len(e.Ambiguous) > 0 {
		return tool, err
	}
	if server, _, ok := Split(meant, names().separator, all); ok {
		if err := servers.Await(ctx, server); err != nil {
			return nil, err
		}
	} else if !settle() {
		return nil, err
	}
	return names().Resolve(ctx, names().Unprefixed(name, all))
}

// Split returns the server that a name such as server:tool begins with, and the
// rest of it. Of several servers, it is the one with the longest name.
func Split(name, separator string, servers []adapter.ServerInfo) (server, tool string, ok bool) {
	for _, info := range servers {
		rest, begins := strings.CutPrefix(name, info.Name)
		if !begins {
			rest, begins = strings.CutPrefix(name, exposedServer(info.Name))
		}
		if !begins || len(info.Name) <= len(server) {
			continue
		}
		if rest, separated := cutSeparator(rest, separator); separated {
			server, tool, ok = info.Name, rest, true
		}
	}
	return server, tool, ok
}
