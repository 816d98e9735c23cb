package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/cluster/internal/caller"
	"github.com/mcp-metarouter/metarouter/cluster/internal/directory"
	"github.com/mcp-metarouter/metarouter/cluster/internal/roster"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// target returns the target for calls of a server. If it can't be called yet, the problem says why;
// it is "" if there is no such server.
func (m *member) target(server string) (t caller.Target, problem string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.remotes[server]
	switch {
	case r == nil:
		return caller.Target{}, "", false
	case !r.learned && r.problem != "":
		return caller.Target{}, r.problem, false
	case !r.learned:
		return caller.Target{}, fmt.Sprintf("it is not known yet what it offers on the node %s", r.node), false
	}
	return caller.Target{To: r.router, Node: r.node, Name: server, Server: r.Name, Info: r.info, Gone: r.gone}, "", true
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
	said, beat := m.roster.ServerLoad(r.router, r.Name)
	return said.Calls + said.Waiting, r.Terms.MaxConcurrent, beat
}

func (m *member) state(server string) status.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.remotes[server]
	if r == nil {
		return ""
	}
	return r.state(m.roster.Load(r.router))
}

func (m *member) status() []status.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]status.Status, 0, len(m.remotes))
	for _, name := range slices.Sorted(maps.Keys(m.remotes)) {
		r := m.remotes[name]
		s := status.Status{
			Name: name, State: r.state(m.roster.Load(r.router)), Transport: transport, LastError: r.problem, Since: r.since,
			ProtocolVersion: r.info.ProtocolVersion,
		}
		if r.learned {
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
	infos := map[string]*clusternode.Info{}
	m.mu.Lock()
	sharing := m.shared.revision != ""
	m.mu.Unlock()
	self := &clusternode.Info{
		Node: m.roster.Name(m.self.Key), Key: m.self.Key, Self: true, Trusted: true, Alive: true,
		Version: m.node.options.Version, LastSeen: time.Now(), Routers: 1,
	}
	infos[m.self.Key] = self
	known := m.directory.Known()
	for _, p := range m.roster.Peers() { // those that share come first
		i := infos[p.Address.Key]
		if i == nil {
			i = &clusternode.Info{
				Node: p.Node, Key: p.Address.Key, Trusted: true, Alive: p.Alive, Version: p.Version,
				Latency: milliseconds(p.Latency), Clock: milliseconds(p.Clock), LastSeen: p.LastSeen, Problem: problemOf(p, m.node.options.Version),
			}
			infos[p.Address.Key] = i
		}
		if p.Alive {
			i.Routers++
		}
		if a := known[p.Address.Key]; a != nil && p.Alive && p.Revision != "" && i.Servers == nil {
			for _, s := range a.Servers {
				i.Servers = append(i.Servers, s.Name)
				i.Tools += s.Tools
			}
		}
	}
	if sharing {
		self.Servers, self.Tools = nil, 0
		for _, s := range m.directory.Own() {
			self.Servers = append(self.Servers, s.Name)
			self.Tools += s.Tools
		}
	}
	nodes := make([]clusternode.Info, 0, len(infos))
	for _, i := range infos {
		nodes = append(nodes, *i)
	}
	for _, s := range m.roster.Untrusted() {
		nodes = append(nodes, clusternode.Info{
			Node: s.Node, Key: s.Key, Alive: time.Since(s.LastSeen) < roster.Silence, Version: s.Version, Clock: milliseconds(s.Clock), LastSeen: s.LastSeen,
			Problem: "it is not trusted, so that nothing of it is used; if you know it, run: metarouter nodes trust " + s.Key,
		})
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
	return cmp.Or(-compareBool(a.Self, b.Self), -compareBool(a.Trusted, b.Trusted), strings.Compare(a.Node, b.Node), strings.Compare(a.Key, b.Key))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// problemOf returns the problem of a trusted node as a sentence; "" without a problem.
func problemOf(p roster.Peer, version string) string {
	switch {
	case p.Clock.Abs() > roster.MaxClock:
		return fmt.Sprintf("its clock differs from ours by %s, so that its frames are refused; set the clocks of both machines by NTP", p.Clock.Abs().Round(time.Second))
	case !p.Alive:
		return "it was not heard for 3 s"
	case p.Silent:
		return unanswered
	}
	return ""
}

const unanswered = "it does not answer this node, which it may not trust; there, run 'metarouter nodes trust KEY --write' with the key that 'metarouter nodes key' prints here"

// clockDoubt is a difference of clocks that people should know of.
const clockDoubt = 5 * time.Second

func (m *member) report() clusternode.Report {
	s := m.link.State()
	r := clusternode.Report{
		Connected: s.Connected, URL: s.URL, Server: s.Server, TLS: s.TLS, RoundTrip: s.RoundTrip, MaxPayload: s.MaxPayload,
		JetStream: s.JetStream, Denied: s.Denied, Problems: s.Problems,
		Clocks: map[string]time.Duration{}, Versions: map[string]string{},
	}
	add := func(format string, arguments ...any) {
		r.Problems = append(r.Problems, fmt.Sprintf(format, arguments...))
	}
	if p := m.directory.Problem(); p != "" && s.Connected {
		add("The catalog of the cluster does not change: %s.", p)
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
		if p.Clock.Abs() > clockDoubt {
			r.Clocks[p.Node] = p.Clock
		}
		if p.Version != m.node.options.Version {
			r.Versions[p.Node] = p.Version
		}
		if p.Node != p.Claimed {
			text := fmt.Sprintf("The name %s is that of several nodes; one is called %s here. Give it another name: \"node\" in its configuration.", p.Claimed, p.Node)
			r.Conflicts = append(r.Conflicts, text)
			add("%s", text)
		}
		if problem := problemOf(p, m.node.options.Version); problem != "" && (p.Alive || p.Clock.Abs() > roster.MaxClock) {
			add("The node %s: %s.", p.Node, problem)
		}
	}
	if own := m.roster.Name(m.self.Key); own != m.name {
		text := fmt.Sprintf("The name %s is that of another node; this one is called %s. Set \"node\" in the configuration.", m.name, own)
		r.Conflicts = append(r.Conflicts, text)
		add("%s", text)
	}
	for _, s := range m.roster.Untrusted() {
		r.Untrusted = append(r.Untrusted, s.Key)
		add("The node %s (key %s) is not trusted, so that nothing of it is used. If you know it, run: metarouter nodes trust %s.", s.Node, s.Key, s.Key)
	}
}

const (
	// listenFor is how long a node that has just joined listens for others.
	listenFor = 1500 * time.Millisecond
	// repairFor is how long a node that has just begun to connect waits for a NATS that fails.
	repairFor = 2 * time.Second
)

// A settling says how far a node has learned the servers of the nodes that are alive.
type settling struct {
	missing  error         // why servers may be missing; nil if all are known
	again    time.Duration // it may differ after this time; 0 if only after a change
	hopeless bool          // NATS fails, and waiting for it may take long
}

func (m *member) settling() settling {
	rules := m.rules.Load()
	if len(rules.use) == 0 {
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
			return m.repairing(fmt.Errorf("what other nodes share can't be read: %s", p))
		}
		return settling{missing: errors.New("what other nodes share was not read yet")}
	}
	known, peers := m.directory.Known(), m.roster.Peers()
	m.mu.Lock()
	defer m.mu.Unlock()
	switch rest := listenFor - time.Since(m.connected); {
	case m.connected.IsZero():
		return settling{missing: errors.New("other nodes were not heard yet")}
	case rest > 0:
		return settling{missing: errors.New("other nodes may not have been heard yet"), again: rest}
	}
	return settling{missing: m.unlearned(rules, peers, known)}
}

// repairing is the state of a node for which NATS fails.
func (m *member) repairing(failure error) settling {
	rest := repairFor - time.Since(m.opened)
	return settling{missing: failure, again: max(0, rest), hopeless: rest <= 0}
}

// unlearned returns an error that names a living node without an announcement, or a server without
// definitions; nil if all are there. m.mu must be held.
func (m *member) unlearned(rules *rules, peers []roster.Peer, known map[string]*directory.Announcement) error {
	seen := map[string]bool{m.self.Key: true}
	for _, p := range peers { // the one that shares is the first of its node
		key := p.Address.Key
		if !p.Alive || p.Revision == "" || seen[key] {
			continue
		}
		seen[key] = true
		a := known[key]
		if a == nil || a.Revision != p.Revision {
			return fmt.Errorf("what the node %s shares is not known yet", p.Node)
		}
		for _, s := range a.Servers {
			name := s.Name + "@" + p.Node
			if m.remotes[name] == nil && !p.Leaving && rules.uses(name) {
				return notLearned(name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.remotes)) {
		if r := m.remotes[name]; !r.learned && r.problem == "" {
			return notLearned(name)
		}
	}
	return nil
}

func notLearned(server string) error {
	return fmt.Errorf("what the server %s offers is not known yet", server)
}
