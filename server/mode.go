package server

import (
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
)

// A decision says which tools clients are shown: the tools of mode Direct, or of Search; Code counts as Search. Auto is decided from
// the tools that are known when the router starts. Servers that were never listed are late: Auto stays Direct, unless
// their tools, once they are listed, make the list cost more than the budget. So the mode
// changes once at most, until an edit of mode or toolBudget decides it again. While there are no
// tools and no late servers, as in a router that its user begins to configure, nothing is decided. A client that waits for
// late servers in vain sees Search instead of nothing, until a tool is listed.
//
// The decision is the router's and not each client's: the list "MAY change over time … but MUST
// NOT vary per-connection" (2026-07-28), and a late server adds the same tools for all clients.
type decision struct {
	mode   string   // of the configuration
	budget int      // tokens that the list may cost in Auto
	search bool     // false for Direct
	late   []string // servers that may still change it
	vain   bool     // clients waited for late servers and there is no tool, so that search is true for now
	empty  bool     // the catalog has no tools, and there are no late servers
}

// isFinal reports whether nothing but an edit changes the decision.
func (d *decision) isFinal() bool { return len(d.late) == 0 && !d.empty }

// isOf reports whether the decision is the one for the mode and the budget. Nil is not.
func (d *decision) isOf(mode string, budget int) bool {
	return d != nil && d.mode == mode && d.budget == budget
}

// next returns the decision after d, which may be nil, for a catalog that costs so many tokens
// and lacks the tools of unlisted servers.
func (d *decision) next(mode string, budget int, unlisted []string, cost int) decision {
	next := decision{mode: mode, budget: budget, search: exposure.ModeFor(mode, cost, budget) != exposure.Direct, late: unlisted}
	if d.isOf(mode, budget) && !d.empty {
		next.late = slices.DeleteFunc(slices.Clone(d.late), func(name string) bool { return !slices.Contains(unlisted, name) })
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
