package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/cluster/internal/roster"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// target returns the target for calls of a server. If it can't be called yet, the problem says why;
// it is "" if there is no such server.
func (m *member) target(server string) (t target, problem string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.remotes[server]
	switch {
	case r == nil:
		return target{}, "", false
	case !r.learned() && r.problem != "":
		return target{}, r.problem, false
	case !r.learned():
		return target{}, fmt.Sprintf("it is not known yet what it offers on the node %s", r.node), false
	}
	return target{r.router, r.node, r.Name}, "", true
}

func (m *member) terms(server string) (clusternode.Terms, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.remotes[server]
	if r == nil {
		return clusternode.Terms{}, false
	}
	return r.Terms, true
}

func (m *member) load(server string) (calls, limit int, heard uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.remotes[server]
	if r == nil {
		return 0, 0, 0
	}
	load, heard := m.roster.Load(r.router, r.Name)
	return load.Calls + load.Waiting, r.Terms.MaxConcurrent, heard
}

func (m *member) state(server string) status.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.remotes[server]
	if r == nil {
		return ""
	}
	load, _ := m.roster.Load(r.router, r.Name)
	return r.state(load)
}

func (m *member) status() []status.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]status.Status, 0, len(m.remotes))
	for _, name := range slices.Sorted(maps.Keys(m.remotes)) {
		r := m.remotes[name]
		load, _ := m.roster.Load(r.router, r.Name)
		s := status.Status{
			Name: name, State: r.state(load), Transport: transport, LastError: r.problem, Since: r.since,
			ProtocolVersion: r.info.ProtocolVersion,
		}
		if r.learned() {
			s.Era = r.info.Era()
		} else {
			s.Doing = "learning what it offers on the node " + r.node
		}
		all = append(all, s)
	}
	return all
}

// nodes returns the nodes that are known, this one first.
func (m *member) nodes() []clusternode.Info {
	self := &clusternode.Info{
		Node: m.roster.Name(m.key), Key: m.key, Self: true, Trusted: true, Alive: true,
		Version: m.node.options.Version, LastSeen: time.Now(), Routers: 1,
	}
	infos := map[string]*clusternode.Info{m.key: self}
	for _, s := range m.directory.Own() {
		self.Servers, self.Tools = append(self.Servers, s.Name), self.Tools+s.Tools
	}
	for _, p := range m.roster.Peers() { // those that share come first
		i := infos[p.Address.Key]
		if i == nil {
			i = &clusternode.Info{
				Node: p.Name, Key: p.Address.Key, Trusted: true, Alive: p.Alive, Version: p.Version,
				Latency: milliseconds(p.Latency), LastSeen: p.LastSeen, Problem: problemOf(p),
			}
			infos[p.Address.Key] = i
		}
		if !p.Alive {
			continue
		}
		i.Routers++
		if i.Servers == nil {
			for _, s := range p.Servers {
				i.Servers, i.Tools = append(i.Servers, s.Name), i.Tools+s.Tools
			}
		}
	}
	nodes := make([]clusternode.Info, 0, len(infos))
	for _, i := range infos {
		nodes = append(nodes, *i)
	}
	for _, o := range m.roster.Others() {
		i := clusternode.Info{Node: o.Node, Key: o.Key, Trusted: m.trusts(o.Key), Alive: time.Since(o.LastSeen) < otherSilence, Version: o.Version, LastSeen: o.LastSeen}
		switch {
		case o.Old:
			i.Problem = old
		default:
			i.Problem = "it is not trusted, so that nothing of it is used; if you know it, run: metarouter nodes trust " + o.Key
		}
		nodes = append(nodes, i)
	}
	for i := range nodes {
		if nodes[i].Servers == nil {
			nodes[i].Servers = []string{}
		}
	}
	slices.SortFunc(nodes, compareNodes)
	return nodes
}

// compareNodes orders nodes: this one, the trusted ones, the others, each by name.
func compareNodes(a, b clusternode.Info) int {
	rank := func(i clusternode.Info) int {
		switch {
		case i.Self:
			return 0
		case i.Trusted:
			return 1
		}
		return 2
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.Node, b.Node), strings.Compare(a.Key, b.Key))
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// otherSilence is how long a node that can't be used counts as alive after it was seen.
const otherSilence = 3 * time.Second

const (
	old        = "it runs an older version of metarouter, which this one can't call; update it"
	untrusting = "it does not trust this node; there, run 'metarouter nodes trust KEY --write' with the key that 'metarouter nodes key' prints here"
)

// problemOf returns the problem of a trusted node as a sentence; "" without a problem.
func problemOf(p roster.Peer) string {
	if !p.Alive && !p.Leaving {
		return "it was not heard for 3 s"
	}
	return p.Trouble
}

