package httpd

import (
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/internal/rate"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// The headers of MCP.
const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
	headerParam   = "Mcp-Param-"
	headerLastID  = "Last-Event-Id"
)

// patience is how long one write may take to a client that does not read, and
// lastPatience when the handler ends.
const (
	patience     = time.Minute
	lastPatience = 2 * time.Second
)

// An exchange is one HTTP request and its response.
type exchange struct {
	w         http.ResponseWriter
	r         *http.Request
	control   *http.ResponseController
	to        route                      // what it asks for
	profile   string                     // that the path names, "" if it names none
	path      string                     // of the request, without the profile that it names
	rest      string                     // the method that the path names, "" if it names none
	rules     *rules                     // in force when the request came
	ending    context.Context            // ends when the handler ends
	current   func() *rules              // returns those in force now
	principal Principal                  // who the client has proved to be
	grant     *grant                     // of the principal; nil until the client is let in
	span      span                       // of the context
	stay      *stay                      // the browser's login; nil if the client has proved itself by a token
	proof     *Proof                     // of the issuer's access token by which the client is let in; nil for none
	proves    func(context.Context) bool // reports whether the client's token or certificate still proves the principal; nil if its grant says that
	wrong     error                      // why the client's access token does not let it in; nil if it has none
	why       string                     // the reason of a refusal for the audit log; "" is the text of the answer
	backend   *Backend                   // the router as the client sees it; nil until the client is let in
	whole     *Backend                   // that with what does more than read, if the client may use only what just reads; else nil
	payer     string                     // the client, for the limiter
	limiter   *rate.Limiter              // of the client; nil if it may make any number of requests
	paid      int                        // requests that the limiter has let pass
	memory    *bodyMemory                // of all requests
	lease     *lease                     // the body's memory; nil if the body is small
	began     time.Time                  // when the request came
	audited   *audited                   // records refusals; nil for none
	over      <-chan struct{}            // closed when nothing may be written any more; nil if that can't happen
}

// begin begins to measure how long the client takes to send the body.
func (x *exchange) begin(now time.Time) {
	x.began = now
	if x.hasBody() { // net/http reads the rest of the body even if the handler does not
		x.control.SetReadDeadline(now.Add(x.rules.timeFor(smallBody)))
	}
}

// hasBody reports whether the request has a body. Over HTTP/2, Body is never
// [http.NoBody].
func (x *exchange) hasBody() bool { return x.r.ContentLength != 0 }

// isRead reports whether the method of the request only reads.
func (x *exchange) isRead() bool {
	return x.r.Method == http.MethodGet || x.r.Method == http.MethodHead
}

// message reads the body of a POST. If it reports false, it has answered with an
// error. A web page can't send a body of this type to another origin without
// permission, as it can send forms.
func (x *exchange) message() (body []byte, ok bool) {
	kind := x.r.Header.Get("Content-Type")
	bare := x.rest != "" && x.r.ContentLength == 0 && kind == ""
	if kind != "application/json" { // as most clients write it
		kind, _, _ = mime.ParseMediaType(kind)
	}
	if kind != "application/json" && !bare {
		x.refuse(http.StatusUnsupportedMediaType, nil, conversation.InvalidRequest("the Content-Type must be application/json"))
		return nil, false
	}
	body, err := x.body()
	if err != nil {
		x.refuseBody(err)
		return nil, false
	}
	if !utf8.Valid(body) {
		x.refuse(http.StatusBadRequest, nil, &session.Error{Code: session.CodeParse, Message: "the body is not UTF-8"})
		return nil, false
	}
	if x.revoked() { // while the body came
		x.refuseRevoked()
		return nil, false
	}
	return body, true
}

// hurry makes the request end soon, whatever its client does.
func (x *exchange) hurry() {
	end := time.Now().Add(lastPatience)
	x.control.SetReadDeadline(end)
	x.control.SetWriteDeadline(end)
}

// accepts reports whether the client accepts answers of the type, and whether it
// names the type.
func accepts(r *http.Request, kind string) (ok, named bool) {
	values := r.Header.Values("Accept")
	family, _, _ := strings.Cut(kind, "/")
	ok = len(values) == 0
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			part, _, _ = strings.Cut(part, ";")
			switch strings.ToLower(strings.TrimSpace(part)) {
			case kind:
				return true, true
			case family + "/*", "*/*":
				ok = true
			}
		}
	}
	return ok, false
}

// refuse answers with a JSON-RPC error; REST style if the request is.
func (x *exchange) refuse(status int, id json.RawMessage, err error) {
	x.auditRefusal(status, err)
	if x.rest != "" {
		x.json(status, wire.Marshal(map[string]error{"error": conversation.AsError(err)}))
		return
	}
	x.json(status, conversation.Refusal(id, err))
}

// notAllowed refuses the method of the request, and says which one is allowed.
func (x *exchange) notAllowed(allowed, why string) {
	x.w.Header().Set("Allow", allowed)
	x.refuse(http.StatusMethodNotAllowed, nil, conversation.InvalidRequest(why))
}

// Values of headers that all answers share.
var typeJSON, noSniff = []string{"application/json"}, []string{"nosniff"}

// json answers with one JSON value.
func (x *exchange) json(status int, body []byte) {
	header := x.w.Header()
	if status == http.StatusUnauthorized && header["Www-Authenticate"] == nil { // "MUST" of RFC 9110
		x.challenge("", "", x.scopesToAsk())
	}
	header["Content-Type"], header["X-Content-Type-Options"] = typeJSON, noSniff
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	x.w.WriteHeader(status)
	x.write(body)
}

// accepted answers a message that has no answer.
func (x *exchange) accepted() { x.w.WriteHeader(http.StatusAccepted) }

var errOver = errors.New("the stream is cut, or another connection follows it")

// write writes all of b, as long as the client reads.
func (x *exchange) write(b []byte) error {
	const chunk = 256 << 10
	if size := int64(len(b)); size > smallBody { // a long answer takes memory as a body does, but is never refused
		x.memory.used.Add(size)
		defer x.memory.used.Add(-size)
	}
	for len(b) > 0 {
		x.control.SetWriteDeadline(time.Now().Add(patience))
		if x.ending.Err() != nil {
			x.control.SetWriteDeadline(time.Now().Add(lastPatience))
		}
		select {
		case <-x.over: // looked at after the deadline was set: see attachment.end
			return errOver
		default:
		}
		n, err := x.w.Write(b[:min(len(b), chunk)])
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// flush has what was written sent.
func (x *exchange) flush() error {
	if err := x.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}
