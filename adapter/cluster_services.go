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
)

// services write the lists of servers of other nodes to the catalog, and are the [cluster.Handler].
// Servers of one service with equal lists are replicas of one server, which the catalog has once:
//
//   - If an entry of this router names the service, they are replicas of that server, and the
//     catalog has it under the entry's name.
//   - Else the catalog has them under the name of the service, from the first replica on, so that
//     clients see no other name when a second one comes or goes. If an entry has the name, they
//     keep their own.
//
// A server with another list has its own name, such as gpu@box, and is no replica.
type services struct {
	router *Router
	log    *zap.Logger

	mu     sync.Mutex            // guards the fields below
	plain  map[string]bool       // servers without a service
	known  map[string]*announced // servers with a service, by their names
	listed map[string]string     // sums of the lists in the catalog, by name

	now atomic.Pointer[grouping] // nil without a server that names a service
}

// An announced server is one of another node that names a service.
type announced struct {
	entry   config.Server
	session session.Session
	sum     string // of its lists
}

// A grouping says which servers are replicas of which service. It is immutable.
type grouping struct {
	services map[string]*execute.Service // by the names that the catalog has
	of       map[string]string           // replica on another node -> name of the service
	problems map[string]string           // server -> why it is no replica

	sources map[string]string // the servers of other nodes whose lists the catalog is to have, by name there
}

// Learn implements [cluster.Handler].
func (s *services) Learn(ctx context.Context, entry config.Server, listing session.Session) error {
	if s.router.current.load().has(entry.Name) {
		s.log.Warn("an entry of the configuration has the name of a server on another node, which is not used; rename the entry", zap.String("server", entry.Name))
		return nil
	}
	if entry.Service == "" || config.Check("mcpServers.*.service", entry.Service) != nil {
		s.mu.Lock()
		s.forgetReplica(entry.Name)
		s.plain[entry.Name] = true
		s.mu.Unlock()
		return s.router.writer.LearnOther(ctx, entry, listing)
	}
	sum, err := sumOf(ctx, listing)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err = cmp.Or(err, context.Cause(ctx)); err != nil { // it may be forgotten by now
		return err
	}
	s.forgetPlain(entry.Name)
	s.known[entry.Name] = &announced{entry, listing, sum}
	return s.reconcile(ctx)
}

// Forget implements [cluster.Handler].
func (s *services) Forget(server string) {
	s.router.members.remotes().Forget(server)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetReplica(server)
	s.forgetPlain(server)
}

// clear forgets all servers.
func (s *services) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.known)
	s.logFailure(s.reconcile(context.Background()))
	for server := range s.plain {
		s.forgetPlain(server)
	}
}

// forgetReplica forgets a server, if it is known to name a service. s.mu must be held.
func (s *services) forgetReplica(server string) {
	if s.known[server] != nil {
		delete(s.known, server)
		s.logFailure(s.reconcile(context.Background()))
	}
}

// forgetPlain forgets a server, if it is known to name no service. s.mu must be held.
func (s *services) forgetPlain(server string) {
	if s.plain[server] && !s.router.current.load().has(server) {
		s.router.writer.Forget(server)
	}
	delete(s.plain, server)
}