func (m *member) report() clusternode.Report {
	s := m.link.State()
	r := clusternode.Report{
		Connected: s.Connected, URL: s.URL, Server: s.Server, TLS: s.TLS, RoundTrip: s.RoundTrip, MaxPayload: s.MaxPayload,
		Denied: s.Denied, Problems: s.Problems, Versions: map[string]string{},
	}
	add := func(format string, arguments ...any) {
		r.Problems = append(r.Problems, fmt.Sprintf(format, arguments...))
	}
	p := m.directory.Problem()
	if r.JetStream = p == "" && s.Connected && m.directory.Watched(); p != "" && s.Connected {
		add("JetStream does not answer, so that the servers of other nodes do not change: %s.", p)
	}
	m.mu.Lock()
	if m.shared.problem != "" {
		add("This router can't share its servers: %s.", m.shared.problem)
	}
	for _, text := range m.shared.leftOut {
		add("A server is not shared: %s.", text)
	}
	for _, name := range slices.Sorted(maps.Keys(m.remotes)) {
		if remote := m.remotes[name]; remote.problem != "" {
			add("The server %s can't be used: %s.", name, remote.problem)
		}
	}
	m.mu.Unlock()
	m.reportNodes(&r, add)
	return r
}

// reportNodes adds the problems of nodes.
func (m *member) reportNodes(r *clusternode.Report, add func(string, ...any)) {
	seen := map[string]bool{}
	for _, p := range m.roster.Peers() {
		if seen[p.Address.Key] {
			continue
		}
		seen[p.Address.Key] = true
		if p.Version != m.node.options.Version {
			r.Versions[p.Name] = p.Version
		}
		if p.Name != p.Node {
			text := fmt.Sprintf("The name %s is that of several nodes; one is called %s here. Give it another name: \"node\" in its configuration.", p.Node, p.Name)
			r.Conflicts = append(r.Conflicts, text)
			add("%s", text)
		}
		if p.Alive && p.Trouble != "" {
			add("The node %s: %s.", p.Name, p.Trouble)
		}
	}
	if own := m.roster.Name(m.key); own != m.name {
		text := fmt.Sprintf("The name %s is that of another node; this one is called %s. Set \"node\" in the configuration.", m.name, own)
		r.Conflicts = append(r.Conflicts, text)
		add("%s", text)
	}
	for _, o := range m.roster.Others() {
		if o.Old {
			add("The node %s (key %s): %s.", o.Node, o.Key, old)
			continue
		}
		r.Untrusted = append(r.Untrusted, o.Key)
		add("The node %s (key %s) is not trusted, so that nothing of it is used. If you know it, run: metarouter nodes trust %s.", o.Node, o.Key, o.Key)
	}
}

// repairFor is how long a node that has just begun to connect waits for a NATS that fails.
const repairFor = 2 * time.Second

// A settling says how far a node has learned the servers of the nodes that are alive.
type settling struct {
	missing  error         // why servers may be missing; nil if all are known
	again    time.Duration // it may differ after this time; 0 if only after a change
	hopeless bool          // NATS fails, and waiting for it may take long
}

func (m *member) settling() settling {
	if len(m.rules.Load().use) == 0 {
		return settling{}
	}
	if l := m.link.State(); !l.Connected {
		if l.Err != nil {
			return m.repairing(fmt.Errorf("there is no connection to NATS: %w", l.Err))
		}
		return settling{missing: errors.New("there is no connection to NATS yet")}
	}
	if !m.directory.Watched() {
		if p := m.directory.Problem(); p != "" {
			return m.repairing(fmt.Errorf("what other nodes share can't be read, since JetStream does not answer: %s", p))
		}
		return settling{missing: errors.New("what other nodes share was not read yet")}
	}
	if m.roster.Unproven() {
		return settling{missing: errors.New("other nodes did not answer yet")}
	}
	return settling{missing: m.unlearned()}
}

// repairing is the state of a node for which NATS fails.
func (m *member) repairing(failure error) settling {
	rest := repairFor - time.Since(m.opened)
	return settling{missing: failure, again: max(0, rest), hopeless: rest <= 0}
}

// unlearned returns an error that names a server without definitions; nil if all are known.
func (m *member) unlearned() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	rules := m.rules.Load()
	for p := range m.sharing() {
		for _, s := range p.Servers {
			name := s.Name + "@" + p.Name
			if r := m.remotes[name]; p.Alive && rules.uses(name) && (r == nil || !r.learned() && r.problem == "") {
				return fmt.Errorf("what the server %s offers is not known yet", name)
			}
		}
	}
	return nil
}
