package launch

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
)

// A ProbeResult is the knowledge about a server that is remembered over restarts
// of it and of the router.
type ProbeResult struct {
	Era       peer.Era         `json:"era,omitempty"`
	Transport config.Transport `json:"transport,omitempty"` // of a url that does not say
	Fetched   bool             `json:"fetched,omitempty"`   // its package is in the cache of its package runner

	// Requests that the server has sent to a client.
	AsksRoots       bool `json:"asksRoots,omitempty"` // which servers do when the session begins
	AsksSampling    bool `json:"asksSampling,omitempty"`
	AsksElicitation bool `json:"asksElicitation,omitempty"`
}

// Asked notes that the server has sent its client a request.
func (r *ProbeResult) Asked(method string) {
	switch method {
	case "roots/list":
		r.AsksRoots = true
	case "sampling/createMessage":
		r.AsksSampling = true
	case "elicitation/create":
		r.AsksElicitation = true
	}
}

// AskedOf returns the things that the server has asked for and that a client with these capabilities
// answers, such as "roots".
func (r *ProbeResult) AskedOf(capabilities json.RawMessage) (asked []string) {
	if r.AsksRoots && session.Answers(capabilities, "roots/list") {
		asked = append(asked, "roots")
	}
	if r.AsksSampling && session.Answers(capabilities, "sampling/createMessage") {
		asked = append(asked, "sampling")
	}
	if r.AsksElicitation && session.Answers(capabilities, "elicitation/create") {
		asked = append(asked, "elicitation")
	}
	return asked
}

// A Cache keeps probe results by the hash of the server's entry: in memory, and in a
// small file for each if it has a folder.
type Cache struct {
	dir string // "" keeps nothing

	mu    sync.Mutex // guards known, and the files against concurrent edits
	known map[string]ProbeResult
}

func newCache(data string) *Cache {
	c := &Cache{known: make(map[string]ProbeResult)}
	if data != "" {
		c.dir = filepath.Join(data, "probes")
	}
	return c
}

// Get returns the probe result of the entry's server.
func (c *Cache) Get(entry config.Server) ProbeResult { return c.ByHash(entry.Hash()) }

// ByHash is Get for a known hash of an entry; a hash takes time to compute.
func (c *Cache) ByHash(hash string) ProbeResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.load(hash)
}

// load returns the results. c.mu must be held.
func (c *Cache) load(hash string) ProbeResult {
	t, ok := c.known[hash]
	if ok || c.dir == "" {
		return t
	}
	t = c.read(hash)
	c.known[hash] = t
	return t
}

// read reads the result from the file.
func (c *Cache) read(hash string) (t ProbeResult) {
	if b, err := safefile.ReadOwn(filepath.Join(c.dir, hash), maxFile); err == nil && json.Unmarshal(b, &t) != nil {
		t = ProbeResult{} // damaged: the server is probed again
	}
	if t.Era != peer.LegacyEra && t.Era != peer.ModernEra && t.Era != peer.BothEras {
		t.Era = peer.UnknownEra
	}
	return t
}

// Edit changes the probe result of the entry's server. If the file can't be written, the server is
// probed again by the next router.
func (c *Cache) Edit(entry config.Server, change func(*ProbeResult)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	hash := entry.Hash()
	before := c.load(hash)
	after := before
	if change(&after); after == before {
		return
	}
	if c.dir != "" {
		after = c.read(hash) // another router may have found out more
		change(&after)
		if b, err := json.Marshal(after); err == nil && os.MkdirAll(c.dir, 0o700) == nil {
			safefile.Write(filepath.Join(c.dir, hash), b, false)
		}
	}
	c.known[hash] = after
}
