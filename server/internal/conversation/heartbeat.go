package conversation

import (
	"bytes"
	"context"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const (
	progressMethod = "notifications/progress"

	// heartbeatEvery is how long the client of a request hears nothing before it is notified
	// that the request is still under way: clients give up after 60 s.
	heartbeatEvery = 15 * time.Second

	// heartbeatStep is by how much a heartbeat raises the progress. It is so small that the
	// first value of a server is nearly always larger.
	heartbeatStep = 1e-6
)

// A heartbeat notifies the client of a request of progress: of the server's, and every
// heartbeatEvery that the server says nothing. "The progress value MUST increase with each
// notification", so a server's value that does not is raised.
type heartbeat struct {
	ctx    context.Context // of the request
	token  []byte
	writer Writer

	mu    sync.Mutex // guards the fields below
	timer *time.Timer
	ended bool
	begun bool    // any progress was sent
	last  float64 // the progress that was sent last
	total []byte  // of the server's last progress; nil without a total
}

// startHeartbeat begins the heartbeat of a request, which must be stopped; nil if the client has not
// asked for progress, or another node notifies it.
func startHeartbeat(r *Request) *heartbeat {
	if !r.how.Asks || r.Meta == nil || r.clients.Raw != nil {
		return nil
	}
	token := wire.Member(r.Meta, "progressToken")
	if token == nil || string(token) == "null" {
		return nil
	}
	b := &heartbeat{ctx: r.ctx, token: token, writer: r.writer}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timer = time.AfterFunc(heartbeatEvery, b.beat)
	return b
}

// stop returns when nothing is sent any more. b may be nil.
func (b *heartbeat) stop() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	b.timer.Stop()
}

// beat sends a heartbeat.
func (b *heartbeat) beat() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || b.ctx.Err() != nil {
		return
	}
	value := b.next()
	params := append([]byte(`{"progressToken":`), b.token...)
	params = strconv.AppendFloat(append(params, `,"progress":`...), value, 'f', -1, 64)
	if total, err := strconv.ParseFloat(string(b.total), 64); err == nil && value <= total {
		params = append(append(params, `,"total":`...), b.total...)
	}
	b.send(session.Message{Method: progressMethod, Params: append(params, '}')}, value)
}

// pass sends the server's progress.
func (b *heartbeat) pass(m session.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	var found [2][]byte
	_ = wire.Pick(m.Params, found[:], "progress", "total")
	b.total = bytes.Clone(found[1]) // the message is a part of a line in a buffer
	value, err := strconv.ParseFloat(string(found[0]), 64)
	switch {
	case err != nil: // not for us to judge
		value = b.last
	case b.begun && value <= b.last:
		value = b.next()
		m.Params = wire.SetMember(m.Params, "progress", strconv.AppendFloat(nil, value, 'f', -1, 64))
	}
	b.send(m, value)
}

// next returns a value above the last one. b.mu must be held.
func (b *heartbeat) next() float64 {
	return max(b.last+heartbeatStep, math.Nextafter(b.last, math.Inf(1)))
}

// send sends a notification with this progress, unless no number is above the last one. b.mu must be
// held, so that values come in order; a Writer does not wait for the client.
func (b *heartbeat) send(m session.Message, value float64) {
	if math.IsInf(value, 1) {
		return
	}
	b.begun, b.last = true, value
	b.timer.Reset(heartbeatEvery)
	Notify(b.writer, m)
}
