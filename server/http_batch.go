package server

import (
	"net/http"

	"go.uber.org/zap"
)

var errNoBatch = invalidRequest("a batch needs a session of a revision that has batches, " + lastWithBatches + " or before; or plain JSON-RPC, with Accept: application/json")

// batch takes a batch, which belongs to a session. It is answered with one array: "The
// SSE stream SHOULD eventually include one JSON-RPC response per each JSON-RPC
// request … These responses MAY be batched."
func (x *exchange) batch(body []byte) {
	if x.r.Header.Get(headerSession) == "" {
		x.refuse(http.StatusBadRequest, nil, errNoBatch)
		return
	}
	s, ok := x.session()
	if !ok {
		return
	}
	defer x.h.release(s)
	err := s.talk.takesBatches()
	var entries [][]byte
	if err == nil {
		entries, err = x.split(body)
	}
	if err != nil {
		x.refuse(http.StatusBadRequest, nil, err)
		return
	}
	if !x.pay(len(entries)) {
		return
	}
	done, err := x.h.admit("")
	if err != nil {
		x.refuse(http.StatusServiceUnavailable, nil, err)
		return
	}
	st := s.newStream()
	b, err := s.talk.beginBatch(x.h.ctx, entries, st, nil)
	if err != nil {
		done()
		x.refuse(http.StatusNotFound, nil, err) // the session has just ended
		return
	}
	x.h.mu.Lock()
	x.h.occupy(s)
	x.h.mu.Unlock()
	st.cut = func() {
		x.h.log.Warn("the client does not read; its batch is cancelled", zap.Int("requests", len(b.requests)))
		for _, r := range b.requests {
			r.end(errUnread)
		}
	}
	x.h.running.Go(func() {
		defer x.h.release(s)
		defer done()
		st.finish(b.run(x.h.ctx))
	})
	x.follows(s, st)
}
