package catalog

import (
	"runtime"
	"slices"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// A recalled is a server for which the stored offer is wanted.
type recalled struct {
	name, key string
	entry     config.Server
	trusted   bool
	offer     registry.Offer
	found     bool
}

// recall puts the stored offers of servers into the registry, unless the server's offer is known
// already. The offer of an entry that was edited stays until the edited server is ready.
func (w *Writer) recall(servers []config.Server) {
	w.mu.Lock()
	t := w.tagger
	var all []*recalled
	for _, s := range servers {
		if supervisor.Startable(s) && w.known[s.Name] == "" {
			all = append(all, &recalled{name: s.Name, key: t.storeKey(s), entry: s, trusted: w.trusted[s.Name]})
		}
	}
	w.mu.Unlock()
	var reading errgroup.Group
	reading.SetLimit(runtime.GOMAXPROCS(0))
	for _, r := range all {
		reading.Go(func() error {
			if r.offer, r.found = w.Saves.store.Load(r.key, r.name); r.found {
				r.offer = t.doubt(r.offer, r.trusted, r.entry.NewTools == "hold")
				return nil
			}
			// The offer that the entry had before it was edited is not used, but the next one is compared with it.
			if key := w.Saves.lastKey(r.name); key != "" {
				if o, ok := w.Saves.store.Load(key, r.name); ok {
					w.mu.Lock()
					w.older[r.name] = compared(o)
					w.mu.Unlock()
				}
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
		if w.known[r.name] == "" && w.tagger.storeKey(r.entry) == r.key {
			if _, err := w.publish(r.name, r.offer); err != nil {
				w.log.Warn("can't use the stored offer", zap.String("server", r.name), zap.Error(err))
			} else {
				w.known[r.name] = r.key
			}
		}
	}
}

// adoptStored puts the stored offers, with their doubts, into the registry at once, if it is empty.
// It reports false, and does nothing, if they are to be put there one by one. p.mu must be held.
func (p *published) adoptStored(all []*recalled) bool {
	if len(p.known) > 0 {
		return false
	}
	offers := make(map[string]registry.Offer, len(all))
	for _, r := range all {
		offers[r.name] = r.offer
	}
	if _, err := p.registry.ReplaceAll(offers); err != nil {
		return false // one of them can't be used
	}
	for _, r := range all {
		p.known[r.name] = r.key
	}
	return true
}
