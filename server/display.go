package server

import (
	"slices"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
	"github.com/mcp-metarouter/metarouter/server/internal/tools"
)

// ModeFor returns Direct or Search: the mode itself, or what Auto means for a catalog whose
// list costs so many tokens. complete says that the tools of all servers are known.
func ModeFor(mode string, complete bool, tokens, budget int) string {
	switch {
	case mode == Direct || mode == Search:
		return mode
	case !complete || tokens > budget:
		return Search
	}
	return Direct
}

// A display decides how clients see the catalog, and follows the options.
type display struct {
	router Router
	live   func() (*Options, <-chan struct{})
	log    *zap.Logger

	mu  sync.Mutex // one goroutine at a time replaces now
	now atomic.Pointer[displayed]
}

// displayed is what follows from the options. It is replaced, not modified.
type displayed struct {
	options *Options
	catalog *catalog.Options
}

func newDisplay(r Router, o Options, log *zap.Logger) *display {
	d := &display{router: r, live: o.Live, log: log}
	if d.live == nil {
		d.live = func() (*Options, <-chan struct{}) { return &o, nil }
	}
	d.catalogOptions() // decides the mode
	return d
}

// options returns the options in force.
func (d *display) options() *Options {
	o, _ := d.live()
	return o
}

// changed returns a channel that is closed when other options are in force.
func (d *display) changed() <-chan struct{} {
	_, changed := d.live()
	return changed
}

// catalogOptions returns how clients see the catalog under the options in force. The mode
// is decided again only by an edit of the options that decide it.
func (d *display) catalogOptions() *catalog.Options {
	o := d.options()
	if now := d.now.Load(); now != nil && now.options == o {
		return now.catalog
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.now.Load()
	if before != nil && before.options == o {
		return before.catalog
	}
	search := false
	if before != nil && before.options.Mode == o.Mode && before.options.ToolBudget == o.ToolBudget {
		search = before.catalog.Search
	} else {
		search = d.decideMode(o) == Search
	}
	next := &displayed{o, &catalog.Options{
		Names: o.Names, Separator: o.Separator, Search: search, Pinned: slices.Clone(o.Pinned),
		Own: listedOwn(o, search), ListWait: o.ListWait,
	}}
	d.now.Store(next)
	return next.catalog
}

func (d *display) decideMode(o *Options) string {
	complete, cost := d.router.Complete(), d.cost()
	mode := ModeFor(o.Mode, complete, cost, o.ToolBudget)
	switch {
	case o.Mode == mode:
	case !complete:
		d.log.Info("search mode, since not all servers' tools are known yet")
	default:
		d.log.Info("mode decided by what the list of tools costs",
			zap.Bool("search", mode == Search), zap.Int("tokens", cost), zap.Int("budget", o.ToolBudget))
	}
	return mode
}

// listedOwn returns the router's own tools that are listed.
func listedOwn(o *Options, search bool) (listed []catalog.OwnTool) {
	for _, own := range tools.Own() {
		lists := search
		switch own.Name {
		case "read_result":
			lists = o.LimitsResults
		case "list_categories", "classify_text":
			lists = o.Classifies
		}
		if lists {
			listed = append(listed, catalog.OwnTool{Name: own.Name, Definition: own.Definition})
		}
	}
	return listed
}

// cost returns the tokens that a list of all servers' tools costs a model.
func (d *display) cost() int { return registry.Tokens(d.router.Snapshot().Tools()) }

// warnOfBudget logs that the list costs more than Auto allows, if it does.
func (d *display) warnOfBudget() bool {
	o := d.options()
	if o.Mode == Direct || d.catalogOptions().Search {
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
