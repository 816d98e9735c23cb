package server

import (
	"context"
	"crypto/rand"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/server/internal/budget"
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

// Profiles say which profiles exist, and how their clients see the router. Without Exists and Edited,
// no profile exists.
type Profiles struct {
	// Open returns the router as clients see it that have chosen all of the profiles and the view, and the
	// options of its server.
	Open func(v View, chosen []string) (Router, Options)

	// View is the view of clients that choose no other.
	View View

	// Always are the profiles that every client has, besides those that it chooses.
	Always []string

	// Exists reports whether the chosen profile exists now: a profile, or one of the profiles of a
	// union such as "dev|ops". Clients choose unions by their tokens only.
	Exists func(chosen string) bool

	// Edited returns a channel that is closed when other profiles may exist.
	Edited func() <-chan struct{}

	// ReadOnly may be chosen like a profile, and allows no tool that may write; Exists knows it.
	ReadOnly string

	// Only returns what may be chosen like a profile, and allows some servers alone; nil if clients can't choose servers.
	Only func(servers ...string) string

	// Whole is the router without a profile, for those who administer it.
	Whole Router

	// Address returns the address at which other routers that serve the same clients reach this one, "" if they can't.
	// DialRouter opens a stream to one of them by its address. Both are nil without a cluster.
	Address    func() string
	DialRouter func(ctx context.Context, address string) (net.Conn, error)
}

// A View says how clients see the router that have chosen it. The zero value leaves all to the configuration.
type View struct {
	Mode  string // "auto", "direct", "search" or "code"
	Names string // "prefixed" or "bare"

	// FindTools has direct mode list find_tools, too, if the tools cost more than the configuration's toolBudget.
	FindTools bool
}

// Servers are the servers that clients of a router see: one for each set of profiles that
// clients have chosen, made when it is first needed. Clients, tasks, kept results and suspended
// calls of different servers never meet, but their bounds are common to all servers. A server ends when one of its profiles exists no more:
// its sessions over HTTP end, and its clients over stdio see nothing until the profile is back.
type Servers struct {
	Default *Server // of clients that have chosen no profile; it never changes

	profiles Profiles
	secret   string
	budget   *budget.Budget
	kept     *tools.Kept
	common   *httpd.Backends // common to all servers over HTTP
	nodes    *nodeServers    // for other nodes
	dials    chan struct{}   // holds an item for each stream to another gateway that is being opened

	mu      sync.Mutex        // guards the fields below
	byPlace map[place]*Server // those that new clients get
	retired map[*Server]bool  // those with a profile that exists no more, while they have clients
	ctx     context.Context   // of Run; nil before it
	stopped bool              // no more servers start
	running sync.WaitGroup    // the servers
}

// NewServers returns the servers of a router. They serve while [Servers.Run] runs.
func NewServers(p Profiles) *Servers {
	if p.Exists == nil {
		p.Exists = func(string) bool { return false }
	}
	if p.Edited == nil {
		p.Edited = func() <-chan struct{} { return nil }
	}
	s := &Servers{
		profiles: p, secret: rand.Text(), byPlace: make(map[place]*Server), retired: make(map[*Server]bool),
		dials: make(chan struct{}, maxDials), budget: budget.Clients(), kept: tools.NewKept(),
	}
	s.Default = s.add(place{p.View, strings.Join(p.Always, "+")}, p.Always)
	s.nodes = newNodeServers(s.Default.log)
	s.common = &httpd.Backends{
		Of: func(chosen ...string) (*httpd.Backend, bool) {
			server, ok := s.of(chosen...)
			if !ok {
				return nil, false
			}
			return server.backend, true
		},
		All: func() (all []*httpd.Backend) {
			for _, server := range s.all() {
				all = append(all, server.backend)
			}
			return all
		},
		Limited: len(p.Always) > 0, ReadOnly: p.ReadOnly, Only: p.Only, Whole: p.Whole, Node: execute.Node(), Version: s.Default.opts.Version, Started: time.Now(), Log: s.Default.log,
	}
	return s
}

// of is Seen for clients that have chosen no view.
func (s *Servers) of(chosen ...string) (*Server, bool) { return s.Seen(s.profiles.View, chosen...) }

// Seen returns the server of clients that have chosen the view and all of these, in any order: profiles, unions
// of profiles, and the ReadOnly of [Profiles]. It reports false if one of them does not exist.
func (s *Servers) Seen(v View, chosen ...string) (*Server, bool) {
	if len(chosen) == 0 && v == s.profiles.View {
		return s.Default, true
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
	at := place{v, strings.Join(chosen, "+")}
	s.mu.Lock()
	defer s.mu.Unlock()
	server := s.byPlace[at]
	if server == nil {
		s.makeRoom()
		server = s.add(at, slices.Clone(chosen))
	}
	server.last = time.Now()
	return server, true
}

// A place is the place of a server among the others: what its clients have chosen.
type place struct {
	view View
	key  string // the profiles, joined by "+"
}

// add makes the server of the profiles, and runs it if the others run. s.mu must be held, unless
// it is the first.
func (s *Servers) add(at place, chosen []string) *Server {
	r, o := s.profiles.Open(at.view, chosen)
	server := newServer(s, at, r, o)
	server.chosen = chosen
	s.byPlace[at] = server
	s.start(server)
	return server
}

// start runs the server if the others run. s.mu must be held.
func (s *Servers) start(server *Server) {
	if s.ctx == nil || s.stopped {
		return
	}
	ctx, end := context.WithCancel(s.ctx)
	server.end = end
	s.running.Go(func() {
		defer end()
		server.notifier.run(ctx)
		server.tools.Close()
		if s.ctx.Err() == nil { // only this server ends
			server.clients.End()
			server.tools.Clear()
		}
	})
}

// makeRoom drops the servers that were not used for the longest and are not busy, until there is
// room for one more. s.mu must be held.
func (s *Servers) makeRoom() {
	for len(s.byPlace) > maxServers {
		var oldest *Server
		for _, server := range s.byPlace {
			if server != s.Default && (oldest == nil || server.last.Before(oldest.last)) && !server.isBusy() {
				oldest = server
			}
		}
		if oldest == nil {
			return // each has a client, and clients are bounded
		}
		s.drop(oldest)
	}
}

// drop takes out a server. s.mu must be held.
func (s *Servers) drop(server *Server) {
	delete(s.byPlace, server.place)
	s.retired[server] = true
	server.retire()
	s.endIfLeft(server)
}

// endIfLeft ends a server that was taken out if it has no clients. s.mu must be held.
func (s *Servers) endIfLeft(server *Server) {
	if !s.retired[server] || server.clients.Any() {
		return
	}
	delete(s.retired, server)
	if server.end != nil {
		server.end()
	}
}

// Run notifies clients of changes, until ctx ends. It must run while clients are served.
func (s *Servers) Run(ctx context.Context) error {
	defer s.nodes.end(0)
	defer s.running.Wait()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stopped = true
	}()
	s.mu.Lock()
	s.ctx = ctx
	for _, server := range s.byPlace {
		s.start(server)
	}
	s.mu.Unlock()
	for {
		edited := s.profiles.Edited()
		s.sweep()
		s.nodes.abandonRevoked()
		s.nodes.end(idleTime)
		select {
		case <-edited:
		case <-time.After(idleTime):
		case <-ctx.Done():
			return nil
		}
	}
}

// sweep takes out the servers of profiles that exist no more; and those that were not used for long
// and are not busy, with their views of the catalog: they are made again when they are needed.
func (s *Servers) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, server := range s.byPlace {
		idle := time.Since(server.last) >= idleTime && !server.isBusy()
		if server != s.Default && (idle || slices.ContainsFunc(server.chosen, func(profile string) bool { return !s.profiles.Exists(profile) })) {
			s.drop(server)
		}
	}
}

// all returns all servers, also those with profiles that exist no more.
func (s *Servers) all() []*Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.AppendSeq(slices.Collect(maps.Values(s.byPlace)), maps.Keys(s.retired))
}

// A Client is a client that a router serves.
type Client struct {
	conversation.ClientInfo
	Profile string `json:"-"`    // the profiles that it has chosen, joined by "+", such as "@read+dev|ops"; may be ""
	Mode    string `json:"mode"` // "direct", "search" or "code"
}

// Clients returns the clients of all servers, in no order: those with a session, and those
// without one that sent a request in the last 10 minutes.
func (s *Servers) Clients() []Client {
	var all []Client
	for _, server := range s.all() {
		for _, info := range server.clients.Infos() {
			all = append(all, Client{info, server.key, server.mode()})
		}
	}
	return all
}

// Handler returns a handler of MCP over HTTP for the clients of all profiles, which serves while
// [Servers.Run] runs.
func (s *Servers) Handler(o HTTPOptions) *httpd.Handler { return httpd.New(s.common, o) }
