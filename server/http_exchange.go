package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
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
// lastPatience that when all ends.
const (
	patience     = time.Minute
	lastPatience = 2 * time.Second
)

// An exchange is one HTTP request and its response.
type exchange struct {
	h         *Handler
	w         http.ResponseWriter
	r         *http.Request
	control   *http.ResponseController
	rest      string          // the method that the path names, "" if it names none
	principal string          // who asks; "" if nobody was asked for a token
	payer     string          // by what it is told from others that are held back
	paid      int             // of the requests that it may make
	over      <-chan struct{} // closed when nothing must be written any more; nil if that can't be
}

// message reads the body of a POST. When it reports false, that it can't was said. No
// web page can send a body of this type to another origin unasked, as it can forms.
func (x *exchange) message() (body []byte, ok bool) {
	kind, _, _ := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	bare := x.rest != "" && x.r.ContentLength == 0 && x.r.Header.Get("Content-Type") == ""
	if kind != "application/json" && !bare {
		x.refuse(http.StatusUnsupportedMediaType, nil, invalidRequest("the Content-Type must be application/json"))
		return nil, false
	}
	body, err := x.body()
	if tooLong, is := errors.AsType[*http.MaxBytesError](err); is {
		x.refuse(http.StatusRequestEntityTooLarge, nil, invalidRequest(fmt.Sprintf("message longer than %d bytes; send less, or raise http.maxBody in the configuration", tooLong.Limit)))
		return nil, false
	} else if err != nil {
		x.refuse(http.StatusBadRequest, nil, invalidRequest("the body ended early"))
		return nil, false
	} else if !utf8.Valid(body) {
		x.refuse(http.StatusBadRequest, nil, &session.Error{Code: session.CodeParse, Message: "the body is no UTF-8"})
		return nil, false
	}
	return body, true
}

func (x *exchange) body() ([]byte, error) {
	if x.r.ContentLength > x.h.opts.MaxBody {
		return nil, &http.MaxBytesError{Limit: x.h.opts.MaxBody}
	}
	var body bytes.Buffer
	body.Grow(int(min(max(x.r.ContentLength, 0), 1<<20)) + bytes.MinRead)
	if _, err := body.ReadFrom(http.MaxBytesReader(x.w, x.r.Body, x.h.opts.MaxBody)); err != nil {
		return nil, err
	}
	x.control.SetReadDeadline(time.Time{}) // else a slow answer would look like a client that has gone
	if x.h.ctx.Err() != nil {
		x.hurry()
	}
	return body.Bytes(), nil
}

// hurry has the request end soon, whatever its client does.
func (x *exchange) hurry() {
	end := time.Now().Add(lastPatience)
	x.control.SetReadDeadline(end)
	x.control.SetWriteDeadline(end)
}

// parseBody is parse for a message that may have many lines.
func parseBody(body []byte) (wire.Message, error) {
	m, err := parse(body)
	if err == nil {
		oneLine(body)
	}
	return m, err
}

// oneLine makes valid JSON one line, since that is what messages are elsewhere.
func oneLine(b []byte) {
	for i, c := range b {
		if c == '\n' || c == '\r' {
			b[i] = ' '
		}
	}
}

// accepts reports whether the client takes answers of the type. named is whether
// it says so in so many words.
func (x *exchange) accepts(kind string) (ok, named bool) {
	values := x.r.Header.Values("Accept")
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
	if x.rest != "" {
		x.json(status, wire.Marshal(map[string]error{"error": asError(err)}))
		return
	}
	x.json(status, refusal(id, err))
}

// notAllowed refuses the method of the request, and says which one is allowed.
func (x *exchange) notAllowed(allowed, why string) {
	x.w.Header().Set("Allow", allowed)
	x.refuse(http.StatusMethodNotAllowed, nil, invalidRequest(why))
}

// json answers with one JSON value.
func (x *exchange) json(status int, body []byte) {
	header := x.w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("X-Content-Type-Options", "nosniff")
	x.w.WriteHeader(status)
	x.write(body)
}

// accepted answers a message that has no answer.
func (x *exchange) accepted() { x.w.WriteHeader(http.StatusAccepted) }

var errOver = errors.New("the stream is cut, or another connection follows it")

// write writes all of b, as long as the client reads.
func (x *exchange) write(b []byte) error {
	const chunk = 256 << 10
	for len(b) > 0 {
		x.control.SetWriteDeadline(time.Now().Add(patience))
		if x.h.ctx.Err() != nil {
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

// startEvents begins a stream of server-sent events.
func (x *exchange) startEvents() {
	header := x.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache, no-transform")
	header.Set("X-Accel-Buffering", "no")
	x.w.WriteHeader(http.StatusOK)
}

// comment writes what clients ignore and proxies pass on.
func (x *exchange) comment(text string) error {
	if err := x.write([]byte(": " + text + "\n\n")); err != nil {
		return err
	}
	return x.flush()
}

// event writes a message. An empty id is left out.
func (x *exchange) event(id string, message []byte) error {
	message = bytes.TrimSuffix(message, []byte("\n"))
	if bytes.IndexByte(message, '\n') >= 0 || bytes.IndexByte(message, '\r') >= 0 {
		message = bytes.Clone(message)
		oneLine(message)
	}
	head := "event: message\ndata: "
	if id != "" {
		head = "id: " + id + "\n" + head
	}
	if len(message) < 4<<10 {
		return x.write(append(append(make([]byte, 0, len(head)+len(message)+2), head...), string(message)+"\n\n"...))
	}
	if err := x.write([]byte(head)); err != nil {
		return err
	}
	if err := x.write(message); err != nil {
		return err
	}
	return x.write([]byte("\n\n"))
}

// follow writes the events behind the numbered one as they come, until the stream
// ends, the client leaves or another connection takes over. hello begins the
// response. It reports false if a connection follows the stream already and must
// not be replaced.
func (x *exchange) follow(s *stream, number int, replace bool, hello func() error) bool {
	over := make(chan struct{})
	at := &attachment{over: over, abort: func() { x.control.SetWriteDeadline(time.Now()) }}
	number, ok := s.attach(at, number, replace)
	if !ok {
		return false
	}
	defer s.detach(at)
	x.over = over
	x.startEvents()
	err := hello()
	quiet := time.NewTicker(keepAlive)
	defer quiet.Stop()
	for err == nil {
		events, more, changed := s.after(number)
		if len(events) > 0 {
			number, err = x.events(s, events)
			continue
		}
		if !more {
			return true
		}
		select {
		case <-changed:
		case <-quiet.C:
			err = x.comment("still here")
		case <-over:
			return true
		case <-x.r.Context().Done():
			return true
		}
	}
	return true
}

// events writes events of the stream, and returns the number of the last.
func (x *exchange) events(s *stream, events []event) (last int, err error) {
	for _, e := range events {
		if err := x.event(s.eventID(e.number), e.message); err != nil {
			return last, err
		}
		last = e.number
	}
	if err := x.flush(); err != nil {
		return last, err
	}
	s.wrote(last)
	return last, nil
}

// hello begins a stream on which nothing has happened yet.
func (x *exchange) hello() error { return x.comment("open") }

func invalidRequest(message string) error {
	return &session.Error{Code: session.CodeInvalidRequest, Message: message}
}
