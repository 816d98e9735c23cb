package httpd

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/server/internal/identity"
)

// patience is how long one write may take to a client that does not read, and
// lastPatience when the handler ends.
const (
	patience     = time.Minute
	lastPatience = 2 * time.Second
)

// A response is the writer of all steps of the chain. Its writes fail if the client does not
// read.
type response struct {
	http.ResponseWriter
	control http.ResponseController
	work    *work
	began   time.Time             // when the client could begin to send the body
	held    int64                 // bytes of memory that the body takes
	call    *conversation.Request // the request without a session that is answered; nil before it begins
	grant   *identity.Grant       // of the call
	over    <-chan struct{}       // closed when nothing may be written any more; nil if that can't happen
	refused bool                  // the client may not make the request
	why     string                // the reason for the audit log
}

func newResponse(w http.ResponseWriter, under *work) *response {
	return &response{ResponseWriter: w, control: *http.NewResponseController(w), work: under}
}

// responseOf returns the response that the chain writes to.
func responseOf(w http.ResponseWriter) *response { return w.(*response) }

// Unwrap returns the writer of net/http, for [http.ResponseController].
func (p *response) Unwrap() http.ResponseWriter { return p.ResponseWriter }

var errOver = errors.New("the stream is cut, or another connection follows it")

// Write writes all of b, as long as the client reads.
func (p *response) Write(b []byte) (written int, err error) {
	const chunk = 256 << 10
	if size := int64(len(b)); size > smallBody { // a long answer takes memory as a body does, but is never refused
		p.work.memory.Add(size)
		defer p.work.memory.Add(-size)
	}
	for len(b) > 0 {
		p.control.SetWriteDeadline(time.Now().Add(patience))
		if p.work.ctx.Err() != nil {
			p.control.SetWriteDeadline(time.Now().Add(lastPatience))
		}
		if signal.IsClosed(p.over) { // looked at after the deadline was set: see follow
			return written, errOver
		}
		n, err := p.ResponseWriter.Write(b[:min(len(b), chunk)])
		written += n
		if err != nil {
			return written, err
		}
		b = b[n:]
	}
	return written, nil
}

// hurry makes the request end soon, whatever its client does.
func (p *response) hurry() {
	end := time.Now().Add(lastPatience)
	p.control.SetReadDeadline(end)
	p.control.SetWriteDeadline(end)
}

// refuse answers with a JSON-RPC error; REST style if the request is.
func refuse(w http.ResponseWriter, r *http.Request, status int, id json.RawMessage, err error) {
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		p := responseOf(w)
		if p.refused = true; p.why == "" {
			p.why = err.Error()
		}
	}
	if requestOf(r).target.method != "" {
		writeJSON(w, r, status, wire.Marshal(map[string]error{"error": conversation.AsError(err)}))
		return
	}
	writeJSON(w, r, status, conversation.Refusal(id, err))
}

// deny answers a request that is refused for its client.
func deny(w http.ResponseWriter, r *http.Request, id json.RawMessage, d *identity.Denial) {
	d.Write(w.Header())
	responseOf(w).why = d.Why
	refuse(w, r, d.Status, id, d.Err)
}

// notAllowed refuses the method of the request, and says which one is allowed.
func notAllowed(w http.ResponseWriter, r *http.Request, allowed, why string) {
	w.Header().Set("Allow", allowed)
	refuse(w, r, http.StatusMethodNotAllowed, nil, conversation.InvalidRequest(why))
}

// nothingThere refuses a request for a path that is not served.
func nothingThere(w http.ResponseWriter, r *http.Request) {
	none := "there is nothing at "
	switch to := requestOf(r).target; {
	case to.server != "":
		none = "there is no such server, or not for this client: "
	case to.profile != "":
		none = "there is no such profile, or not for this client: "
	}
	refuse(w, r, http.StatusNotFound, nil, conversation.InvalidRequest(none+conversation.Brief(r.URL.Path)+"; MCP is at /mcp, the dashboard at /"))
}

// Values of headers that all answers share.
var typeJSON, noSniff = []string{"application/json"}, []string{"nosniff"}

// writeJSON answers with one JSON value.
func writeJSON(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	header := w.Header()
	if status == http.StatusUnauthorized && header["Www-Authenticate"] == nil { // "MUST" of RFC 9110
		header.Set("WWW-Authenticate", requestOf(r).client.Challenge())
	}
	header["Content-Type"], header["X-Content-Type-Options"] = typeJSON, noSniff
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body)
}
