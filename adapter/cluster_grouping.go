package adapter

import (
	"cmp"
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/status"
)

// grouping returns the replicas as they are now.
func (s *services) grouping() *grouping {
	if g := s.now.Load(); g != nil {
		return g
	}
	return new(grouping)
}

// name returns the name under which clients know a server.
func (g *grouping) name(server string) string { return cmp.Or(g.of[server], server) }

// load returns how busy a server of another node is.
func (m *membership) load(server string) (calls, limit int, heard uint64) {
	if node := m.node(); node != nil {
		return node.Load(server)
	}
	return 0, 0, 0
}

// replica returns the best replica of a service that only other nodes have; "" for another name.
func (m *membership) replica(service string) string {
	s := m.services.grouping().services[service]
	if s == nil || s.Own != "" {
		return ""
	}
	node := m.node()
	if node == nil {
		return ""
	}
	return slices.MinFunc(s.Others, func(a, b string) int { return cmp.Compare(badness(node.State(a)), badness(node.State(b))) })
}

// locate returns the node in its cluster if it reaches a server or a replica of a service, and the name
// there; nil if the server is this router's own.
func (m *membership) locate(server string) (now *joined, name string) {
	if replica := m.replica(server); replica != "" {
		server = replica
	}
	return m.with(server), server
}

// badness orders states, the best first.
func badness(s status.State) int {
	usable := []status.State{status.Ready, status.Idle, status.Starting, status.Restarting}
	if i := slices.Index(usable, s); i >= 0 {
		return i
	}
	return len(usable)
}

// describe adds to the statuses of servers on other nodes the service that they are replicas of, or
// why they are not, and adds the services that this router does not have itself.
func (g *grouping) describe(all []status.Status) []status.Status {
	best := make(map[string]status.Status)
	for i := range all {
		one := &all[i]
		if problem := g.problems[one.Name]; problem != "" && one.LastError == "" {
			one.LastError = "it is not used as a service: " + problem
		}
		name := g.of[one.Name]
		if name == "" {
			continue
		}
		if last, ok := best[name]; !ok || badness(one.State) < badness(last.State) {
			best[name] = *one
		}
		one.Doing = cmp.Or(one.Doing, "it takes calls of "+name)
	}
	for name, one := range best {
		if g.services[name].Own == "" {
			one.Name = name
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b status.Status) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
