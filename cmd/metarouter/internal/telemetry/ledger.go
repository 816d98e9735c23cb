package telemetry

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server"
)

// maxEntries bounds the entries of a [Ledger]. Calls of further ones are counted for the entry
// whose names are "other".
const maxEntries = 2000

// A Ledger counts what clients cost in tokens since the router's start: definitions that they
// listed, and results of tools. A token is estimated as 4 bytes. The zero value is ready. It is
// a [selector.Observer] and a [server.Savings].
type Ledger struct {
	known atomic.Pointer[map[account]*costs] // replaced, not edited
	mu    sync.Mutex                         // held while known is replaced
}

// An account is what tokens are counted for. Lists of tools belong to no server.
type account struct{ server, client, profile string }

// costs are what an account has cost.
type costs struct{ calls, results, definitions atomic.Int64 }

// An Entry is what a client with a profile has cost by a server's tools since the router's start.
type Entry struct {
	Server      string `json:"server"`      // "" for lists of tools, and for the router's own tools
	Client      string `json:"client"`      // "" if it gives itself no name
	Profile     string `json:"profile"`     // "" is none
	Calls       int64  `json:"calls"`       // that have ended
	Results     int64  `json:"results"`     // tokens, before they were cut
	Definitions int64  `json:"definitions"` // tokens of lists of tools
}

// Entries returns what was counted, by server, client and profile.
func (l *Ledger) Entries() []Entry {
	all := []Entry{}
	if known := l.known.Load(); known != nil {
		for a, c := range *known {
			all = append(all, Entry{a.server, a.client, a.profile, c.calls.Load(), c.results.Load(), c.definitions.Load()})
		}
	}
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Client, b.Client), cmp.Compare(a.Profile, b.Profile))
	})
	return all
}

// Executed implements [selector.Observer].
func (l *Ledger) Executed(e selector.Execution) {
	answered := e.Answered
	if answered == nil {
		answered = e.Tool
	}
	a := account{client: e.Client, profile: e.Profile}
	if answered != nil {
		a.server = answered.Server
	}
	c := l.of(a)
	c.calls.Add(1)
	c.results.Add(int64(len(e.Result) / registry.BytesPerToken))
}

// Searched implements [selector.Observer].
func (*Ledger) Searched(selector.Search) {}

// Saved implements [server.Savings].
func (*Ledger) Saved(server.Saving, int) {}

// Listed implements [server.Savings].
func (l *Ledger) Listed(client, _, profile string, tokens int) {
	l.of(account{client: client, profile: profile}).definitions.Add(int64(tokens))
}

// of returns the costs of an account, or those that stand for it.
func (l *Ledger) of(a account) *costs {
	a.client = a.client[:min(len(a.client), maxValue)]
	known := l.known.Load()
	if known != nil {
		if c := (*known)[a]; c != nil {
			return c
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	next := make(map[account]*costs)
	if known = l.known.Load(); known != nil {
		if len(*known) >= maxEntries && (*known)[a] == nil {
			a = account{other, other, other}
		}
		if c := (*known)[a]; c != nil {
			return c
		}
		next = maps.Clone(*known)
	}
	a.client = value(a.client)
	c := new(costs)
	next[a] = c
	l.known.Store(&next)
	return c
}

// Both is two counters of tokens as one.
type Both [2]server.Savings

// Saved implements [server.Savings].
func (b Both) Saved(by server.Saving, tokens int) {
	for _, s := range b {
		s.Saved(by, tokens)
	}
}

// Listed implements [server.Savings].
func (b Both) Listed(client, principal, profile string, tokens int) {
	for _, s := range b {
		s.Listed(client, principal, profile, tokens)
	}
}
