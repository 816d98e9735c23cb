package daemon

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const (
	// maxOpen bounds the open requests of a Relay: more than the router allows, so that also those
	// on the way to its refusal are answered if it ends. maxOpenBytes bounds
	// the bytes of all those that the Relay keeps, to send them again, and maxSingle of one.
	maxOpen      = 10_000
	maxOpenBytes = 16 << 20
	maxSingle    = 256 << 10

	// maxKept bounds the messages with a lasting effect, in bytes.
	maxKept = 128 << 10

	// maxAnswer bounds a message of the router, in bytes.
	maxAnswer = 2 * wire.MaxLine

	// readerCheck is how often a Relay looks whether the client still reads, once its input has ended.
	readerCheck = time.Second
)

// A Conn is a connection with a router: MCP, one message a line.
type Conn interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// A Relay copies messages between a client and the router that serves it. When the router ends,
// another one goes on: it gets the messages with a lasting effect again (initialize, the log level, the
// subscriptions to resources), then all requests without an answer, with the mark [session.Resent].
//
//	client ─▶ In ─▶ readClient ─▶ note ─▶ router
//	client ◀─ Out ◀──── settle ◀─ readRouter ◀─┘
//
// What is kept of a client is bounded: a request that is too large, or in a batch, is answered with
// [session.ErrEnded] instead.
type Relay struct {
	In  io.Reader
	Out io.Writer

	// Connect finds a router: at first, and each time that the one before has ended, or was left for
	// another one. An error of Connect ends Run.
	Connect func(ctx context.Context, left bool) (Conn, error)

	writing sync.Mutex // held while a message is written to router, and while there is no router
	router  Conn
	away    bool       // the router was left for another one, which is looked for
	there   *sync.Cond // for away to be false
	answers sync.Mutex // held while a message is written to Out

	mu     sync.Mutex // guards the fields below
	sent   int        // messages of the client so far
	open   map[string]request
	size   int // bytes of the lines in open
	kept   []keptMessage
	ignore map[string]bool // ids of replayed requests that the client has the answers to
	ended  bool            // the client's input
	left   bool            // the client
}

// A request has no answer yet.
type request struct {
	order int
	line  []byte // nil if it can't be sent again
	stays bool   // it is answered when the client ends it, and need not be awaited
}

// A keptMessage is a message of the client that has a lasting effect, until another one of the same
// key comes.
type keptMessage struct {
	key, id string
	order   int
	line    []byte
}

// Run copies messages until the client or ctx ends: the client's input has ended and all its requests
// are answered, or the client does not read any more. When ctx ends, the open requests are cancelled.
func (r *Relay) Run(ctx context.Context) error {
	r.open, r.ignore = make(map[string]request), make(map[string]bool)
	r.there = sync.NewCond(&r.writing)
	done := make(chan struct{})
	defer close(done)
	r.writing.Lock()
	go r.readClient(done)
	for routers := 0; ; routers++ {
		router, err := r.Connect(ctx, r.away)
		if ctx.Err() != nil && router == nil {
			return nil
		}
		if err != nil {
			return err // readClient, if it waits, waits until the process ends
		}
		r.router, r.away = router, false
		r.there.Broadcast()
		resumed := make(chan struct{})
		go func() { // while its answers are read, so that neither waits for the other
			defer close(resumed)
			defer r.writing.Unlock()
			r.resume(routers)
		}()
		stop := context.AfterFunc(ctx, r.cancelAll)
		serving, ended := context.WithCancel(ctx)
		if leaving, ok := router.(leaver); ok {
			go r.leave(serving, leaving)
		}
		err = r.readRouter(router)
		ended()
		router.Close() // which ends a write to it
		<-resumed
		stop()
		r.writing.Lock()
		if err != nil || ctx.Err() != nil || r.over() {
			return nil // if Out fails, the client has gone
		}
	}
}

// over reports whether the client needs no other router.
func (r *Relay) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left || r.ended && len(r.open) == 0
}

// readClient passes on messages of the client until its input ends. Then it looks now and then whether
// the client still reads.
func (r *Relay) readClient(done <-chan struct{}) {
	lines := wire.NewReader(r.In, wire.MaxLine)
	for {
		line, err := lines.Next()
		if errors.Is(err, wire.ErrTooLong) {
			r.refuse("null", &session.Error{Code: session.CodeInvalidRequest, Message: fmt.Sprintf("message longer than %d MiB", wire.MaxLine>>20)})
			continue
		}
		if err != nil {
			break
		}
		r.writing.Lock()
		for r.away {
			r.there.Wait()
		}
		r.note(line)
		r.router.Write(append(line, '\n')) // if it fails, readRouter ends too, and the next router gets the request
		r.writing.Unlock()
	}
	r.writing.Lock()
	for r.away {
		r.there.Wait()
	}
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.router.CloseWrite()
	r.writing.Unlock()
	for out, tells := r.Out.(interface{ HasReader() bool }); tells && !signal.Within(done, readerCheck); {
		if !out.HasReader() {
			r.cancelAll()
			return
		}
	}
}

// note remembers the parts of a message that the next router will need.
func (r *Relay) note(line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if line[0] == '[' {
		for one := range wire.Values(line) {
			one = bytes.Clone(one)
			if m, err := wire.Parse(one); err == nil {
				r.noteMessage(m, one, false)
			}
		}
		return
	}
	if m, err := wire.Parse(line); err == nil {
		r.noteMessage(m, line, true)
	}
}

