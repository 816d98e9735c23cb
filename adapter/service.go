package adapter

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// services are the servers of other nodes whose entries name a service. Those that offer the same
// are replicas of one server, which the catalog has once:
//
//   - With an entry of this router's own that names the service, they are replicas of that one, and
//     the catalog has it under its own name.
//   - Without one, the catalog has them under the name of the service. It has that from the first
//     replica on, so that clients see no other name when a second one comes or goes. If an entry
//     has the name, they keep their own.
//
// A server that offers something else has its own name, such as gpu@box, and is no replica.
type services struct {
	current *holder
	writer  *catalogWriter
	load    func(replica string) (calls, limit int, heard uint64)
	keeps   func(server string, home session.Client) bool
	log     *zap.Logger

	mu     sync.Mutex            // guards the fields below
	known  map[string]*announced // by the names of the servers
	listed map[string]string     // what of it the catalog has: the sums, by names
	own    map[string]ownSum     // by the names of entries

	now atomic.Pointer[grouping] // nil without a server that names a service
}

// An announced server is one of another node that names a service.
type announced struct {
	entry   config.Server
	session session.Session
	sum     string // of what it offers
}

// An ownSum is the sum of what a server of this router offers, and what that was made of.
type ownSum struct {
	listing registry.Listing
	sum     string
}

// A grouping says which servers are replicas of which service. It is immutable.
type grouping struct {
	services map[string]*execute.Service // by the names that the catalog has
	of       map[string]string           // replica on another node -> name of the service
	problems map[string]string           // server -> why it is no replica

	sums    map[string]string // what the catalog has of servers on other nodes, by name
	sources map[string]string // whose definitions these are
}

// newServices returns the services of a router. load returns how busy a server of another node is.
func newServices(r *Router, load func(server string) (calls, limit int, heard uint64)) *services {
	return &services{
		current: r.current, writer: r.writer, log: r.options.Log.Named("cluster"),
		keeps: r.supervisor.Keeps, load: load,
		known: make(map[string]*announced), listed: make(map[string]string), own: make(map[string]ownSum),
	}
}

// learn is [cluster.Handler.Learn] for a server that names a service.
func (s *services) learn(ctx context.Context, entry config.Server, listing session.Session) error {
	sum, err := sumOf(ctx, listing)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[entry.Name] = &announced{entry, listing, sum}
	return s.reconcile(ctx)
}

// forget forgets a server. It reports false if it is not known to name a service.
func (s *services) forget(server string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[server] == nil {
		return false
	}
	delete(s.known, server)
	s.logFailure(s.reconcile(context.Background()))
	return true
}

// clear forgets all servers.
func (s *services) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.known)
	s.logFailure(s.reconcile(context.Background()))
}

// follow compares the servers again after each change of this router's own ones, until ctx ends.
func (s *services) follow(ctx context.Context, changed func() <-chan struct{}) {
	for {
		next := changed()
		s.mu.Lock()
		if len(s.known) > 0 {
			s.logFailure(s.reconcile(ctx))
		}
		s.mu.Unlock()
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}

func (s *services) logFailure(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		s.log.Warn("can't put servers of other nodes into the catalog", zap.Error(err))
	}
}

// reconcile has the catalog and the calls follow what is known. s.mu must be held.
func (s *services) reconcile(ctx context.Context) error {
	before, next := s.grouping(), s.group()
	s.logProblems(before, next)
	if len(s.known) == 0 {
		s.now.Store(nil)
	} else {
		s.now.Store(next)
	}
	var failed []error
	for _, name := range slices.Sorted(maps.Keys(next.sums)) {
		if s.listed[name] == next.sums[name] {
			continue
		}
		source := s.known[next.sources[name]]
		entry := source.entry
		entry.Name = name
		if err := s.writer.learnOther(ctx, entry, source.session); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
			continue
		}
		s.listed[name] = next.sums[name]
	}
	for name := range s.listed {
		if _, ok := next.sums[name]; ok {
			continue
		}
		delete(s.listed, name)
		if !s.current.load().has(name) {
			s.writer.forgetOther(name)
		}
	}
	return errors.Join(failed...)
}

func (s *services) logProblems(before, next *grouping) {
	for _, server := range slices.Sorted(maps.Keys(next.problems)) {
		if problem := next.problems[server]; problem != before.problems[server] {
			s.log.Warn("a server of another node is not used as the service that its entry names", zap.String("server", server), zap.String("reason", problem))
		}
	}
}

