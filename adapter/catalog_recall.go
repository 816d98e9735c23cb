package adapter

import (
	"runtime"
	"slices"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// A recalled is a server whose stored offer is wanted.
type recalled struct {
	entry     config.Server
	key, last string // of its offer now, and of the one that was stored last
	trusted   bool
	offer     registry.Offer
	found     bool
}

// recall puts the stored offers of servers into the registry, unless the server's offer is
// known already. The offer of an entry that was edited stays until the edited server is ready.
func (w *catalogWriter) recall(servers []config.Server) {
	w.mu.Lock()
	t := w.tagger
	var all []*recalled
	for _, s := range servers {
		if supervisor.Startable(s) && w.known[s.Name] == "" {
			all = append(all, &recalled{entry: s, key: t.storeKey(s), last: w.keys[s.Name], trusted: w.trusts[s.Name]})
		}
	}
	w.mu.Unlock()
	var reading errgroup.Group
	reading.SetLimit(runtime.GOMAXPROCS(0))
	for _, r := range all {
		reading.Go(func() error {
			if r.offer, r.found = w.store.Load(r.key, r.entry.Name); r.found {
				r.offer = t.doubt(r.offer, r.trusted)
			} else {
				w.recallOlder(r.last, r.entry.Name)
			}
			return nil
		})
	}
	reading.Wait() // no error
	all = slices.DeleteFunc(all, func(r *recalled) bool { return !r.found })
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tagger == t && w.adoptStored(all) {
		return
	}
	for _, r := range all {
		if name := r.entry.Name; w.known[name] == "" && w.tagger.storeKey(r.entry) == r.key {
			if _, err := w.publish(name, r.offer); err != nil {
				w.log.Warn("can't use the stored offer", zap.String("server", name), zap.Error(err))
			} else {
				w.known[name] = r.key
			}
		}
	}
}

// adoptStored puts the stored offers, with their doubts, into the registry at once, if nothing is in
// it. It reports false, and does nothing, if they are to be put there one by one. w.mu must be held.
func (w *catalogWriter) adoptStored(all []*recalled) bool {
	if w.labels != nil || len(w.known) > 0 {
		return false
	}
	offers := make(map[string]registry.Offer, len(all))
	for _, r := range all {
		offers[r.entry.Name] = r.offer
	}
	if _, err := w.registry.ReplaceAll(offers); err != nil {
		return false // one of them can't be used
	}
	for _, r := range all {
		w.known[r.entry.Name] = r.key
	}
	return true
}

// recallOlder finds the offer that an entry had before it was edited. It is not used, but the
// next one is compared with it.
func (w *catalogWriter) recallOlder(key, server string) {
	if key == "" {
		return
	}
	if o, ok := w.store.Load(key, server); ok {
		w.mu.Lock()
		w.older[server] = registry.Offer{Tools: o.Tools, LastSeen: o.LastSeen, Confirmed: o.Confirmed}
		w.mu.Unlock()
	}
}
