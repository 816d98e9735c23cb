package adapter

import (
	"context"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/registry"
)

// saveAfter is how long what a server lists is not stored yet. Servers mostly start together, and
// to encode and write their offers would delay those that are not listed.
const saveAfter = 300 * time.Millisecond

// An unsaved is an offer that is to be stored, and its key.
type unsaved struct {
	key   string
	offer registry.Offer
}

// saveSoon has [catalogWriter.runSaves] store what is not stored.
func (w *catalogWriter) saveSoon() {
	signal.Leave(w.toSave)
}

// runSaves stores what the servers list, until ctx ends. What is listed after that, saveRest stores.
func (w *catalogWriter) runSaves(ctx context.Context) {
	for {
		select {
		case <-w.toSave:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(saveAfter):
		case <-ctx.Done():
		}
		w.saveAll()
	}
}

// saveRest stores what is not stored when the router ends.
func (w *catalogWriter) saveRest() {
	select {
	case <-w.toSave:
		w.saveAll()
	default:
	}
}

// saveAll stores all offers that are not stored, and then which keys they have and which URIs are
// whose.
func (w *catalogWriter) saveAll() {
	w.saving.Lock()
	defer w.saving.Unlock()
	w.mu.Lock()
	servers := slices.Sorted(maps.Keys(w.unsaved))
	w.mu.Unlock()
	stored := false
	for _, server := range servers {
		changed, err := w.saveOne(server)
		stored = stored || changed
		if err != nil {
			w.log.Warn("can't store what the server offers; the next start will be slower", zap.String("server", server), zap.Error(err))
		}
	}
	if stored {
		w.mu.Lock()
		place, keys := w.place, maps.Clone(w.keys)
		w.mu.Unlock()
		if err := w.store.SaveKeys(place, keys); err != nil {
			w.log.Warn("the next start may not see which tools changed", zap.Error(err))
		}
	}
	w.saveClaims()
}

// saveNow stores the server's offer, if it is not stored.
func (w *catalogWriter) saveNow(server string) error {
	w.saving.Lock()
	defer w.saving.Unlock()
	_, err := w.saveOne(server)
	if err != nil {
		return err
	}
	w.saveSoon() // the keys
	return nil
}

// saveOne stores the server's offer, if it is not stored, and reports whether it has another key
// than that which was stored before. w.saving must be held.
func (w *catalogWriter) saveOne(server string) (otherKey bool, err error) {
	w.mu.Lock()
	u, ok := w.unsaved[server]
	delete(w.unsaved, server)
	w.mu.Unlock()
	if !ok {
		return false, nil
	}
	if err := w.store.Save(u.key, server, u.offer); err != nil {
		return false, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	otherKey = w.keys[server] != u.key
	w.keys[server] = u.key
	return otherKey, nil
}

// saveClaims stores which server has which URI, if that changed.
func (w *catalogWriter) saveClaims() {
	claims := w.registry.Snapshot().Claims()
	w.mu.Lock()
	place, same := w.place, maps.Equal(claims, w.saved)
	w.saved = claims
	w.mu.Unlock()
	if same {
		return
	}
	if err := w.store.SaveClaims(place, claims); err != nil {
		w.log.Warn("the next start may give a resource's URI to another server", zap.Error(err))
	}
}
