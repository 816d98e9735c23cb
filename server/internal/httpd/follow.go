package httpd

import (
	"bytes"
	"net/http"
	"strings"
	"time"
)

// follow writes the events behind the numbered one as they come, until the stream
// ends, the client leaves or another connection takes over. begin begins the
// response. It reports false if a connection follows the stream already and must
// not be replaced. The number is unwritten for the last event that was written.
func follow(w http.ResponseWriter, r *http.Request, s *stream, number int, replace bool, begin func(http.ResponseWriter) error) bool {
	p, revoked := responseOf(w), requestOf(r).client.grant.ctx.Done()
	over := make(chan struct{})
	at := &attachment{over: over, left: make(chan struct{}), abort: func() { p.control.SetWriteDeadline(time.Now()) }}
	before, ok := s.attach(at, replace)
	if !ok {
		return false
	}
	defer s.detach(at)
	if before != nil { // what it has just written must not be written again
		select {
		case <-before.left:
		case <-revoked:
			return true
		case <-r.Context().Done():
			return true
		}
	}
	p.over = over
	startEvents(w)
	err := begin(w)
	quiet := time.NewTicker(keepAlive)
	defer quiet.Stop()
	for err == nil {
		events, more, changed := s.after(number)
		if len(events) > 0 {
			number, err = writeEvents(w, s, events)
			continue
		}
		if !more {
			return true
		}
		select {
		case <-changed:
		case <-quiet.C:
			err = comment(w, "still here")
		case <-over:
			return true
		case <-revoked:
			return true
		case <-r.Context().Done():
			return true
		}
	}
	return true
}

// writeEvents writes events of the stream, and returns the number of the last.
func writeEvents(w http.ResponseWriter, s *stream, events []event) (last int, err error) {
	for _, e := range events {
		if err := writeEvent(w, s.eventID(e.number), e.message); err != nil {
			return last, err
		}
		last = e.number
	}
	if err := flush(w); err != nil {
		return last, err
	}
	s.wrote(last)
	return last, nil
}

// hello begins a stream on which nothing has happened yet.
func hello(w http.ResponseWriter) error { return comment(w, "open") }

// prefersStream reports whether the client names event streams before JSON in
// Accept, as few do.
func prefersStream(r *http.Request) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	stream, object := strings.Index(accept, "text/event-stream"), strings.Index(accept, "application/json")
	return stream >= 0 && stream < object
}

// startEvents begins a stream of server-sent events.
func startEvents(w http.ResponseWriter) {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache, no-transform")
	header.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
}

// comment writes what clients ignore and proxies pass on.
func comment(w http.ResponseWriter, text string) error {
	if _, err := w.Write([]byte(": " + text + "\n\n")); err != nil {
		return err
	}
	return flush(w)
}

// writeEvent writes a message. An empty id is left out.
func writeEvent(w http.ResponseWriter, id string, message []byte) error {
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
		_, err := w.Write(append(append(make([]byte, 0, len(head)+len(message)+2), head...), string(message)+"\n\n"...))
		return err
	}
	for _, part := range [][]byte{[]byte(head), message, []byte("\n\n")} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}
