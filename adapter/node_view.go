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
type NodeView struct{ nodeStream }

// A nodeStream is a stream from another node for one server.
type nodeStream struct {
	host   *clusterHost
	stream clusternode.Stream
}

// Key identifies the other node and the server. It is a principal of no client.
func (s nodeStream) Key() string { return s.stream.Key + "/" + s.stream.Server }

// NodeKey returns the public key of the other node.
func (s nodeStream) NodeKey() string { return s.stream.Key }

// Node returns the name of the other node. It may be the name of another node later.
func (s nodeStream) Node() string { return s.stream.Node }

// Server returns the name of the server, "" for the requests of a gateway.
func (s nodeStream) Server() string { return s.stream.Server }

// Rules returns the rules of this router. A request that was suspended under other rules, as
// [reflect.DeepEqual] has it, must not be resumed.
func (s nodeStream) Rules() any { return s.host.router.current.load().config.Router.Profiles }

// Allowed reports whether this router still shares the server, if there is one, and trusts the other node.
func (s nodeStream) Allowed() bool { return s.Allows(s.stream.Key) }

// Allows is Allowed for the node with the public key.
func (s nodeStream) Allows(key string) bool {
	setup := s.host.router.current.load()
	if c := setup.config.Router.Cluster; c == nil || s.stream.Server != "" && !setup.shared[s.stream.Server] {
		return false
	}
	if slices.Contains(setup.config.Router.Cluster.Trusted, key) {
		return true
	}
	own := s.host.router.members.node() // other routers of this machine have the same key
	return own != nil && own.Key() == key
}

// Describe returns the capabilities of the server, and its serverInfo, whatever the rules of this router
// hide of it.
func (s nodeStream) Describe() (capabilities, info json.RawMessage) {
	l := s.host.router.registry.Snapshot().Offer(s.stream.Server)
	return wire.OrEmpty(l.Capabilities), wire.Marshal(map[string]string{"name": s.stream.Server, "version": l.Version})
}

// Definitions returns the definitions that clients without a profile see, and the member of the answer to
// the list request that has them.
func (s nodeStream) Definitions(method string) (member string, all []json.RawMessage) {
	o := clusterOffer(s.host.view("").Snapshot().Offer(s.stream.Server))
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
func (s nodeStream) Listen(hear func(server string, owner Client, m Message)) (stop func()) {
	return s.host.router.listeners.Add(func(server string, owner Client, m Message) {
		if server == s.stream.Server && s.host.router.current.load().has(server) {
			hear(server, owner, m)
		}
	})
}

// Release ends the session of a client that has left.
func (s nodeStream) Release(home Client) {
	s.host.router.supervisor.Release(home)
	s.host.router.executor.ForgetClient(home)
}

// Tell sends a notification of a client to the server, if it has a session for the client alone.
func (s nodeStream) Tell(home Client, method string, params json.RawMessage) {
	s.host.router.supervisor.Notify(home, method, params)
}
