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
	if err := conversation.TakesBatches(s.conversation); err != nil {
		refuse(w, r, http.StatusBadRequest, nil, err)
		return
	}
	entries, ok := t.entries(w, r, body)
	if !ok {
		return
	}
	st := s.newStream()
	b, err := conversation.BeginBatch(requestOf(r).client.WithSubject(t.work.ctx), s.conversation, entries, st)
	if err != nil {
		t.work.answered("")
		refuse(w, r, http.StatusNotFound, nil, err) // the session has just ended
		return
	}
	(&reply{stream: st, of: t, w: w, r: r, session: s, batch: b}).send()
}

// entries returns the messages of a batch, which the handler's work admits. If it reports false, it has answered with an error.
func (t *streamable) entries(w http.ResponseWriter, r *http.Request, body []byte) (entries [][]byte, ok bool) {
	q := requestOf(r)
	most := conversation.MaxBatch
	if q.quota.limiter != nil {
		most = min(most, q.quota.limiter.Burst) // a larger one could never be let in
	}
	entries, err := conversation.Split(body, most)
	if err != nil {
		refuse(w, r, http.StatusBadRequest, nil, err)
		return nil, false
	}
	wire.OneLine(body)
	if !pay(w, r, len(entries)) || t.views.refuseCalls(w, r, entries) {
		return nil, false
	}
	if err = t.work.admit(""); err != nil {
		refuse(w, r, http.StatusServiceUnavailable, nil, err)
	}
	return entries, err == nil
}
