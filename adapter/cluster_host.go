package adapter

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/profile"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// A clusterHost is the router as its node in a cluster needs it. It is the [cluster.Host].
type clusterHost struct {
	router *Router

	mu     sync.Mutex // guards the fields below
	views  map[string]*View
	rules  map[string]*profile.Rules // by their text
	offers map[string]hostOffer      // by server
}

// maxViews is how many scopes and rules of other nodes' clients are kept.
const maxViews = 256

func newClusterHost(r *Router) *clusterHost {
	return &clusterHost{
		router: r,
		views:  make(map[string]*View), rules: make(map[string]*profile.Rules), offers: make(map[string]hostOffer),
	}
}

// State implements [cluster.Host].
func (h *clusterHost) State(server string) (state status.State, calls, waiting int) {
	calls, waiting = h.router.executor.Load(server)
	return h.router.supervisor.State(server), calls, waiting
}

// Serve implements [cluster.Host].
func (h *clusterHost) Serve(ctx context.Context, s clusternode.Stream) {
	defer s.Close()
	if serve := h.router.options.ServeNode; serve != nil {
		v := &NodeView{h, s}
		defer h.router.levels.forget(v)
		serve(ctx, v, s.Conn)
	}
}

// decoded returns the rules that another node has encoded.
func (h *clusterHost) decoded(text json.RawMessage) (*profile.Rules, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if rules, ok := h.rules[string(text)]; ok {
		return rules, nil
	}
	rules, err := profile.Decode(text)
	if err == nil {
		keep(h.rules, string(text), rules)
	}
	return rules, err
}

// keep adds to a map, which it empties if the map is full.
func keep[V any](m map[string]V, key string, value V) {
	if len(m) >= maxViews {
		clear(m)
	}
	m[key] = value
}

// view returns the router under its own profiles of the same names, joined by "+", or else under
// "default".
func (h *clusterHost) view(profiles string) *View {
	all := h.router.current.load().config.Router.Profiles
	var chosen []string
	for name := range strings.SplitSeq(profiles, "+") {
		if name != "" && profile.OnlyOf(name) == nil && profile.Exists(all, name) { // the client's node has other names of servers
			chosen = append(chosen, name)
		}
	}
	key := strings.Join(chosen, "+")
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.views[key]
	if !ok {
		s = h.router.Scope(chosen...)
		keep(h.views, key, s)
	}
	return s
}
