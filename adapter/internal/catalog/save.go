package catalog

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"go.uber.org/zap"

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
	store    store
	registry *registry.Registry
	log      *zap.Logger
	due      chan struct{} // holds a notice while there may be something to store
	saving   sync.Mutex    // held while offers are stored, so that the latest is stored last; taken before lock

	lock    sync.Mutex         // guards the fields below; may be taken while Writer.mu is held
	place   string             // identifies the configuration in the store; "" before load
	index   index              // as it is stored
	waiting map[string]unsaved // by server
}

// An unsaved is an offer to store under a key.
type unsaved struct {
	key   string
	offer registry.Offer
}

// load returns the stored claims of the configuration with these files, at its first call.
func (s *saver) load(files []string) registry.Claims {
	s.saving.Lock()
	defer s.saving.Unlock()
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.place != "" || len(files) == 0 {
		return nil
	}
	s.place = hash(files)
	s.index = s.store.loadIndex(s.place)
	return s.index.Claims
}

// lastKey returns the key of the server's offer that was stored last, in this run or an earlier one.
func (s *saver) lastKey(server string) string {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.index.Keys[server]
}

// put has an offer stored once there is a notice in due.
func (s *saver) put(server, key string, o registry.Offer) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.waiting[server] = unsaved{key, o}
}

// Run removes stored offers that no router has used for 90 days, and then stores offers until
// ctx ends. [saver.Rest] stores later ones.
func (s *saver) Run(ctx context.Context) {
	if err := s.store.prune(unusedTime); err != nil {
		s.log.Warn("can't remove old stored offers", zap.Error(err))
	}
	for {
		select {
		case <-s.due:
		case <-ctx.Done():
			return
		}
		signal.Within(ctx.Done(), saveDelay)
		s.Rest()
	}
}

// Rest stores the waiting offers, and logs a failure.
func (s *saver) Rest() {
	if err := s.All(); err != nil {
		s.log.Warn("can't store what servers offer; the next start will be slower", zap.Error(err))
	}
}

// All stores the waiting offers, then the keys of all, and which server has which URI.
func (s *saver) All() error {
	s.saving.Lock()
	defer s.saving.Unlock()
	s.lock.Lock()
	place, before, waiting := s.place, s.index, s.waiting
	s.waiting = make(map[string]unsaved)
	s.lock.Unlock()
	next := index{Keys: make(map[string]string), Claims: s.registry.Snapshot().Claims()}
	maps.Copy(next.Keys, before.Keys)
	var failed []error
	for server, u := range waiting {
		if err := s.store.save(u.key, server, u.offer); err != nil {
			failed = append(failed, err)
			continue
		}
		next.Keys[server] = u.key
	}
	if !maps.Equal(next.Keys, before.Keys) || !maps.Equal(next.Claims, before.Claims) {
		failed = append(failed, s.store.saveIndex(place, next))
	}
	s.lock.Lock()
	s.index = next
	s.lock.Unlock()
	return errors.Join(failed...)
}
