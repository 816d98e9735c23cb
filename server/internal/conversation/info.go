package conversation

import (
	"strings"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// The transports of clients.
const (
	Stdio = "stdio"
	HTTP  = "http"
	Plain = "plain" // JSON-RPC over HTTP without MCP's transports
	Node  = "node"  // a stream from another node
)

// A ClientInfo describes a client that the router serves.
type ClientInfo struct {
	Name      string    `json:"name"` // as the client says, cut; "" if it does not say
	Version   string    `json:"version"`
	Revision  string    `json:"protocol_version"` // that it speaks; "" for plain JSON-RPC, and before its first request
	Transport string    `json:"transport"`        // Stdio, HTTP or Plain
	Principal string    `json:"principal"`        // the name of its principal; "" if it proved no identity
	Calls     int64     `json:"calls"`            // of tools
	Since     time.Time `json:"since"`
	Last      time.Time `json:"last,omitzero"` // its last request; zero for a client with a session
}

// Infos describes the clients that have a session, and those without one that sent a request in the
// last minutes, in no order. Of the latter, those that describe themselves in the same way count
// as one.
func (cs *Clients) Infos() []ClientInfo {
	all := cs.visitors.all()
	for _, c := range cs.All() {
		c.mu.Lock()
		if c.begun { // its first request came
			i := ClientInfo{Name: c.clientName, Version: c.clientVersion, Revision: c.revision, Transport: c.transport, Principal: c.PrincipalName, Calls: c.calls.Load(), Since: c.since}
			if i.Revision == "" && c.spokeModern {
				i.Revision = session.Modern
			}
			all = append(all, i)
		}
		c.mu.Unlock()
	}
	return all
}

// described returns the name and the version in a clientInfo, cut.
func described(info []byte) (name, version string) {
	return Brief(wire.Text(info, "name")), Brief(wire.Text(info, "version"))
}

// agent returns the name and the version in a User-Agent header, such as curl/8.5.0.
func agent(header []byte) (name, version string) {
	first, _, _ := strings.Cut(string(header), " ")
	name, version, _ = strings.Cut(first, "/")
	return Brief(name), Brief(version)
}

const (
	maxVisitors = 100              // clients without a session that a server remembers
	visitorTime = 10 * time.Minute // for which they are, after their last request
	maxIdentity = 1 << 10          // bytes by which they are told apart
)

// visitors are the clients without a session, by their principal and how they describe themselves.
type visitors struct {
	mu   sync.Mutex // guards byID
	byID map[visitorID]*ClientInfo
}

// A visitorID tells visitors apart. principal is a name. A client of plain JSON-RPC describes itself by its User-Agent, another
// one by its clientInfo.
type visitorID struct {
	plain               bool
	principal, identity string
}

// note counts a request of the client with the principal and the identity.
func (v *visitors) note(plain bool, principal string, identity []byte, calls bool) {
	cut := identity[:min(len(identity), maxIdentity)]
	v.mu.Lock()
	defer v.mu.Unlock()
	info := v.byID[visitorID{plain, principal, string(cut)}] // without a copy of cut
	if info == nil {
		v.makeRoom()
		info = &ClientInfo{Revision: session.Modern, Transport: HTTP, Principal: principal, Since: time.Now()}
		if plain {
			info.Revision, info.Transport = "", Plain
			info.Name, info.Version = agent(identity)
		} else {
			info.Name, info.Version = described(identity)
		}
		v.byID[visitorID{plain, principal, string(cut)}] = info
	}
	if info.Last = time.Now(); calls {
		info.Calls++
	}
}

// makeRoom drops the clients that were silent for long, and the one that was for the longest if there are too many. v.mu must be held.
func (v *visitors) makeRoom() {
	var oldest visitorID
	for id, info := range v.byID {
		if time.Since(info.Last) > visitorTime {
			delete(v.byID, id)
		} else if first := v.byID[oldest]; first == nil || info.Last.Before(first.Last) {
			oldest = id
		}
	}
	if len(v.byID) >= maxVisitors {
		delete(v.byID, oldest)
	}
}

func (v *visitors) clear() {
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.byID)
}

// all returns those that sent a request in the last minutes.
func (v *visitors) all() (all []ClientInfo) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, info := range v.byID {
		if time.Since(info.Last) <= visitorTime {
			all = append(all, *info)
		}
	}
	return all
}
