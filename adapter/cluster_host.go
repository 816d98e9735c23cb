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
		v := &NodeView{nodeStream{h, s}}
		defer h.router.levels.forget(v)
		serve(ctx, v, s.Conn)
	}
}

// decoded returns the rules that another node has encoded.
func (h *clusterHost) decoded(text json.RawMessage) (*profile.Rules, error) {
	return cached(h, h.rules, string(text), func() (*profile.Rules, error) { return profile.Decode(text) })
}

// cached returns the value that a map of the host has for a key, and makes it if need be. A full map is emptied first.
func cached[V any](h *clusterHost, all map[string]V, key string, create func() (V, error)) (V, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	value, ok := all[key]
	if ok {
		return value, nil
	}
	value, err := create()
	if err != nil {
		return value, err
	}
	if len(all) >= maxViews {
		clear(all)
	}
	all[key] = value
	return value, nil
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
	v, _ := cached(h, h.views, strings.Join(chosen, "+"), func() (*View, error) { return h.router.Scope(chosen...), nil })
	return v
}
