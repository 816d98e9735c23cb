package cluster

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/cluster/internal/directory"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// state returns the state of a server, which its node says.
func (m *member) state(k known) status.State {
	if !k.learned() {
		return status.Starting
	}
	load, _ := m.roster.Load(k.router, k.Name)
	if s := status.State(load.State); slices.Contains(status.States, s) {
		return s
	}
	return status.Ready
}

func (m *member) status() []status.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]status.Status, 0, len(m.remotes))
	for _, name := range slices.Sorted(maps.Keys(m.remotes)) {
		k := m.remotes[name].known
		s := status.Status{
			Name: name, State: m.state(k), Transport: status.ByCluster, LastError: k.problem, Since: k.since, ProtocolVersion: k.info.ProtocolVersion,
		}
		if k.learned() {
			s.Era = k.info.Era()
		} else {
			s.Doing = "learning what it offers on the node " + k.node
		}
		all = append(all, s)
	}
	return all
}

// nodes returns the nodes that are known: this one, the trusted ones by name, and the others.
func (m *member) nodes() []clusternode.Info {
	nodes := []clusternode.Info{{
		Node: m.roster.Name(m.key), Key: m.key, Self: true, Trusted: true, Alive: true,
		Version: m.node.options.Version, LastSeen: time.Now(), Routers: 1, Servers: []string{},
	}}
	add := func(i *clusternode.Info, servers []directory.Server) {
		for _, s := range servers {
			i.Servers, i.Tools = append(i.Servers, s.Name), i.Tools+s.Tools
		}
	}
	add(&nodes[0], m.directory.Own())
	at := map[string]int{m.key: 0}
	for _, p := range m.roster.Peers() { // those that share come first
		n, known := at[p.Address.Key]
		if !known {
			n = len(nodes)
			at[p.Address.Key] = n
			problem := p.Trouble
			if !p.Alive && !p.Leaving {
				problem = "it was not heard for 3 s"
			}
			nodes = append(nodes, clusternode.Info{
				Node: p.Name, Key: p.Address.Key, Trusted: true, Alive: p.Alive, Version: p.Version,
				Latency: float64(p.Latency.Microseconds()) / 1000, LastSeen: p.LastSeen, Problem: problem, Servers: []string{},
			})
		}
		if !p.Alive {
			continue
		}
		if nodes[n].Routers++; len(nodes[n].Servers) == 0 {
			add(&nodes[n], p.Servers)
		}
	}
	for _, o := range m.roster.Others() {
		nodes = append(nodes, clusternode.Info{
			Node: o.Node, Key: o.Key, Alive: time.Since(o.LastSeen) < otherSilence, Version: o.Version, LastSeen: o.LastSeen, Servers: []string{},
			Problem: "it is not trusted, so that nothing of it is used; if you know it, run: metarouter nodes trust " + o.Key,
		})
	}
	return nodes
}

// otherSilence is how long a node that is not trusted counts as alive after it was seen.
const otherSilence = 3 * time.Second

const untrusting = "it does not trust this node; there, run 'metarouter nodes trust KEY --write' with the key that 'metarouter nodes key' prints here"

func (m *member) report() clusternode.Report {
	r := m.link.State().Report
	add := func(format string, arguments ...any) {
		r.Problems = append(r.Problems, fmt.Sprintf(format, arguments...))
	}
	watched, problem := m.directory.State()
	if r.JetStream = watched && problem == "" && r.Connected; problem != "" && r.Connected {
		add("JetStream does not answer, so that the servers of other nodes do not change: %s.", problem)
	}
	m.mu.Lock()
	if m.cantShare != "" {
		add("This router can't share its servers: %s.", m.cantShare)
	}
	for _, text := range m.leftOut {
		add("A server is not shared: %s.", text)
	}
	for _, name := range slices.Sorted(maps.Keys(m.remotes)) {
		if remote := m.remotes[name]; remote.problem != "" {
			add("The server %s can't be used: %s.", name, remote.problem)
		}
	}
	m.mu.Unlock()
	m.reportNodes(add)
	return r
}

// reportNodes adds the problems of trusted nodes.
func (m *member) reportNodes(add func(string, ...any)) {
	named := map[string]bool{}
	for _, p := range m.roster.Peers() {
		if p.Name != p.Node && !named[p.Name] {
			named[p.Name] = true
			add("The name %s is that of several nodes; one is called %s here. Give it another name: \"node\" in its configuration.", p.Node, p.Name)
		}
	}
	for _, i := range m.nodes() {
		switch {
		case i.Self && i.Node != m.name:
			add("The name %s is that of another node; this one is called %s. Set \"node\" in the configuration.", m.name, i.Node)
		case i.Trusted && i.Alive && i.Problem != "":
			add("The node %s (key %s): %s.", i.Node, i.Key, i.Problem)
		}
	}
}

const (
	repairFor = 2 * time.Second // how long a node that has just begun to connect waits for a NATS that fails
	forever   = time.Hour       // until a change
)

// settling returns how long to wait for a change at most, and why servers of nodes that are alive may be
// missing, nil if all are known.
func (m *member) settling() (wait time.Duration, missing error) {
	repair := repairFor - time.Since(m.opened)
	link := m.link.State()
	watched, problem := m.directory.State()
	switch {
	case len(m.rules.Load().use) == 0:
		return 0, nil
	case !link.Connected && link.Err != nil:
		return repair, fmt.Errorf("there is no connection to NATS: %w", link.Err)
	case !link.Connected:
		return forever, errors.New("there is no connection to NATS yet")
	case !watched && problem != "":
		return repair, fmt.Errorf("what other nodes share can't be read, since JetStream does not answer: %s", problem)
	case !watched:
		return forever, errors.New("what other nodes share was not read yet")
	case m.roster.Unproven():
		return forever, errors.New("other nodes did not answer yet")
	}
	desired := m.desired()
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range desired {
		if r := m.remotes[name]; r == nil || !r.learned() && r.problem == "" {
			return forever, fmt.Errorf("what the server %s offers is not known yet", name)
		}
	}
	return 0, nil
}
