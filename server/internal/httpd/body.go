package httpd

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"time"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/server/internal/identity"
)

const (
	// smallBody is how many bytes of a body are not counted. So a small request is served
	// even if large ones take all memory: the bound on connections bounds these bytes.
	smallBody = 8 << 10

	// firstBytes is how long a client may take to begin with a body, and slowest how many
	// bytes a second must come after that.
	firstBytes = 10 * time.Second
	slowest    = 8 << 10

	readTimeout = time.Minute // for a client to send a body of any size

	// retryBusy is after which time a client shall try again if its body has no room.
	retryBusy = 5 * time.Second
)

var (
	errNoMemory = errors.New("no room for the body")
	errTooSlow  = errors.New("the body came too slowly")
)

// message reads the body of a POST. If it reports false, it has answered with an
// error. A web page can't send a body of this type to another origin without
// permission, as it can send forms.
func message(w http.ResponseWriter, r *http.Request) (body []byte, ok bool) {
	q := requestOf(r)
	kind := r.Header.Get("Content-Type")
	bare := q.target.method != "" && r.ContentLength == 0 && kind == ""
	if kind != "application/json" { // as most clients write it
		kind, _, _ = mime.ParseMediaType(kind)
	}
	if kind != "application/json" && !bare {
		refuse(w, r, http.StatusUnsupportedMediaType, nil, conversation.InvalidRequest("the Content-Type must be application/json"))
		return nil, false
	}
	body, err := responseOf(w).body(r)
	switch {
	case err != nil:
		refuseBody(w, r, err)
	case !utf8.Valid(body):
		refuse(w, r, http.StatusBadRequest, nil, &session.Error{Code: session.CodeParse, Message: "the body is not UTF-8"})
	case q.revoked(): // while the body came
		deny(w, r, nil, q.client.Revoked())
	default:
		return body, true
	}
	return nil, false
}

// expectBody begins to measure how long the client takes to send the body.
func (p *response) expectBody(r *http.Request) {
	p.began = time.Now()
	if hasBody(r) { // net/http reads the rest of the body even if the handler does not
		p.control.SetReadDeadline(p.began.Add(timeFor(smallBody)))
	}
}

// body reads the body. Its memory grows as bytes come, whatever the client has announced.
func (p *response) body(r *http.Request) ([]byte, error) {
	length, most := r.ContentLength, requestOf(r).rules.MaxBody // length is below 0 if it is not known
	if length > most {
		return nil, &http.MaxBytesError{Limit: most}
	}
	from, body := io.Reader(r.Body), []byte(nil)
	if length < 0 {
		from, body = http.MaxBytesReader(p.ResponseWriter, r.Body, most), make([]byte, 0, 512)
	} else {
		body = make([]byte, 0, min(length, smallBody-1)+1) // one more, for the read that finds the end
	}
	for {
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case err == io.EOF:
			p.readUntil(time.Time{}) // else a slow answer would look like a client that has gone
			return body, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, errTooSlow
		case err != nil:
			return nil, err
		}
		if len(body) == cap(body) {
			if body, err = p.grow(body, length, requestOf(r).rules); err != nil {
				return nil, err
			}
		}
	}
}

// grow doubles the memory of a body, of which so many bytes are announced.
func (p *response) grow(body []byte, announced int64, rules *rules) ([]byte, error) {
	size := 2 * int64(cap(body))
	if announced >= 0 {
		size = min(size, announced+1)
	}
	if more := size - smallBody - p.held; more > 0 {
		if p.work.memory.Add(more) > rules.MaxBodyMemory {
			p.work.memory.Add(-more)
			return nil, errNoMemory
		}
		p.held += more
	}
	p.readUntil(p.began.Add(timeFor(size)))
	grown := make([]byte, len(body), size)
	copy(grown, body)
	return grown, nil
}

// readUntil bounds the time of reads, which is short when the handler ends.
func (p *response) readUntil(end time.Time) {
	if p.control.SetReadDeadline(end); p.work.ctx.Err() != nil {
		p.hurry()
	}
}

// releaseBody gives the memory of the body back.
func (p *response) releaseBody() {
	p.work.memory.Add(-p.held)
	p.held = 0
}

// timeFor returns how long a client may take to send so many bytes.
func timeFor(bytes int64) time.Duration {
	return min(readTimeout, firstBytes+time.Duration(bytes)*time.Second/slowest)
}

// refuseBody answers a request with a body that could not be read.
func refuseBody(w http.ResponseWriter, r *http.Request, err error) {
	w.Header().Set("Connection", "close") // so that the answer does not wait for the rest of the body
	status, message := http.StatusBadRequest, "the body ended early"
	if tooLong, is := errors.AsType[*http.MaxBytesError](err); is {
		status, message = http.StatusRequestEntityTooLarge, fmt.Sprintf("message longer than %d bytes; send less, or raise http.maxBody in the configuration", tooLong.Limit)
	}
	switch err {
	case errTooSlow:
		status, message = http.StatusRequestTimeout, fmt.Sprintf("the body came too slowly: a client has %v, and a second for each %d bytes, but at most %v", firstBytes, slowest, readTimeout)
	case errNoMemory:
		deny(w, r, nil, identity.Busy(http.StatusServiceUnavailable, retryBusy, fmt.Sprintf("busy: all requests together may take %d bytes; send less, or raise http.maxBodyMemory in the configuration", requestOf(r).rules.MaxBodyMemory)))
		return
	}
	refuse(w, r, status, nil, conversation.InvalidRequest(message))
}
