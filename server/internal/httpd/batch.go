package httpd

import (
	"net/http"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

var errNoBatch = conversation.InvalidRequest("a batch needs a session of a revision that has batches, " + conversation.LastWithBatches + " or before; or plain JSON-RPC, with Accept: application/json")

// batch takes a batch of messages, which must belong to a session. It is answered with one array: "The
// SSE stream SHOULD eventually include one JSON-RPC response per each JSON-RPC
// request … These responses MAY be batched."
func (t *streamable) batch(w http.ResponseWriter, r *http.Request, body []byte) {
	q := requestOf(r)
	if r.Header.Get(headerSession) == "" {
		refuse(w, r, http.StatusBadRequest, nil, errNoBatch)
		return
	}
	s, ok := t.session(w, r)
	if !ok {
		return
	}
	defer t.sessions.release(s)
	err := conversation.TakesBatches(s.conversation)
	var entries [][]byte
	if err == nil {
		entries, err = split(body, q.maxBatch())
	}
	if err != nil {
		refuse(w, r, http.StatusBadRequest, nil, err)
		return
	}
	if !pay(w, r, len(entries)) || t.views.refuseCalls(w, r, entries) {
		return
	}
	done, err := t.work.admit("")
	if err != nil {
		refuse(w, r, http.StatusServiceUnavailable, nil, err)
		return
	}
	st := s.newStream()
	b, err := conversation.BeginBatch(t.work.ctx, s.conversation, entries, st)
	if err != nil {
		done()
		refuse(w, r, http.StatusNotFound, nil, err) // the session has just ended
		return
	}
	st.cut = func() {
		t.log.Warn("the client does not read; its batch is cancelled", zap.Int("requests", len(b.Requests)))
		for _, r := range b.Requests {
			r.Cancel(conversation.ErrUnread)
		}
	}
	p := t.lasting(s, st, func() []byte { return b.Run(t.work.ctx) }, done)
	p.send(w, r)
}
