package server

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
	"github.com/mcp-metarouter/metarouter/server/internal/tools"
)

// defaultName is the router's own name.
const defaultName = "metarouter"

// A display decides how clients see the catalog, and follows the options.
type display struct {
	router  Router
	live    func() (*Options, <-chan struct{})
	version string // of the router
	runs    bool   // scripts can be run, if the options allow it
	log     *zap.Logger

	mu  sync.Mutex // one goroutine at a time replaces now
	now atomic.Pointer[displayed]
}

// displayed follows from the options and the catalog. It is replaced, not modified.
type displayed struct {
	options  *Options
	snapshot *registry.Snapshot
	decision decision
	tools    tools.Settings
	finds    bool     // whether find_tools is listed
	servers  []string // that it names
	catalog  *catalog.Options
	info     json.RawMessage // our serverInfo
}

func newDisplay(r Router, o Options, log *zap.Logger) *display {
	d := &display{router: r, live: o.Live, version: o.Version, runs: o.Runner != nil, log: log}
	if d.live == nil {
		d.live = func() (*Options, <-chan struct{}) { return &o, nil }
	}
	d.now.Store(&displayed{decision: decision{empty: true}})
	d.current() // decides the mode
	return d
}

// options returns the options in force.
func (d *display) options() *Options {
	o, _ := d.live()
	return o
}

// catalogOptions returns how clients see the catalog under the options in force.
func (d *display) catalogOptions() *catalog.Options { return d.current().catalog }

// info returns our serverInfo under the options in force.
func (d *display) info() json.RawMessage { return d.current().info }

// current returns the view that follows from the options in force and the latest catalog.
func (d *display) current() *displayed {
	if now := d.now.Load(); now.is(d.options(), d.router.Snapshot()) {
		return now // each call comes here
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	o, snapshot, now := d.options(), d.router.Snapshot(), d.now.Load()
	if now.is(o, snapshot) {
		return now // another goroutine has made it
	}
	return d.show(o, snapshot, d.decide(o, &now.decision))
}

// is reports whether d follows from the options and the catalog.
func (d *displayed) is(o *Options, s *registry.Snapshot) bool {
	return d.options == o && d.snapshot == s
}

// decide returns the decision after the one before. d.mu must be held.
func (d *display) decide(o *Options, before *decision) decision {
	mode := o.Mode
	if mode == exposure.Code && !(d.runs && o.Scripts) {
		mode = exposure.Search // clients that may run no scripts see the search tools
	}
	if before.isOf(mode, o.ToolBudget) && before.isFinal() {
		return *before
	}
	unlisted, cost := d.router.Unlisted(), d.cost()
	next := before.next(mode, o.ToolBudget, unlisted, cost)
	if next.isFinal() && (mode == exposure.Auto || mode == "") {
		d.log.Info("mode decided by what the list of tools costs",
			zap.Bool("search", next.search), zap.Int("tokens", cost), zap.Int("budget", o.ToolBudget))
	}
	return next
}

// waited notes that clients have waited for late servers.
func (d *display) waited() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := d.now.Load(); len(now.decision.late) > 0 && len(now.snapshot.Tools()) == 0 {
		next := now.decision
		next.search, next.vain = true, true
		d.show(now.options, now.snapshot, next)
	}
}

// show puts a view into force. d.mu must be held.
func (d *display) show(o *Options, snapshot *registry.Snapshot, decided decision) *displayed {
	next := &displayed{options: o, snapshot: snapshot, decision: decided, info: d.serverInfo(o), tools: tools.Settings{
		RouteThreshold: o.RouteThreshold, Profile: o.Profile,
		Code: decided.mode == exposure.Code, Direct: !decided.search, Scripts: d.runs && o.Scripts,
	}}
	if next.finds = decided.search || o.FindTools && o.Itself == "" && d.cost() > o.FindAbove; next.finds {
		next.servers = namesOf(d.router.Servers())
	}
	if now := d.now.Load(); now.options == o && now.catalog.Search == decided.search && now.finds == next.finds && slices.Equal(now.servers, next.servers) {
		next.catalog = now.catalog
	} else {
		next.catalog = &catalog.Options{
			Names: o.Names, Separator: o.Separator, Prefix: o.Prefix, Search: decided.search, Code: next.tools.Code,
			Own: d.listedOwn(o, next), ListWait: o.ListWait,
		}
		if !next.catalog.Code {
			next.catalog.Pinned = slices.Clone(o.Pinned)
		}
	}
	d.now.Store(next)
	return next
}