// follow compares the servers again after each change of this router's own ones, until ctx ends.
func (s *services) follow(ctx context.Context) {
	for {
		next := s.router.changed.Next()
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

// reconcile updates the catalog and the replicas for calls. s.mu must be held.
func (s *services) reconcile(ctx context.Context) error {
	before, next := s.grouping(), s.group()
	for _, server := range slices.Sorted(maps.Keys(next.problems)) {
		if problem := next.problems[server]; problem != before.problems[server] {
			s.log.Warn("a server of another node is not used as the service that its entry names", zap.String("server", server), zap.String("reason", problem))
		}
	}
	if len(s.known) == 0 {
		s.now.Store(nil)
	} else {
		s.now.Store(next)
	}
	var failed []error
	for _, name := range slices.Sorted(maps.Keys(next.sources)) {
		source := s.known[next.sources[name]]
		if s.listed[name] == source.sum {
			continue
		}
		entry := source.entry
		entry.Name = name
		if err := s.router.writer.LearnOther(ctx, entry, source.session); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
			continue
		}
		s.listed[name] = source.sum
	}
	for name := range s.listed {
		if next.sources[name] != "" {
			continue
		}
		delete(s.listed, name)
		if !s.router.current.load().has(name) {
			s.router.writer.Forget(name)
		}
	}
	return errors.Join(failed...)
}

// group returns the replicas, and the lists that the catalog is to have. s.mu must be held.
func (s *services) group() *grouping {
	g := &grouping{
		services: make(map[string]*execute.Service), of: make(map[string]string), problems: make(map[string]string),
		sources: make(map[string]string),
	}
	byService := make(map[string][]string)
	for _, server := range slices.Sorted(maps.Keys(s.known)) {
		service := s.known[server].entry.Service
		byService[service] = append(byService[service], server)
	}
	setup := s.router.current.load()
	for _, service := range slices.Sorted(maps.Keys(byService)) {
		i := slices.IndexFunc(setup.config.Servers, func(entry config.Server) bool {
			return entry.Service == service && entry.Startable()
		})
		switch {
		case i >= 0:
			s.add(g, service, setup.config.Servers[i].Name, byService[service])
		case setup.has(service):
			for _, server := range byService[service] {
				g.single(server, fmt.Sprintf("an entry of this router has the name %q, but not \"service\": %q", service, service))
			}
		default:
			s.add(g, service, "", byService[service])
		}
	}
	return g
}

// add adds the servers of a service. own is this router's own server of the service, or "": then the
// list that the catalog has already counts, or else the most frequent one. s.mu must be held.
func (s *services) add(g *grouping, service, own string, servers []string) {
	name, sum, others := own, "", fmt.Sprintf("%q on this node", own)
	if own != "" {
		sum = s.sumOfOwn(own)
	} else {
		name, sum, others = service, s.frequentSum(service, servers), fmt.Sprintf("the other servers of the service %q", service)
	}
	var equal []string
	for _, server := range servers {
		switch {
		case sum == s.known[server].sum:
			equal = append(equal, server)
			g.of[server] = name
		case sum == "":
			g.single(server, "") // until the own server was listed
		default:
			g.single(server, "its tools, prompts and resources are not those of "+others)
		}
	}
	if len(equal) == 0 {
		return
	}
	if own == "" {
		g.sources[name] = equal[0]
	}
	g.services[name] = &execute.Service{
		Own: own, Others: equal, Load: s.router.members.load,
		Keeps: func(home session.Client) bool { return s.router.supervisor.Keeps(own, home) },
	}
}

// frequentSum returns the sum that the catalog has already, or else the most frequent one. s.mu must
// be held.
func (s *services) frequentSum(service string, servers []string) string {
	count := make(map[string]int)
	for _, server := range servers {
		count[s.known[server].sum]++
	}
	if sum := s.listed[service]; count[sum] > 0 {
		return sum
	}
	return slices.MaxFunc(slices.Sorted(maps.Keys(count)), func(a, b string) int { return cmp.Compare(count[a], count[b]) })
}

// single adds a server that is no replica.
func (g *grouping) single(server, problem string) {
	g.sources[server] = server
	if problem != "" {
		g.problems[server] = problem
	}
}

// sumOfOwn returns the sum of a server of this router, "" if it was not listed.
func (s *services) sumOfOwn(server string) string {
	listing := s.router.registry.Snapshot().Offer(server)
	if listing.Capabilities == nil && len(listing.Tools) == 0 {
		return ""
	}
	o := clusterOffer(listing)
	return sumOfItems(o.Tools, o.Prompts, o.Resources, o.Templates)
}

// sumOf returns the sum of an announced server.
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
			lines[i], _ = json.Marshal(item) // equal escapes; all items are JSON, or they could not be listed
		}
		slices.SortFunc(lines, bytes.Compare)
		for _, line := range lines {
			hash.Write(append(line, '\n'))
		}
		hash.Write([]byte{'\n'})
	}
	return hex.EncodeToString(hash.Sum(nil))
}
