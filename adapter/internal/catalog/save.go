package catalog

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter/internal/offerstore"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/registry"
)

const (
	// saveDelay is the time from a list to its storage. Servers mostly start together, and encoding
	// and writing their offers would delay the servers that are not listed yet.
	saveDelay = 300 * time.Millisecond

	// unusedTime is how long a stored offer is kept that no router uses: each edit of an entry
	// stores the offer under another key.
	unusedTime = 90 * 24 * time.Hour
)

// A saver stores offers, a moment after they were listed.
type saver struct {
	store    *offerstore.Store
	registry *registry.Registry
	log      *zap.Logger
	due      chan struct{} // holds a notice while there may be something to store
	saving   sync.Mutex    // held while offers are stored, so that the latest is stored last; taken before lock

	lock    sync.Mutex         // guards the fields below; may be taken while Writer.mu is held
	place   string             // identifies the configuration in the store; "" before load
	claims  registry.Claims    // as they are stored
	keys    map[string]string  // server -> the key of its offer that was stored last, in this run or an earlier one
	waiting map[string]unsaved // by server
}

// An unsaved is an offer to store under a key.
type unsaved struct {
	key   string
	offer registry.Offer
}

// load returns the stored claims of the configuration with these files, at its first call.
func (s *saver) load(files []string) (claims registry.Claims) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.place != "" || len(files) == 0 {
		return nil
	}
	s.place = hash(files)
	s.claims = s.store.LoadClaims(s.place)
	maps.Copy(s.keys, s.store.LoadKeys(s.place))
	return s.claims
}

// lastKey returns the key of the server's offer that was stored last.
func (s *saver) lastKey(server string) string {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.keys[server]
}

// put has an offer stored once notify is called.
func (s *saver) put(server, key string, o registry.Offer) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.waiting[server] = unsaved{key, o}
}

// notify has [saver.Run] store the waiting offers, and the claims.
func (s *saver) notify() { signal.Leave(s.due) }

// Run removes stored offers that no router has used for 90 days, and then stores offers until
// ctx ends. [saver.Rest] stores later ones.
func (s *saver) Run(ctx context.Context) {
	if err := s.store.Prune(unusedTime); err != nil {
		s.log.Warn("can't remove old stored offers", zap.Error(err))
	}
	for {
		select {
		case <-s.due:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(saveDelay):
		case <-ctx.Done():
		}
		s.All()
	}
}

// Rest stores the waiting offers when the router ends.
func (s *saver) Rest() {
	select {
	case <-s.due:
		s.All()
	default:
	}
}

// All stores the waiting offers, then the keys of all, and which server has which URI.
func (s *saver) All() {
	s.saving.Lock()
	defer s.saving.Unlock()
	s.lock.Lock()
	servers := slices.Sorted(maps.Keys(s.waiting))
	s.lock.Unlock()
	stored := false
	for _, server := range servers {
		changed, err := s.one(server)
		stored = stored || changed
		if err != nil {
			s.log.Warn("can't store what the server offers; the next start will be slower", zap.String("server", server), zap.Error(err))
		}
	}
	if stored {
		s.lock.Lock()
		place, keys := s.place, maps.Clone(s.keys)
		s.lock.Unlock()
		if err := s.store.SaveKeys(place, keys); err != nil {
			s.log.Warn("the next start may not see which tools changed", zap.Error(err))
		}
	}
	s.saveClaims()
}

// now stores the server's offer, if it waits.
func (s *saver) now(server string) error {
	s.saving.Lock()
	defer s.saving.Unlock()
	_, err := s.one(server)
	if err == nil {
		s.notify() // the keys
	}
	return err
}

// one stores the server's offer, if it waits, and reports whether its key differs from the key
// that was stored before. s.saving must be held.
func (s *saver) one(server string) (otherKey bool, err error) {
	s.lock.Lock()
	u, ok := s.waiting[server]
	delete(s.waiting, server)
	s.lock.Unlock()
	if !ok {
		return false, nil
	}
	if err := s.store.Save(u.key, server, u.offer); err != nil {
		return false, err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	otherKey = s.keys[server] != u.key
	s.keys[server] = u.key
	return otherKey, nil
}

// saveClaims stores which server has which URI, if that changed.
func (s *saver) saveClaims() {
	claims := s.registry.Snapshot().Claims()
	s.lock.Lock()
	place, same := s.place, maps.Equal(claims, s.claims)
	s.claims = claims
	s.lock.Unlock()
	if same {
		return
	}
	if err := s.store.SaveClaims(place, claims); err != nil {
		s.log.Warn("the next start may give a resource's URI to another server", zap.Error(err))
	}
}