// serverInfo returns the serverInfo of the router, or of the server that is shown as itself. Clients show the title, so a
// router with a name of its own has no title.
func (d *display) serverInfo(o *Options) json.RawMessage {
	i := struct {
		Name    string `json:"name"`
		Title   string `json:"title,omitempty"`
		Version string `json:"version"`
	}{cmp.Or(o.Itself, o.Name, defaultName), "", d.version}
	if o.Itself == "" && i.Name == defaultName {
		i.Title = "Metarouter"
	}
	if o.Itself == "" {
		return wire.Marshal(i)
	}
	offer := d.router.Snapshot().Offer(o.Itself)
	i.Version = offer.Version
	info := wire.Marshal(i) // with the name of its entry until its own is known
	for name, value := range wire.All(offer.Look) {
		info = wire.SetMember(info, name, value)
	}
	return info
}

// settle waits for servers that were never listed, as long as all tools are to be listed.
func (d *display) settle(ctx context.Context, c *catalog.Catalog) {
	switch now := d.current().decision; {
	case now.search:
		return
	case len(now.late) == 0:
		c.Settle(ctx, nil)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	waiting.Go(func() {
		defer cancel()
		if c.Settle(ctx, nil); ctx.Err() == nil {
			d.waited()
		}
	})
	for {
		changed := d.router.Changed()
		if d.current().decision.search {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// listedOwn returns the router's own tools that are listed.
func (d *display) listedOwn(o *Options, next *displayed) (listed []catalog.OwnTool) {
	for _, own := range tools.Own() {
		lists, definition := next.decision.search, next.tools.Definition(own)
		switch own.Name {
		case "find_tools":
			lists, definition = next.finds, nameServers(definition, next.servers)
		case "read_result":
			lists = o.LimitsResults || next.tools.Scripts
		case "list_categories", "classify_text":
			lists = o.Classifies && o.Itself == ""
		case "run_script":
			lists = true
		}
		if lists && next.tools.Allows(own.Name) {
			listed = append(listed, catalog.OwnTool{Name: own.Name, Definition: definition})
		}
	}
	return listed
}

// cost returns the tokens that a list of all servers' tools costs a model.
func (d *display) cost() int { return exposure.Tokens(d.router.Snapshot().Tools()) }

// warnOfBudget logs that the list costs more than Auto allows, if it does.
func (d *display) warnOfBudget() bool {
	o := d.options()
	if o.Mode == exposure.Direct || d.catalogOptions().Search {
		return false
	}
	cost := d.cost()
	if cost <= o.ToolBudget {
		return false
	}
	d.log.Warn("the list of tools has grown over the budget; the next start is in search mode",
		zap.Int("tokens", cost), zap.Int("budget", o.ToolBudget))
	return true
}

// maxFindTools is how long the description of find_tools may be, in characters: clients cut longer ones.
const maxFindTools = 2000

// namesOf returns the names of the servers that clients may see and that can have tools, sorted.
func namesOf(servers []status.Server) (names []string) {
	for _, s := range servers {
		if s.State != status.Disabled && s.State != status.Self && s.State != status.Misconfigured {
			names = append(names, plain.Line(s.Name))
		}
	}
	slices.Sort(names)
	return names
}

// nameServers returns the definition of find_tools with the first names in its description, as many as
// have room: agents that do not know the servers behind a search do not search. The text changes only
// when servers come or go, since each change costs clients their cache of the prompt.
func nameServers(definition []byte, names []string) []byte {
	const title = " The servers: "
	description := wire.Text(definition, "description")
	text := listed(names, maxFindTools-len([]rune(description))-len(title)-len("."))
	if text == "" {
		return definition
	}
	return wire.SetMember(definition, "description", wire.AppendString(nil, description+title+text+"."))
}
