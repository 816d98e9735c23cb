package httpd

import (
	"net/http"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// refuseCall refuses the call of a tool that the principal may call as soon as its token has the
// scope for calls, and not yet. A client learns that from 403 alone, before any answer begins. It
// reports false for all other messages.
func (v *views) refuseCall(w http.ResponseWriter, r *http.Request, m conversation.Message) bool {
	q := requestOf(r)
	if !q.client.Principal.Reads || m.Method != "tools/call" || !m.IsRequest() {
		return false
	}
	denied := q.client.NeedsCall()
	name, ok := q.called(m)
	if denied == nil || !ok || exposure.IsOwn(name) {
		return false
	}
	if _, ok := q.backend.Catalog.Listed(name); ok {
		return false
	}
	whole, ok := v.of(q.target.profile, q.client.Principal.Profile, false)
	if !ok {
		return false
	}
	if _, ok := whole.Catalog.Listed(name); !ok {
		return false // no server has it, or the profile does not allow it
	}
	deny(w, r, m.ID, denied)
	return true
}

// refuseCalls is refuseCall for the messages of a batch: one of them is enough.
func (v *views) refuseCalls(w http.ResponseWriter, r *http.Request, entries [][]byte) bool {
	q := requestOf(r)
	if !q.client.Principal.Reads {
		return false
	}
	for _, entry := range entries {
		if m, err := parsePlain(entry); err == nil && v.refuseCall(w, r, m) {
			return true
		}
	}
	return false
}

// called returns the name of the tool that tools/call calls, also by our own call_tool.
func (q *request) called(m conversation.Message) (name string, ok bool) {
	name, ok = wire.String(m.Name)
	if !ok || q.backend.Catalog.Unprefixed(name) != "call_tool" {
		return name, ok
	}
	for _, argument := range []string{"tool", "name"} {
		if inner, ok := wire.String(wire.Member(m.Args, argument)); ok {
			return inner, true
		}
	}
	return "", false
}
