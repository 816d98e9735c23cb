package server

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/server/internal/httpd"
	"github.com/mcp-metarouter/metarouter/server/internal/tools"
)

const (
	// maxServers bounds the servers of profiles that are kept while they are not busy.
	maxServers = 256

	// idleTime is how long a server of profiles is kept after its last use: longer than it keeps
	// anything for a client without a session.
	idleTime = time.Hour
)

// Profiles say which profiles there are, and what their clients see. Without Exists and Edited,
// there are none.
type Profiles struct {
	// Open returns the router as clients see it that have chosen all of the profiles, and the
	// options of its server.
	Open func(chosen []string) (Router, Options)

	// Always are the profiles that every client has, besides those that it chooses.
	Always []string

	// Exists reports whether there is now what was chosen: a profile, or one of the profiles of a
	// union such as "dev|ops". Clients choose unions by their tokens only.
	Exists func(chosen string) bool

	// Edited returns a channel that is closed when other profiles may exist.
	Edited func() <-chan struct{}

	// ReadOnly may be chosen like a profile, and allows no tool that may write; Exists knows it.
	ReadOnly string

	// Whole is the router without a profile, for those who administer it.
	Whole Router
}

// Servers are the servers that clients of a router see: one for each set of profiles that
// clients have chosen, made when it is first needed. Clients, tasks, kept results and suspended
// calls of different servers never meet, but their bounds are common to all servers. A server ends when one of its profiles exists no more:
// its sessions over HTTP end, and its clients over stdio see nothing until the profile is back.
type Servers struct {
	profiles Profiles
	secret   []byte
	bounds   *bounds
	common   *httpd.Backends // what all servers have in common over HTTP
	base     *member

	mu      sync.Mutex         // guards what follows
	byKey   map[string]*member // those that new clients get
	retired map[*member]bool   // those of profiles that exist no more, while they have clients
	uses    uint64
	ctx     context.Context // of Run; nil before it
	stopped bool            // no more servers start
	running sync.WaitGroup  // the servers
}

// A member is one of the servers.
type member struct {
	*Server
	key    string
	chosen []string
	used   uint64    // the count of uses at the last use; guarded by mu of Servers, as what follows
	last   time.Time // of the last use

	end context.CancelFunc // ends the server's Run; nil before Run

	retire context.CancelFunc // ends the sessions over HTTP
}

// busy reports whether a client of the server has a session or waits for changes.
func (m *member) busy() bool { return m.clients.Any() || m.notifier.subscriptions.any() }

// NewServers returns the servers of a router. They serve while [Servers.Run] runs.
func NewServers(p Profiles) *Servers {
	if p.Exists == nil {
		p.Exists = func(string) bool { return false }
	}
	if p.Edited == nil {
		p.Edited = func() <-chan struct{} { return nil }
	}
	s := &Servers{profiles: p, secret: newSecret(), bounds: newBounds(), byKey: make(map[string]*member), retired: make(map[*member]bool)}
	s.base = s.add(strings.Join(p.Always, "+"), p.Always)
	s.common = &httpd.Backends{
		Of: func(chosen ...string) (*httpd.Backend, bool) {
			server, ok := s.Of(chosen...)
			if !ok {
				return nil, false
			}
			return server.backend, true
		},
		All: func() (all []*httpd.Backend) {
			for _, m := range s.members() {
				all = append(all, m.backend)
			}
			return all
		},
		Limited: len(p.Always) > 0, ReadOnly: p.ReadOnly, Whole: p.Whole, Node: s.base.node, Version: s.base.opts.Version, Started: s.base.started, Log: s.base.log,
	}
	return s
}

// Of returns the server of clients that have chosen all of these, in any order: profiles, unions
// of profiles, and the ReadOnly of [Profiles]. It reports false if one of them does not exist.
func (s *Servers) Of(chosen ...string) (*Server, bool) {
	if len(chosen) == 0 {
		return s.base.Server, true
	}
	chosen = slices.Concat(chosen, s.profiles.Always)
	for _, profile := range chosen {
		if !s.profiles.Exists(profile) {
			return nil, false
		}
	}
	if len(chosen) > 1 {
		chosen = slices.Compact(slices.Sorted(slices.Values(chosen)))
	}
	key := strings.Join(chosen, "+")
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.byKey[key]
	if m == nil {
		s.makeRoom()
		m = s.add(key, slices.Clone(chosen))
	}
	s.uses++
	m.used, m.last = s.uses, time.Now()
	return m.Server, true
}

// Default returns the server of clients that have chosen no profile.
func (s *Servers) Default() *Server { return s.base.Server }

// add makes the server of the profiles, and runs it if the others run. s.mu must be held, unless
// it is the first.
func (s *Servers) add(key string, chosen []string) *member {
	r, o := s.profiles.Open(chosen)
	m := &member{key: key, chosen: chosen}
	retired, retire := context.WithCancel(context.Background())
	m.retire = retire
	m.Server = newServer(r, o, family{
		profile: key, secret: derived(s.secret, key), bounds: s.bounds, retired: retired,
		others: func() bool {
			return slices.ContainsFunc(s.members(), func(other *member) bool { return other != m && other.clients.Any() })
		},
		left: func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.endIfLeft(m)
		},
		everyone: func() (all []*conversation.Conversation) {
			for _, other := range s.members() {
				if other != m {
					all = append(all, other.clients.All()...)
				}
			}
			return all
		},
	})
	s.byKey[key] = m
	s.start(m)
	return m
}

