package httpd

import (
	"net/http"

	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

var errNoBatch = conversation.InvalidRequest("a batch needs a session of a revision that has batches, " + conversation.LastWithBatches + " or before; or plain JSON-RPC, with Accept: application/json")

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
	entries, ok := t.views.batch(w, r, body, t.work, func(error) int { return http.StatusBadRequest })
	if !ok {
		return
	}
	st := s.newStream()
	b, err := conversation.BeginBatch(t.work.ctx, s.conversation, entries, st)
	if err != nil {
		t.work.answered("")
		refuse(w, r, http.StatusNotFound, nil, err) // the session has just ended
		return
	}
	(&reply{stream: st, of: t, w: w, r: r, session: s, batch: b}).send()
}

// batch returns the messages of a batch, which under admits. If it reports false, it has answered with an error,
// one in the batch itself with its status.
func (v *views) batch(w http.ResponseWriter, r *http.Request, body []byte, under *work, status func(error) int) (entries [][]byte, ok bool) {
	q := requestOf(r)
	most := q.rules.MaxBatch
	if q.quota.limiter != nil {
		most = min(most, q.quota.limiter.Burst) // a larger one could never be let in
	}
	entries, err := conversation.Split(body, most)
	if err != nil {
		refuse(w, r, status(err), nil, err)
		return nil, false
	}
	oneLine(body)
	if !pay(w, r, len(entries)) || v.refuseCalls(w, r, entries) {
		return nil, false
	}
	if err = under.admit(""); err != nil {
		refuse(w, r, http.StatusServiceUnavailable, nil, err)
	}
	return entries, err == nil
}
