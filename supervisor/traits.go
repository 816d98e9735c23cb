package supervisor

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/atomicfile"
)

// Traits are what was found out about a server and is worth remembering over
// restarts, of it and of the router.
type traits struct {
	Era       era              `json:"era,omitempty"`
	Transport config.Transport `json:"transport,omitempty"` // of a url that does not say
	Asks      bool             `json:"asks,omitempty"`      // the server has asked its client for something
	Fetched   bool             `json:"fetched,omitempty"`   // its package is here, if its command fetches one
	AsksRoots bool             `json:"asksRoots,omitempty"` // for its roots, which servers do when the session begins
}

// A traitStore keeps traits by the hash of the server's entry: in memory, and in
// a small file for each if there is a folder to keep them in.
type traitStore struct {
	dir string // "" keeps nothing

	mu    sync.Mutex
	known map[string]traits
}

func newTraitStore(data string) *traitStore {
	s := &traitStore{known: make(map[string]traits)}
	if data != "" {
		s.dir = filepath.Join(data, "traits")
	}
	return s
}

func (s *traitStore) get(entry config.Server) traits { return s.of(entry.Hash()) }

// of is get for the entry with the hash, which takes time to compute.
func (s *traitStore) of(hash string) traits {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.load(hash)
}

// load returns what is known. s.mu must be held.
func (s *traitStore) load(hash string) traits {
	t, ok := s.known[hash]
	if ok || s.dir == "" {
		return t
	}
	if b, err := os.ReadFile(filepath.Join(s.dir, hash)); err == nil && json.Unmarshal(b, &t) != nil {
		t = traits{} // damaged: it is found out again
	}
	if t.Era != legacyEra && t.Era != modernEra {
		t.Era = unknownEra
	}
	s.known[hash] = t
	return t
}

// edit changes what is known.
func (s *traitStore) edit(entry config.Server, change func(*traits)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hash := entry.Hash()
	before := s.load(hash)
	after := before
	if change(&after); after == before {
		return
	}
	delete(s.known, hash) // another router may have found out more
	after = s.load(hash)
	change(&after)
	s.known[hash] = after
	if s.dir == "" || os.MkdirAll(s.dir, 0o700) != nil {
		return
	}
	if b, err := json.Marshal(after); err == nil {
		atomicfile.Write(filepath.Join(s.dir, hash), b, false) // if it fails, it is found out again
	}
}
