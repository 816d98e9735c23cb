package httpd

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

const (
	// smallBody is how many bytes of a body are not counted. So a small request is served
	// even if large ones take all memory: the bound on connections bounds these bytes.
	smallBody = 8 << 10

	// firstBytes is how long a client may take to begin with a body, and slowest how many
	// bytes a second must come after that.
	firstBytes = 10 * time.Second
	slowest    = 8 << 10

	// retryBusy is after how many seconds a client shall try again whose body has no room.
	retryBusy = 5
)

// A bodyMemory counts the bytes that the bodies of all requests and the long answers take.
type bodyMemory struct{ used atomic.Int64 }

// take counts n more bytes, unless that would be more than most.
func (m *bodyMemory) take(n, most int64) bool {
	if m.used.Add(n) <= most {
		return true
	}
	m.used.Add(-n)
	return false
}

// A lease is the memory of one body. It is counted until all users have released it. All
// methods may be called on nil, which is the lease of a small body.
type lease struct {
	memory *bodyMemory
	bytes  int64
	users  atomic.Int32
}

// share adds a user.
func (l *lease) share() *lease {
	if l != nil {
		l.users.Add(1)
	}
	return l
}

func (l *lease) release() {
	if l != nil && l.users.Add(-1) == 0 {
		l.memory.used.Add(-l.bytes)
	}
}

var (
	errNoMemory = errors.New("no room for the body")
	errTooSlow  = errors.New("the body came too slowly")
)

// body reads the body. Its memory grows as bytes come, whatever the client has announced.
func (x *exchange) body() ([]byte, error) {
	length := x.r.ContentLength // below 0 if it is not known
	if length > x.rules.maxBody {
		return nil, &http.MaxBytesError{Limit: x.rules.maxBody}
	}
	from, body := io.Reader(x.r.Body), []byte(nil)
	if length < 0 {
		from, body = http.MaxBytesReader(x.w, x.r.Body, x.rules.maxBody), make([]byte, 0, 512)
	} else {
		body = make([]byte, 0, min(length, smallBody-1)+1) // one more, for the read that finds the end
	}
	for {
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case err == io.EOF:
			x.control.SetReadDeadline(time.Time{}) // else a slow answer would look like a client that has gone
			if x.ending.Err() != nil {
				x.hurry()
			}
			return body, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, errTooSlow
		case err != nil:
			return nil, err
		}
		if len(body) == cap(body) {
			if body, err = x.grow(body, length); err != nil {
				return nil, err
			}
		}
	}
}

// grow doubles the memory of a body, of which so many bytes are announced.
func (x *exchange) grow(body []byte, announced int64) ([]byte, error) {
	size := 2 * int64(cap(body))
	if announced >= 0 {
		size = min(size, announced+1)
	}
	if counted := size - smallBody; counted > 0 {
		if x.lease == nil {
			x.lease = (&lease{memory: x.memory}).share()
		}
		if !x.memory.take(counted-x.lease.bytes, x.rules.maxBodyMemory) {
			return nil, errNoMemory
		}
		x.lease.bytes = counted
	}
	x.control.SetReadDeadline(x.began.Add(x.rules.timeFor(size)))
	if x.ending.Err() != nil {
		x.hurry()
	}
	grown := make([]byte, len(body), size)
	copy(grown, body)
	return grown, nil
}

// timeFor returns how long a client may take to send so many bytes.
func (r *rules) timeFor(bytes int64) time.Duration {
	return min(r.readTimeout, firstBytes+time.Duration(bytes)*time.Second/slowest)
}

// refuseBody answers a request whose body could not be read.
func (x *exchange) refuseBody(err error) {
	x.w.Header().Set("Connection", "close") // so that the answer does not wait for the rest of the body
	status, message := http.StatusBadRequest, "the body ended early"
	if tooLong, is := errors.AsType[*http.MaxBytesError](err); is {
		status, message = http.StatusRequestEntityTooLarge, fmt.Sprintf("message longer than %d bytes; send less, or raise http.maxBody in the configuration", tooLong.Limit)
	}
	switch err {
	case errTooSlow:
		status, message = http.StatusRequestTimeout, fmt.Sprintf("the body came too slowly: a client has %v, and a second for each %d bytes, but at most the %v of http.readTimeout", firstBytes, slowest, x.rules.readTimeout)
	case errNoMemory:
		x.w.Header().Set("Retry-After", strconv.Itoa(retryBusy))
		x.refuse(http.StatusServiceUnavailable, nil, &session.Error{
			Code:    session.CodeInternal,
			Message: fmt.Sprintf("busy: all requests together may take %d bytes; try again in %d s, send less, or raise http.maxBodyMemory in the configuration", x.rules.maxBodyMemory, retryBusy),
			Data:    wire.Marshal(map[string]int{"retry_after": retryBusy}),
		})
		return
	}
	x.refuse(status, nil, conversation.InvalidRequest(message))
}

// parseBody is [conversation.Parse] for a message that may have many lines.
func parseBody(body []byte) (wire.Message, error) {
	m, err := conversation.Parse(body)
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
