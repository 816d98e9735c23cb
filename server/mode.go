package server

import (
	"slices"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A decider decides between Direct and Search; Code counts as Search. Auto is decided from the tools that are known
// when the router starts. Servers that were never listed are late: Auto stays Direct, unless
// their tools, once they are listed, make the list cost more than the budget. So the mode
// changes once at most, until an edit of mode or toolBudget decides it again. While there are no
// tools and no late servers, as in a router that its user begins to configure, nothing is decided. A client that waits for
// late servers in vain sees Search instead of nothing, until a tool is listed.
//
// The decision is the router's and not each client's: the list "MAY change over time … but MUST
// NOT vary per-connection" (2026-07-28), and a late server adds the same tools for all clients.
type decider struct {
	router modeSource
	log    *zap.Logger

	mu  sync.Mutex // one goroutine at a time replaces now
	now atomic.Pointer[decision]
}

type modeSource interface {
	Snapshot() *registry.Snapshot
	Unlisted() []string // names of servers with tools that are not known
}

// A decision says which tools clients are shown. It is replaced, not modified.
type decision struct {
	mode   string             // of the configuration
	budget int                // tokens that the list may cost in Auto
	search bool               // false for Direct
	late   []string           // servers that may still change it
	vain   bool               // clients waited for late servers and there is no tool, so that search is true for now
	empty  bool               // the catalog has no tools, and there are no late servers
	known  *registry.Snapshot // the catalog that it is based on, if another one may change it
}

// isFinal reports whether nothing but an edit changes the decision.
func (d *decision) isFinal() bool { return len(d.late) == 0 && !d.empty }

// decide returns the decision for a mode and a budget. It follows the catalog.
func (d *decider) decide(mode string, budget int) *decision {
	if now := d.now.Load(); now.holds(mode, budget, d.router) {
		return now
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.now.Load()
	if before.holds(mode, budget, d.router) {
		return before
	}
	snapshot := d.router.Snapshot()
	unlisted, cost := d.router.Unlisted(), exposure.Tokens(snapshot.Tools())
	next := before.next(mode, budget, unlisted, cost)
	if !next.isFinal() {
		next.known = snapshot
	} else if next.mode == exposure.Auto || next.mode == "" {
		d.log.Info("mode decided by what the list of tools costs",
			zap.Bool("search", next.search), zap.Int("tokens", cost), zap.Int("budget", budget))
	}
	d.now.Store(&next)
	return &next
}

// waited notes that clients have waited for late servers.
func (d *decider) waited() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := d.now.Load(); now != nil && len(now.late) > 0 && len(now.known.Tools()) == 0 {
		next := *now
		next.search, next.vain = true, true
		d.now.Store(&next)
	}
}

// holds reports whether the decision is the one for the mode and the budget, and the catalog
// can't have changed it. Nil holds for nothing.
func (d *decision) holds(mode string, budget int, router modeSource) bool {
	return d != nil && d.mode == mode && d.budget == budget && (d.isFinal() || d.known == router.Snapshot())
}

// next returns the decision after d, which may be nil, for a catalog that costs so many tokens
// and lacks the tools of unlisted servers.
func (d *decision) next(mode string, budget int, unlisted []string, cost int) decision {
	next := decision{mode: mode, budget: budget, search: exposure.ModeFor(mode, cost, budget) != exposure.Direct, late: unlisted}
	if d != nil && d.mode == mode && d.budget == budget && !d.empty {
		next.late = nil
		for _, name := range d.late {
			if slices.Contains(unlisted, name) {
				next.late = append(next.late, name)
			}
		}
		if d.vain && cost == 0 && len(next.late) > 0 {
			next.search, next.vain = true, true
			return next
		}
		if len(next.late) == len(d.late) && !d.vain { // tools of other servers change nothing
			next.search = d.search
		}
	}
	if next.search || mode == exposure.Direct {
		next.late = nil
	} else {
		next.empty = cost == 0 && len(next.late) == 0
	}
	return next
}
