package roster

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/cluster/internal/directory"
	"github.com/mcp-metarouter/metarouter/internal/cluster/internal/stream"
)

// A Peer is a router of a trusted node other than this router, at one moment.
type Peer struct {
	*directory.Announcement // must not be modified
	Address                 stream.Address
	Name                    string // of the node; unique among the trusted ones
	Alive                   bool
	Latency                 time.Duration // 0 if it is not known
	Trouble                 string        // why it can't be called; "" if that is not known
	LastSeen                time.Time     // when it was alive last, by our clock
}

// Peers returns the routers that are alive or were lately, by name. The router that shares is the
// first of its node.
func (r *Roster) Peers() []Peer {
	r.mu.Lock()
	r.nameAll()
	peers := make([]Peer, 0, len(r.routers))
	for _, one := range r.routers {
		if p := one.Peer; one.state != unproven {
			p.Name, p.Alive = r.names[p.Address.Key], one.state == alive
			peers = append(peers, p)
		}
	}
	r.mu.Unlock()
	slices.SortFunc(peers, func(a, b Peer) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(b.rank(), a.rank()), cmp.Compare(b.Since, a.Since), strings.Compare(a.Address.Router, b.Address.Router))
	})
	return peers
}

// rank is higher for a router that lives, and then for one that shares.
func (p *Peer) rank() (n int) {
	if p.Alive {
		n = 2
	}
	if len(p.Servers) > 0 {
		n++
	}
	return n
}

// Unproven reports whether it is not known yet of a stored router whether it lives.
func (r *Roster) Unproven() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(slices.Collect(maps.Values(r.routers)), func(one *router) bool { return one.state == unproven })
}

// Load returns how a server of a router is, and how many loads of the router have come; zero values
// if it is not alive.
func (r *Roster) Load(address stream.Address, server string) (load ServerLoad, count uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.routers[address]; one != nil && one.state == alive {
		return one.load[server], one.count
	}
	return load, 0
}

// Name returns the name of a trusted node, or of this one. A node that was not heard yet is named by
// its key.
func (r *Roster) Name(key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nameAll()
	if name := r.names[key]; name != "" {
		return name
	}
	return "node-" + cut(tail(key), 4)
}

// Others returns the nodes that can't be used, by name. A node that also has a router of this version
// is not among them.
func (r *Roster) Others() []Other {
	r.mu.Lock()
	defer r.mu.Unlock()
	current := map[string]bool{r.options.Key: true}
	for address, one := range r.routers {
		current[address.Key] = current[address.Key] || one.state == alive
	}
	all := make([]Other, 0, len(r.others))
	for _, o := range r.others {
		if !current[o.Key] {
			all = append(all, *o)
		}
	}
	slices.SortFunc(all, func(a, b Other) int { return cmp.Or(strings.Compare(a.Node, b.Node), strings.Compare(a.Key, b.Key)) })
	return all
}

// nameAll gives the trusted nodes and this one their names, if that is to be done: of two with one
// name, the node with the lower key keeps it. Lost nodes keep theirs for a while, so that names do
// not change to and fro. r.mu must be held.
func (r *Roster) nameAll() {
	if r.names != nil {
		return
	}
	claimed := map[string]string{}
	latest := map[string]*router{}
	for address, one := range r.routers {
		// A router that lives knows best: old announcements may be put again.
		last := latest[address.Key]
		if last == nil || one.state == alive && last.state != alive || one.state == last.state && one.LastSeen.After(last.LastSeen) {
			claimed[address.Key], latest[address.Key] = one.Node, one
		}
	}
	claimed[r.options.Key] = r.options.Node
	r.names = nameAll(claimed)
}

// nameAll returns the names of nodes by key from those that they claim.
func nameAll(claimed map[string]string) map[string]string {
	names, taken := make(map[string]string, len(claimed)), map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(claimed)) {
		name, tail := claimed[key], tail(key)
		for n := 4; taken[name] && n < len(tail)+4; n += 4 {
			name = cut(claimed[key], 27) + "-" + cut(tail, n)
		}
		names[key], taken[name] = name, true
	}
	return names
}

// tail returns the part of a key that differs from node to node, in lower case.
func tail(key string) string { return strings.ToLower(key[min(len(key), 2):]) }

func cut(s string, n int) string { return s[:min(n, len(s))] }
