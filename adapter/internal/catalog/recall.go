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
	config.Server
	key     string
	trusted bool
	offer   registry.Offer
	found   bool
}

// recall puts the stored offers of servers into the registry, unless the server's offer is known
// already. The offer of an entry that was edited stays until the edited server is ready.
func (w *Writer) recall(servers []config.Server) {
	w.mu.Lock()
	t := w.tagger
	var all []*recalled
	for _, s := range servers {
		if supervisor.Startable(s) && w.known[s.Name] == "" {
			all = append(all, &recalled{Server: s, key: t.storeKey(s), trusted: w.trusted[s.Name]})
		}
	}
	w.mu.Unlock()
	var reading errgroup.Group
	reading.SetLimit(runtime.GOMAXPROCS(0))
	for _, r := range all {
		reading.Go(func() error {
			if r.offer, r.found = w.Saves.store.load(r.key, r.Name); r.found {
				r.offer = t.doubt(r.offer, r.trusted, r.NewTools == "hold")
				return nil
			}
			// The offer that the entry had before it was edited is not used, but the next one is compared with it.
			if key := w.Saves.lastKey(r.Name); key != "" {
				if o, ok := w.Saves.store.load(key, r.Name); ok {
					w.mu.Lock()
					w.older[r.Name] = compared(o)
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
		if w.known[r.Name] == "" && w.tagger.storeKey(r.Server) == r.key {
			if _, err := w.publish(r.Name, r.offer); err != nil {
				w.log.Warn("can't use the stored offer", zap.String("server", r.Name), zap.Error(err))
			} else {
				w.known[r.Name] = r.key
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
		offers[r.Name] = r.offer
	}
	if _, err := p.registry.ReplaceAll(offers); err != nil {
		return false // one of them can't be used
	}
	for _, r := range all {
		p.known[r.Name] = r.key
	}
	return true
}