// group returns which servers are replicas, and what the catalog has of them. s.mu must be held.
func (s *services) group() *grouping {
	g := &grouping{
		services: make(map[string]*execute.Service), of: make(map[string]string), problems: make(map[string]string),
		sums: make(map[string]string), sources: make(map[string]string),
	}
	byService := make(map[string][]string)
	for _, server := range slices.Sorted(maps.Keys(s.known)) {
		service := s.known[server].entry.Service
		byService[service] = append(byService[service], server)
	}
	setup := s.current.load()
	for _, service := range slices.Sorted(maps.Keys(byService)) {
		i := slices.IndexFunc(setup.config.Servers, func(entry config.Server) bool {
			return entry.Service == service && supervisor.Startable(entry)
		})
		switch {
		case i >= 0:
			s.groupWith(g, setup.config.Servers[i].Name, byService[service])
		case setup.has(service):
			for _, server := range byService[service] {
				g.single(server, s.known[server].sum, fmt.Sprintf("an entry of this router has the name %q, but not \"service\": %q", service, service))
			}
		default:
			s.groupOthers(g, service, byService[service])
		}
	}
	return g
}

// groupWith adds servers that name the service of an entry. s.mu must be held.
func (s *services) groupWith(g *grouping, own string, servers []string) {
	sum := s.sumOfOwn(own)
	var equal []string
	for _, server := range servers {
		switch {
		case sum == s.known[server].sum:
			equal = append(equal, server)
		case sum == "":
			g.single(server, s.known[server].sum, "") // until the own server was listed
		default:
			g.single(server, s.known[server].sum, fmt.Sprintf("its tools, prompts and resources are not those of %q on this node", own))
		}
	}
	s.add(g, own, own, equal)
}

// groupOthers adds the servers of a service that this router does not have itself: those that offer
// what the catalog has already, or else what most of them offer. s.mu must be held.
func (s *services) groupOthers(g *grouping, service string, servers []string) {
	count := make(map[string]int)
	for _, server := range servers {
		count[s.known[server].sum]++
	}
	sum := s.listed[service]
	if count[sum] == 0 {
		sum = slices.MaxFunc(slices.Sorted(maps.Keys(count)), func(a, b string) int { return cmp.Compare(count[a], count[b]) })
	}
	var equal []string
	for _, server := range servers {
		if s.known[server].sum == sum {
			equal = append(equal, server)
		} else {
			g.single(server, s.known[server].sum, fmt.Sprintf("its tools, prompts and resources are not those of the other servers of the service %q", service))
		}
	}
	g.sums[service], g.sources[service] = sum, equal[0]
	s.add(g, service, "", equal)
}

// add adds a service. own is its replica on this router, "" if there is none.
func (s *services) add(g *grouping, name, own string, others []string) {
	if len(others) == 0 {
		return
	}
	g.services[name] = &execute.Service{
		Own: own, Others: others, Load: s.load,
		Keeps: func(home session.Client) bool { return s.keeps(own, home) },
	}
	for _, server := range others {
		g.of[server] = name
	}
}

// single adds a server that is no replica, with the sum of what it offers.
func (g *grouping) single(server, sum, problem string) {
	g.sums[server], g.sources[server] = sum, server
	if problem != "" {
		g.problems[server] = problem
	}
}

// sumOfOwn returns the sum of what a server of this router offers, "" if that is not known. s.mu
// must be held.
func (s *services) sumOfOwn(server string) string {
	listing := s.writer.registry.Snapshot().Offer(server)
	if listing.Capabilities == nil && len(listing.Tools) == 0 {
		return ""
	}
	if last, ok := s.own[server]; ok && sameItems(last.listing, listing) {
		return last.sum
	}
	o := clusterOffer(listing)
	sum := sumOfItems(o.Tools, o.Prompts, o.Resources, o.Templates)
	s.own[server] = ownSum{listing, sum}
	return sum
}

// sumOf returns the sum of what an announced server offers.
func sumOf(ctx context.Context, listing session.Session) (string, error) {
	var all [][]json.RawMessage
	for _, list := range [][2]string{
		{"tools/list", "tools"}, {"prompts/list", "prompts"}, {"resources/list", "resources"}, {"resources/templates/list", "resourceTemplates"},
	} {
		raw, err := listing.Call(ctx, session.Request{Method: list[0]})
		if err != nil {
			return "", err
		}
		var items []json.RawMessage
		if err := json.Unmarshal(wire.Member(raw, list[1]), &items); err != nil {
			return "", fmt.Errorf("%s: %w", list[0], err)
		}
		all = append(all, items)
	}
	return sumOfItems(all...), nil
}

// sumOfItems returns a hash of lists of definitions. It does not depend on the order in a list, nor on
// how the same definition is written.
func sumOfItems(lists ...[]json.RawMessage) string {
	hash := sha256.New()
	for _, items := range lists {
		lines := make([][]byte, len(items))
		for i, item := range items {
			lines[i], _ = json.Marshal(item) // escapes alike; what is no JSON can't be listed
		}
		slices.SortFunc(lines, bytes.Compare)
		for _, line := range lines {
			hash.Write(append(line, '\n'))
		}
		hash.Write([]byte{'\n'})
	}
	return hex.EncodeToString(hash.Sum(nil))
}
