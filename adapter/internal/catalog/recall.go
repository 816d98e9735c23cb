package catalog

import (
	"runtime"
	"slices"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/registry"
)

// recall puts the stored offers of servers into the registry, unless the server's offer is known
// already. The offer of an entry that was edited stays until the edited server is ready.
func (w *Writer) recall(servers []config.Server) {
	w.mu.Lock()
	t := w.tagger
	servers = slices.DeleteFunc(slices.Clone(servers), func(s config.Server) bool { return !s.Startable() || w.known[s.Name] != "" })
	w.mu.Unlock()
	keys, found := make([]string, len(servers)), make([]*registry.Offer, len(servers))
	var reading errgroup.Group
	reading.SetLimit(runtime.GOMAXPROCS(0))
	for i, s := range servers {
		reading.Go(func() error {
			keys[i] = t.storeKey(s)
			found[i] = w.stored(t, s, keys[i])
			return nil
		})
	}
	reading.Wait() // no error
	w.mu.Lock()
	defer w.mu.Unlock()
	offers := make(map[string]registry.Offer)
	for i, s := range servers {
		if found[i] != nil && w.known[s.Name] == "" {
			offers[s.Name], w.known[s.Name] = *found[i], keys[i]
		}
	}
	if _, err := w.registry.ReplaceSome(offers); err == nil {
		return
	}
	for server, o := range offers { // one of them can't be used
		if _, err := w.registry.Replace(server, o); err != nil {
			delete(w.known, server)
			w.log.Warn("can't use the stored offer", zap.String("server", server), zap.Error(err))
		}
	}
}

// stored returns the stored offer of an entry, with its doubts, or nil. The offer that the entry had before
// it was edited is not used, but the next one is compared with it.
func (w *Writer) stored(t *Tagger, s config.Server, key string) *registry.Offer {
	if o, ok := w.Saves.store.load(key, s.Name); ok {
		o = t.doubt(s, o)
		return &o
	}
	if last := w.Saves.lastKey(s.Name); last != "" {
		if o, ok := w.Saves.store.load(last, s.Name); ok {
			w.mu.Lock()
			w.compareNext(s.Name, o)
			w.mu.Unlock()
		}
	}
	return nil
}
