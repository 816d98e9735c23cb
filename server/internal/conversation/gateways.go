package conversation

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// Gateways are the routers of a cluster, which may serve the same clients.
type Gateways interface {
	// Address returns the address of this router, "" if the others can't reach it.
	Address() string

	// Pass has the gateway at the address go on with a request that it has suspended, and returns its answer.
	Pass(ctx context.Context, address string, r *Request) (json.RawMessage, error)
}

// Resume lets in a request that another gateway passes on over c. It must go on with a suspended request of a client
// without a session, as is fits its principal; its Identity is that client's.
func (cs *Clients) Resume(ctx context.Context, c *Conversation, is func(principal string) bool, m Message, w Writer) (*Request, error) {
	s := cs.suspended.find(m)
	if s == nil || !is(s.principal) || !s.latest().Visitor {
		return nil, ErrNotResumed
	}
	guest := &Conversation{clients: cs, Identity: s.latest().Identity, Visitor: true, passed: true, Requests: c.Requests}
	return guest.Begin(ctx, m, w)
}

// elsewhere returns the address of the gateway that has suspended the request which r goes on with; "" if it is this
// router, or the requestState does not say.
func (all *suspensions) elsewhere(r *Request) string {
	if r.passed || r.clients.Gateways == nil || all.find(r.Message) != nil {
		return ""
	}
	_, address, _ := strings.Cut(all.stateOf(r.Message), "@")
	if address == r.clients.Gateways.Address() { // it has expired
		return ""
	}
	return address
}

// stateOf returns the requestState of a message, "" if it is not ours.
func (all *suspensions) stateOf(m Message) string {
	state, _ := wire.String(wire.Member(m.Params, "requestState"))
	if !strings.HasPrefix(state, all.sealer.prefix) {
		return ""
	}
	return state
}

// find returns the suspended request of the requestState in a message, nil if there is none here.
func (all *suspensions) find(m Message) *suspension {
	id, fingerprint, ok := all.sealer.unseal(all.stateOf(m))
	all.mu.Lock()
	defer all.mu.Unlock()
	if s := all.byID[id]; ok && s != nil && s.fingerprint == fingerprint {
		return s
	}
	return nil
}
