package httpd

import (
	"net/http"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

var errNoBatch = conversation.InvalidRequest("only sessions of " + conversation.WithBatches + " have batches: send each message by itself")

// batch takes a batch of messages, which must belong to a session. It is answered with one array: "The
// SSE stream SHOULD eventually include one JSON-RPC response per each JSON-RPC
// request … These responses MAY be batched."
func (t *streamable) batch(w http.ResponseWriter, r *http.Request, body []byte) {
	if r.Header.Get(headerSession) == "" {
		refuse(w, r, http.StatusBadRequest, nil, errNoBatch)
		return
	}
	s, ok := t.session(w, r)
	if !ok {
		return
	}
	defer t.sessions.release(s)
	q := requestOf(r)
	most := conversation.MaxBatch
	if q.quota.limiter != nil {
		most = min(most, q.quota.limiter.Burst) // a larger one could never be let in
	}
	var entries [][]byte
	err := conversation.TakesBatches(s.conversation)
	if err == nil {
		entries, err = conversation.Split(body, most)
	}
	if err != nil {
		refuse(w, r, http.StatusBadRequest, nil, err)
		return
	}
	wire.OneLine(body)
	if !pay(w, r, len(entries)) || t.backends.refuseCalls(w, r, entries) {
		return
	}
	if err := t.work.admit(""); err != nil {
		refuse(w, r, http.StatusServiceUnavailable, nil, err)
		return
	}
	st := s.newStream()
	b, err := conversation.BeginBatch(q.client.WithSubject(t.work.ctx), s.conversation, entries, st)
	if err != nil {
		t.work.answered("")
		refuse(w, r, http.StatusNotFound, nil, err) // the session has just ended
		return
	}
	(&reply{stream: st, of: t, w: w, r: r, session: s, batch: b}).send()
}