// noteMessage is note for a message by itself, or one of a batch, which is not sent again.
func (r *Relay) noteMessage(m wire.Message, line []byte, alone bool) {
	r.sent++
	id := string(m.ID)
	switch m.Method {
	case "initialize", "notifications/initialized", "logging/setLevel":
		r.keep(keptMessage{m.Method, id, r.sent, line})
	case "resources/subscribe":
		r.keep(keptMessage{resourceKey(m), id, r.sent, line})
	case "resources/unsubscribe":
		r.keep(keptMessage{key: resourceKey(m)})
	case "notifications/cancelled": // which is answered no more
		r.settle(string(wire.Member(m.Params, "requestId")))
	}
	if _, used := r.open[id]; used || !m.IsRequest() || len(r.open) == maxOpen {
		return // if the id is used, the router refuses it without the id
	}
	if !alone || len(line) > maxSingle || r.size+len(line) > maxOpenBytes {
		line = nil
	}
	r.size += len(line)
	r.open[id] = request{r.sent, line, m.Method == "subscriptions/listen"}
}

func resourceKey(m wire.Message) string { return "resource " + string(wire.Member(m.Params, "uri")) }

// keep keeps a message instead of the one with the same key. It only forgets the old one if the message has no line
// or is too large. r.mu must be held.
func (r *Relay) keep(message keptMessage) {
	r.kept = slices.DeleteFunc(r.kept, func(k keptMessage) bool { return k.key == message.key })
	size := len(message.line)
	for _, k := range r.kept {
		size += len(k.line)
	}
	if message.line != nil && size <= maxKept {
		r.kept = append(r.kept, message)
	}
}

// settle forgets the request of an id. It reports false if the client must not have the answer.
// r.mu must be held.
func (r *Relay) settle(id string) bool {
	if r.ignore[id] {
		delete(r.ignore, id)
		return false
	}
	r.size -= len(r.open[id].line)
	delete(r.open, id)
	return true
}

// readRouter passes on messages of the router until that ends. A message that was cut off then is
// no message. An error is an error of Out.
func (r *Relay) readRouter(router io.Reader) error {
	lines := wire.NewReader(router, maxAnswer)
	for {
		line, err := lines.Next()
		if err != nil {
			return nil
		}
		if !r.answered(line) {
			continue
		}
		if err := r.write(append(line, '\n')); err != nil {
			return err
		}
	}
}

// answered notes which requests a message of the router answers. It reports false if the message is not for
// the client.
func (r *Relay) answered(line []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if line[0] == '[' {
		return wire.Valid(line) && wire.Elements(line, func(one []byte) bool {
			r.settle(string(wire.Member(one, "id")))
			return true
		}) == nil
	}
	m, err := wire.Parse(line)
	return err == nil && (m.Method != "" || r.settle(string(m.ID)))
}

// resume brings a router to where the one before was, if there was one. r.writing must be held.
func (r *Relay) resume(routers int) {
	r.mu.Lock()
	var lines [][]byte
	var lost []string
	if routers > 0 {
		lines, lost = r.replay(routers)
	}
	ended := r.ended
	r.mu.Unlock()
	for _, id := range lost {
		r.refuse(id, session.ErrEnded)
	}
	for _, line := range lines {
		r.router.Write(append(line, '\n'))
	}
	if ended {
		r.router.CloseWrite()
	}
}

// replay returns the messages that the next router gets again. It forgets the open requests that it
// can't get, and returns their ids. r.mu must be held.
func (r *Relay) replay(routers int) (lines [][]byte, lost []string) {
	clear(r.ignore)
	again := make(map[string]bool) // ids of open requests among the kept messages
	for i, k := range r.kept {
		line := marked(k.line)
		if o, open := r.open[k.id]; open && o.order == k.order {
			again[k.id] = true
		} else if k.id != "" {
			id := fmt.Sprintf(`"replay %d.%d"`, routers, i)
			r.ignore[id] = true
			line = wire.SetMember(line, "id", []byte(id))
		}
		lines = append(lines, line)
	}
	for _, id := range slices.SortedFunc(maps.Keys(r.open), func(a, b string) int { return cmp.Compare(r.open[a].order, r.open[b].order) }) {
		switch line := r.open[id].line; {
		case again[id]:
		case line != nil:
			lines = append(lines, marked(line))
		default:
			lost = append(lost, id)
			delete(r.open, id)
		}
	}
	return lines, lost
}

// marked returns a message with the mark [session.Resent] in its _meta.
func marked(line []byte) []byte {
	params := wire.OrEmpty(wire.Member(line, "params"))
	meta := wire.OrEmpty(wire.Member(params, "_meta"))
	if !wire.IsObject(params) || !wire.IsObject(meta) {
		return line // the router refuses it
	}
	return wire.SetMember(line, "params", wire.SetMeta(params, session.Resent, []byte("true")))
}

func (r *Relay) refuse(id string, why *session.Error) {
	_ = r.write(wire.AppendError(nil, []byte(id), wire.Marshal(why))) // if it fails, so does the next answer of the router
}

func (r *Relay) write(line []byte) error {
	r.answers.Lock()
	defer r.answers.Unlock()
	_, err := r.Out.Write(line)
	return err
}

// cancelAll has the router end its work for the client: no request is waited for any more.
func (r *Relay) cancelAll() {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.mu.Lock()
	r.left = true
	open := slices.Collect(maps.Keys(r.open))
	r.mu.Unlock()
	for _, id := range open {
		params, _ := wire.ParseObject(fmt.Appendf(nil, `{"requestId":%s}`, id)) // id was read from a message
		r.router.Write(wire.AppendNotification(nil, "notifications/cancelled", params))
	}
	r.router.CloseWrite()
}
