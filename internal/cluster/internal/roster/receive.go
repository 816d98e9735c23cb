package roster

import (
	"encoding/json"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/cluster/internal/directory"
	"github.com/mcp-metarouter/metarouter/internal/cluster/internal/stream"
)

// Announced takes the announcement of a router. A stored one does not show that the router lives.
func (r *Roster) Announced(key, token string, value []byte, stored bool) {
	address := stream.Address{Key: key, Router: token}
	trusted := r.options.Trusted(key)
	a, err := directory.Decode(r.options.Cluster, key, token, value, trusted)
	switch {
	case err != nil:
		r.options.Log.Debug("refused an announcement", zap.String("key", key), zap.Error(err))
		return
	case !trusted: // the signature was not checked, so that the name may be a lie; people trust a key
		r.note(Other{Key: key, Node: a.Node, Version: a.Version})
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.routers[address]
	switch {
	case !r.options.Trusted(key): // since a moment ago
		return
	case one != nil && one.Revision >= a.Revision: // an old one may be put again
		return
	case one == nil && !r.makeRoom():
		return
	case one == nil:
		one = &router{Peer: Peer{Address: address, LastSeen: time.Now()}}
		r.routers[address] = one
	}
	one.Announcement = a
	switch {
	case a.Leaving:
		r.lose(one)
	case !stored:
		r.lives(one, time.Now())
	}
	r.edited()
}

// Loaded takes the load of a router. A stored one says when the router lived: at put, if that clock is not ahead of ours.
func (r *Roster) Loaded(key, token string, value []byte, stored bool, put time.Time) {
	if len(value) > maxLoad {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := time.Now()
	if stored && put.Before(seen) {
		seen = put
	}
	if !r.options.Trusted(key) {
		if o := r.others[key]; o != nil {
			o.LastSeen = seen
		}
		return
	}
	one := r.routers[stream.Address{Key: key, Router: token}]
	if one != nil && stored && one.state == unproven {
		one.LastSeen = seen
	}
	if one == nil || stored {
		return
	}
	one.count++
	r.lives(one, seen)
	var load Load
	if json.Unmarshal(value, &load) != nil || len(load.Servers) > directory.MaxServers {
		return
	}
	if !sameStates(one.load, load.Servers) {
		r.changed.Notify()
	}
	one.load = load.Servers
}

// sameStates reports whether two loads have the same servers in the same states.
func sameStates(a, b map[string]ServerLoad) bool {
	for _, names := range []map[string]ServerLoad{a, b} {
		for name := range names {
			if a[name].State != b[name].State {
				return false
			}
		}
	}
	return true
}

// makeRoom reports whether there is room for another router: a lost one makes room. r.mu must be held.
func (r *Roster) makeRoom() bool {
	for address, one := range r.routers {
		if len(r.routers) < maxRouters {
			break
		}
		if one.state == dead {
			r.remove(address)
		}
	}
	return len(r.routers) < maxRouters
}

func (r *Roster) note(o Other) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.others[o.Key]
	if before == nil && len(r.others) >= maxOthers {
		return
	}
	o.noted = time.Now()
	o.LastSeen = o.noted
	r.others[o.Key] = &o
	if before == nil || before.Node != o.Node {
		r.changed.Notify()
	}
}
