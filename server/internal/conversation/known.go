package conversation

import (
	"strings"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/budget"
)

// The transports of clients.
const (
	Stdio = "stdio"
	HTTP  = "http"
	Plain = "plain" // JSON-RPC over HTTP without MCP's transports
)

// A Known is a client that the router serves.
type Known struct {
	Name, Version string // as the client says, cut; "" if it does not say
	Revision      string // that it speaks; "" for plain JSON-RPC, and before its first request
	Transport     string // Stdio, HTTP or Plain
	Principal     string // the name of its principal; "" if it proved no identity
	Calls         int64  // of tools
	Open          int    // requests that have no answer yet; 0 for clients without a session
	Since         time.Time
	Last          time.Time // its last request; zero for a client with a session
}

// Known returns the clients that have a session, and those without one that sent a request in the
// last minutes, in no order. Of the latter, those that describe themselves in the same way count
// as one.
func (cs *Clients) Known() []Known {
	var all []Known
	for _, c := range cs.All() {
		c.mu.Lock()
		k := Known{Name: c.clientName, Version: c.clientVersion, Revision: c.revision, Transport: c.transport, Principal: c.PrincipalName, Calls: c.calls.Load(), Open: c.Requests.count(), Since: c.since}
		if k.Revision == "" && c.spokeModern {
			k.Revision = session.Modern
		}
		begun := c.begun // its first request came
		c.mu.Unlock()
		if begun {
			all = append(all, k)
		}
	}
	return append(append(all, cs.modern.all()...), cs.plain.all()...)
}

// described returns the name and the version in a clientInfo, cut.
func described(info []byte) (name, version string) {
	version, _ = wire.String(wire.Member(info, "version"))
	return nameIn(info), Brief(version)
}

// agent returns the name and the version in a User-Agent header, such as curl/8.5.0.
func agent(header []byte) (name, version string) {
	first, _, _ := strings.Cut(string(header), " ")
	name, version, _ = strings.Cut(first, "/")
	return Brief(name), Brief(version)
}

const (
	maxVisitors = 100              // clients without a session that all servers of the router remember
	visitorTime = 10 * time.Minute // for which they are, after their last request
	maxIdentity = 1 << 10          // bytes by which they are told apart
)

// visitors are the clients without a session, by their principal and how they describe themselves.
type visitors struct {
	transport, revision string
	read                func(identity []byte) (name, version string)
	share               *budget.Share

	mu   sync.Mutex // guards what follows
	byID map[visitorID]*Known
}

// A visitorID tells visitors apart. principal is a name.
type visitorID struct{ principal, identity string }

func newVisitors(b *budget.Budget, transport, revision string, read func(identity []byte) (name, version string)) *visitors {
	v := &visitors{transport: transport, revision: revision, read: read, byID: make(map[visitorID]*Known)}
	v.share = b.Share(v.dropOldest)
	return v
}

// note counts a request of the client with the principal and the identity.
func (v *visitors) note(principal string, identity []byte, calls bool) {
	v.count(principal, identity, calls)
	v.share.Fit()
}

func (v *visitors) count(principal string, identity []byte, calls bool) {
	now := time.Now()
	cut := identity[:min(len(identity), maxIdentity)]
	v.mu.Lock()
	defer v.mu.Unlock()
	k := v.byID[visitorID{principal, string(cut)}] // without a copy of cut
	if k == nil {
		k = v.add(visitorID{principal, string(cut)}, now)
		k.Name, k.Version = v.read(identity)
	}
	k.Last = now
	if calls {
		k.Calls++
	}
}

// dropOldest drops the client that was silent for the longest, if there is one.
func (v *visitors) dropOldest() {
	v.mu.Lock()
	defer v.mu.Unlock()
	var oldest visitorID
	for id, k := range v.byID {
		if last := v.byID[oldest]; last == nil || k.Last.Before(last.Last) {
			oldest = id
		}
	}
	if v.byID[oldest] != nil {
		v.drop(oldest)
	}
}

// drop drops a client. v.mu must be held.
func (v *visitors) drop(id visitorID) {
	delete(v.byID, id)
	v.share.Add(-1)
}

// add adds a client. v.mu must be held.
func (v *visitors) add(id visitorID, now time.Time) *Known {
	v.forget(now)
	k := &Known{Revision: v.revision, Transport: v.transport, Principal: id.principal, Since: now}
	v.byID[id] = k
	v.share.Add(1)
	return k
}

// forget drops the clients that were silent for long. v.mu must be held.
func (v *visitors) forget(now time.Time) {
	for id, k := range v.byID {
		if now.Sub(k.Last) > visitorTime {
			v.drop(id)
		}
	}
}

// clear drops all clients.
func (v *visitors) clear() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.share.Add(-len(v.byID))
	clear(v.byID)
}

func (v *visitors) all() (all []Known) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.forget(time.Now())
	for _, k := range v.byID {
		all = append(all, *k)
	}
	return all
}
