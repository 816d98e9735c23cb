package httpd

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// follow writes the events behind the numbered one as they come, until the stream
// ends, the client leaves or may not be served any more, or another connection takes over, as this one does if a
// connection follows the stream already. begin begins the response. The number is unwritten for the last event that was written.
func follow(w http.ResponseWriter, r *http.Request, s *stream, number int, begin func(http.ResponseWriter) error) {
	p := responseOf(w)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(requestOf(r).client.Grant.Context, cancel)()
	at := &attachment{left: make(chan struct{}), end: func() {
		cancel()
		p.control.SetWriteDeadline(time.Now()) // of a write that is blocked
	}}
	before := s.attach(at)
	defer s.detach(at)
	if before != nil { // events that it has just written must not be written again
		select {
		case <-before.left:
		case <-ctx.Done():
			return
		}
	}
	p.over = ctx.Done()
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache, no-transform")
	header.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	err := begin(w)
	quiet := time.NewTicker(keepAlive)
	defer quiet.Stop()
	for err == nil {
		messages, first, more, changed := s.after(number)
		if len(messages) > 0 {
			number, err = writeEvents(w, s, first, messages)
			continue
		}
		if !more {
			return
		}
		select {
		case <-changed:
		case <-quiet.C:
			err = comment(w, "still here")
		case <-ctx.Done():
			return
		}
	}
}

// writeEvents writes messages of the stream, as events from the first number on, and returns the number of the last.
func writeEvents(w http.ResponseWriter, s *stream, first int, messages [][]byte) (last int, err error) {
	for i, message := range messages {
		last = first + i
		if err := writeEvent(w, s.eventID(last), message); err != nil {
			return last, err
		}
	}
	if err := responseOf(w).control.Flush(); err != nil {
		return last, err
	}
	s.wrote(last)
	return last, nil
}

// hello begins a stream on which nothing has happened yet.
func hello(w http.ResponseWriter) error { return comment(w, "open") }

// prefersStream reports whether the client names event streams before JSON in Accept. The conformance suite does, where it looks at
// streams (SEP-1699).
func prefersStream(r *http.Request) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	stream, object := strings.Index(accept, "text/event-stream"), strings.Index(accept, "application/json")
	return stream >= 0 && stream < object
}

// comment writes a line that clients ignore and proxies pass on.
func comment(w http.ResponseWriter, text string) error { return writeNow(w, ": "+text+"\n\n") }

// writeNow writes a text of a stream, which the client gets at once.
func writeNow(w http.ResponseWriter, text string) error {
	if _, err := w.Write([]byte(text)); err != nil {
		return err
	}
	return responseOf(w).control.Flush()
}

// writeEvent writes a message. An empty id is left out.
func writeEvent(w http.ResponseWriter, id string, message []byte) error {
	message = bytes.TrimSuffix(message, []byte("\n"))
	if wire.HasLineEnd(message) {
		message = bytes.Clone(message)
		oneLine(message)
	}
	head := "event: message\ndata: "
	if id != "" {
		head = "id: " + id + "\n" + head
	}
	for _, part := range [][]byte{[]byte(head), message, []byte("\n\n")} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}
