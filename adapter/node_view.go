package adapter

import (
	"encoding/json"
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// A NodeView is one server that this router shares, as another node uses it over one stream; or, without a
// server, the stream over which another gateway passes requests on. It never
// sends a request on to a third node. Its methods may be called by many goroutines at once.
type NodeView struct {
	host   *clusterHost
	stream clusternode.Stream
}

// Key identifies the other node and the server. It is a principal of no client.
func (v *NodeView) Key() string { return v.stream.Key + "/" + v.stream.Server }

// NodeKey returns the public key of the other node.
func (v *NodeView) NodeKey() string { return v.stream.Key }

// Node returns the name of the other node. It may be the name of another node later.
func (v *NodeView) Node() string { return v.stream.Node }

// Server returns the name of the server, "" for the requests of a gateway.
func (v *NodeView) Server() string { return v.stream.Server }

// Rules returns the rules of this router. A request that was suspended under other rules, as
// [reflect.DeepEqual] has it, must not be resumed.
func (v *NodeView) Rules() any { return v.host.router.current.load().config.Router.Profiles }

// Allowed reports whether this router still shares the server, if there is one, and trusts the other node.
func (v *NodeView) Allowed() bool { return v.Allows(v.stream.Key) }

// Allows is Allowed for the node with the public key.
func (v *NodeView) Allows(key string) bool {
	setup := v.host.router.current.load()
	if c := setup.config.Router.Cluster; c == nil || v.stream.Server != "" && !setup.shared[v.stream.Server] {
		return false
	}
	if slices.Contains(setup.config.Router.Cluster.Trusted, key) {
		return true
	}
	own := v.host.router.members.node() // other routers of this machine have the same key
	return own != nil && own.Key() == key
}

// Describe returns the capabilities of the server, and its serverInfo, whatever the rules of this router
// hide of it.
func (v *NodeView) Describe() (capabilities, info json.RawMessage) {
	l := v.host.router.registry.Snapshot().Offer(v.stream.Server)
	return wire.OrEmpty(l.Capabilities), wire.Marshal(map[string]string{"name": v.stream.Server, "version": l.Version})
}

// Definitions returns the definitions that clients without a profile see, and the member of the answer to
// the list request that has them.
func (v *NodeView) Definitions(method string) (member string, all []json.RawMessage) {
	o := clusterOffer(v.host.view("").Snapshot().Offer(v.stream.Server))
	switch method {
	case "prompts/list":
		return "prompts", o.Prompts
	case "resources/list":
		return "resources", o.Resources
	case "resources/templates/list":
		return "resourceTemplates", o.Templates
	case "skills/list":
		return "skills", o.Skills
	}
	return "tools", o.Tools
}

// Listen has hear called with the messages of the server that belong to no request; see
// [View.Listen].
func (v *NodeView) Listen(hear func(server string, owner Client, m Message)) (stop func()) {
	return v.host.router.listeners.Add(func(server string, owner Client, m Message) {
		if server == v.stream.Server && v.host.router.current.load().has(server) {
			hear(server, owner, m)
		}
	})
}

// Release ends the session of a client that has left.
func (v *NodeView) Release(home Client) {
	v.host.router.supervisor.Release(home)
	v.host.router.executor.ForgetClient(home)
}

// Tell sends a notification of a client to the server, if it has a session for the client alone.
func (v *NodeView) Tell(home Client, method string, params json.RawMessage) {
	v.host.router.supervisor.Notify(home, method, params)
}