// start runs the server if the others run. s.mu must be held.
func (s *Servers) start(m *member) {
	if s.ctx == nil || s.stopped {
		return
	}
	ctx, end := context.WithCancel(s.ctx)
	m.end = end
	s.running.Go(func() {
		defer end()
		m.run(ctx)
		if s.ctx.Err() == nil { // only this server ends
			m.clients.End()
			m.tools.Clear()
		}
	})
}

// makeRoom drops the servers that were not used for the longest and are not busy, until there is
// room for one more. s.mu must be held.
func (s *Servers) makeRoom() {
	for len(s.byKey) > maxServers {
		var oldest *member
		for _, m := range s.byKey {
			if m != s.base && (oldest == nil || m.used < oldest.used) && !m.busy() {
				oldest = m
			}
		}
		if oldest == nil {
			return // each has a client, and clients are bounded
		}
		s.drop(oldest)
	}
}

// drop takes out a server. s.mu must be held.
func (s *Servers) drop(m *member) {
	delete(s.byKey, m.key)
	s.retired[m] = true
	m.retire()
	s.endIfLeft(m)
}

// endIfLeft ends a server that was taken out if it has no clients. s.mu must be held.
func (s *Servers) endIfLeft(m *member) {
	if !s.retired[m] || m.clients.Any() {
		return
	}
	delete(s.retired, m)
	if m.end != nil {
		m.end()
	}
}

// Run notifies clients of changes, until ctx ends. It must run while clients are served.
func (s *Servers) Run(ctx context.Context) error {
	defer s.await()
	s.mu.Lock()
	s.ctx = ctx
	for _, m := range s.byKey {
		s.start(m)
	}
	s.mu.Unlock()
	for {
		edited := s.profiles.Edited()
		s.sweep()
		select {
		case <-edited:
		case <-time.After(idleTime):
		case <-ctx.Done():
			return nil
		}
	}
}

// await lets no more servers start, and waits for those that run.
func (s *Servers) await() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.running.Wait()
}

// sweep takes out the servers of profiles that exist no more; and those that were not used for long
// and are not busy, with what they know of the catalog: they are made again when they are needed.
func (s *Servers) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.byKey {
		idle := time.Since(m.last) >= idleTime && !m.busy()
		if m != s.base && (idle || slices.ContainsFunc(m.chosen, func(profile string) bool { return !s.profiles.Exists(profile) })) {
			s.drop(m)
		}
	}
}

// members returns all servers, also those of profiles that exist no more.
func (s *Servers) members() []*member {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*member, 0, len(s.byKey)+len(s.retired))
	for _, m := range s.byKey {
		all = append(all, m)
	}
	for m := range s.retired {
		all = append(all, m)
	}
	return all
}

// A Client is a client that a router serves.
type Client struct {
	conversation.Known
	Profile string // what it has chosen, joined by "+", such as "@read+dev|ops"; "" for none
	Mode    string // "direct" or "search"
}

// Clients returns the clients of all servers, in no order: those with a session, and those
// without one that sent a request in the last 10 minutes.
func (s *Servers) Clients() []Client {
	var all []Client
	for _, m := range s.members() {
		known := m.clients.Known()
		if len(known) == 0 {
			continue
		}
		mode := m.Mode()
		for _, k := range known {
			all = append(all, Client{k, m.key, mode})
		}
	}
	return all
}

// Handler returns a handler of MCP over HTTP for the clients of all profiles, which serves while
// [Servers.Run] runs.
func (s *Servers) Handler(o HTTPOptions) *httpd.Handler { return httpd.New(s.common, o) }

// A family is what a server shares with the others of its router.
type family struct {
	profile  string                              // the profiles that the clients have chosen, joined by "+"
	secret   []byte                              // of this server
	bounds   *bounds                             // common to all
	retired  context.Context                     // ends when one of the profiles exists no more
	others   func() bool                         // reports whether another server has clients with a session
	left     func()                              // called when a client with a session has left
	everyone func() []*conversation.Conversation // returns the clients of the other servers that have a session
}

// bounds are those of what the servers of one router keep together.
type bounds struct {
	clients       *conversation.Budgets
	tools         *tools.Budgets
	subscriptions *subscriptionQuotas
}

func newBounds() *bounds {
	return &bounds{conversation.NewBudgets(), tools.NewBudgets(), newSubscriptionQuotas()}
}

// newSecret returns a secret that this router alone knows.
func newSecret() []byte {
	secret := make([]byte, sha256.Size)
	rand.Read(secret)
	return secret
}

// derived returns the secret of the server with the key.
func derived(secret []byte, key string) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(key))
	return mac.Sum(nil)
}
