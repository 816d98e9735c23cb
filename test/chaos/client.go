//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Half of the clients speak the legacy era, half the modern one.
const (
	legacyVersion = "2025-06-18"
	modernVersion = "2026-07-28"
)

// A link is a client's connection to a router.
type link interface {
	// call makes a call and waits for its answer. An error means that no answer came; it
	// is errGone if the router has ended.
	call(ctx context.Context, c call) (answer, error)
	rest() // frees the router's resources while the client makes no calls
	close() error
}

var errGone = errors.New("the router has gone")

// A client makes calls. If its router ends, it opens another link.
type client struct {
	name   string
	ledger *ledger
	config *configuration
	open   func(context.Context, *slowness) (link, error)
	slow   slowness
	pause  time.Duration

	mayEnd bool         // routers are killed on purpose
	report func(string) // reports a broken promise

	using sync.RWMutex // read-locked by calls, locked to end the link

	mu   sync.Mutex // guards the fields below
	link link
}

// current returns the link; it opens one if necessary.
func (c *client) current(ctx context.Context) (link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != nil {
		return c.link, nil
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	l, err := c.open(ctx, &c.slow)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	c.link = l
	return l, nil
}

// dropped closes a link whose router has ended.
func (c *client) dropped(l link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != l {
		return
	}
	if err := l.close(); !c.mayEnd {
		c.report(fmt.Sprintf("%s: its router ended by itself (%v)", c.name, err))
	}
	c.link = nil
}

func (c *client) rest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != nil {
		c.link.rest()
	}
}

// leave ends the link when no call is in flight.
func (c *client) leave() error {
	c.using.Lock()
	defer c.using.Unlock()
	return c.drop()
}

// comeBack ends the link and opens another.
func (c *client) comeBack() error {
	c.using.Lock()
	defer c.using.Unlock()
	err := c.drop()
	return errors.Join(err, c.config.whole(func() error {
		_, err := c.current(context.Background())
		return err
	}))
}

func (c *client) drop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == nil {
		return nil
	}
	err := c.link.close()
	c.link = nil
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return nil
}

// work makes calls until ctx ends, and waits for the last answer.
func (c *client) work(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		servers := c.config.names()
		if _, err := c.make(ctx, randomCall(c.ledger.next(), servers[random.IntN(len(servers))], random)); err != nil && ctx.Err() == nil && !c.mayEnd {
			c.report(err.Error())
		}
		select {
		case <-time.After(time.Duration(random.Int64N(int64(c.pause) + 1))):
		case <-ctx.Done():
		}
	}
}

// make makes one call, records its result in the ledger, and reports whether the answer was
// right.
func (c *client) make(ctx context.Context, one call) (right bool, err error) {
	c.using.RLock()
	defer c.using.RUnlock()
	l, err := c.current(ctx)
	if err != nil {
		c.excuseOrLose(one, err)
		return false, err
	}
	// The end of the load does not cancel a call.
	waits, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadline)
	defer cancel()
	began := time.Now()
	a, err := l.call(waits, one)
	if err != nil {
		if errors.Is(err, errGone) {
			c.dropped(l)
		}
		c.excuseOrLose(one, err)
		return false, nil
	}
	c.ledger.settle(one, a, time.Since(began))
	text, isError := textOf(a.result)
	return !isError && text == one.want, nil
}

func (c *client) excuseOrLose(one call, err error) {
	if c.mayEnd && !errors.Is(err, context.DeadlineExceeded) {
		c.ledger.excuse()
		time.Sleep(100 * time.Millisecond) // until the router runs again
		return
	}
	c.ledger.lose(one, err)
}

// randomCall returns a call: usually an echo of a read-only or of another tool, sometimes a slow
// tool.
func randomCall(id int, server string, random *rand.Rand) call {
	tool, size := "echo", random.IntN(100)
	switch n := random.IntN(100); {
	case n < 15:
		return sleepCall(id, server, 10+random.IntN(300))
	case n < 55:
		tool = "note"
	}
	switch n := random.IntN(1000); {
	case n < 2:
		size = 1 << 20
	case n < 50:
		size = random.IntN(64 << 10)
	case n < 300:
		size = random.IntN(4 << 10)
	}
	return echoCall(id, server, tool, size)
}

// echoCall returns a call whose answer is its arguments, byte for byte.
func echoCall(id int, server, tool string, size int) call {
	arguments := fmt.Sprintf(`{"message":"%d é <&> \u2028 \n %s"}`, id, strings.Repeat("a", size))
	return call{id, server, tool, arguments, arguments}
}

func sleepCall(id int, server string, ms int) call {
	return call{id, server, "sleep", fmt.Sprintf(`{"ms":%d}`, ms), fmt.Sprintf("slept for %d ms", ms)}
}

// params returns the parameters of the call, in the era of its client.
func (c call) params(modern bool) string {
	meta := ""
	if modern {
		meta = `,"_meta":` + modernMeta
	}
	return fmt.Sprintf(`{"name":"%s:%s","arguments":%s%s}`, c.server, c.tool, c.arguments, meta)
}

const (
	clientInfo = `{"name":"chaos","version":"1"}`
	modernMeta = `{"io.modelcontextprotocol/protocolVersion":"` + modernVersion + `",` +
		`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":` + clientInfo + `}`
	initialize = `{"protocolVersion":"` + legacyVersion + `","capabilities":{},"clientInfo":` + clientInfo + `}`
)

// request returns the text of a JSON-RPC request.
func request(id int, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)
}

// A message is a message of a router.
type message struct {
	ID     json.RawMessage
	Method string
	Result json.RawMessage
	Error  *struct{ Message string }
}

// number returns the id of the request that the message answers; ok is false if it answers no
// request of the run.
func (m message) number() (id int, ok bool) {
	return id, m.Method == "" && json.Unmarshal(m.ID, &id) == nil && string(m.ID) != "null"
}

func (m message) answer() answer {
	if m.Error != nil {
		return answer{fault: m.Error.Message}
	}
	return answer{result: m.Result}
}

// A slowness makes a client read slowly until a time.
type slowness struct{ until atomic.Int64 } // Unix nanoseconds

func (s *slowness) begin(d time.Duration) { s.until.Store(time.Now().Add(d).UnixNano()) }
func (s *slowness) end()                  { s.until.Store(0) }

// reader returns a reader of r that is slow until that time.
func (s *slowness) reader(r io.Reader) io.Reader { return &slowReader{s, r} }

type slowReader struct {
	*slowness
	r io.Reader
}

func (s *slowReader) Read(p []byte) (int, error) {
	if time.Now().UnixNano() < s.until.Load() {
		p = p[:min(len(p), 256)]
		time.Sleep(20 * time.Millisecond)
	}
	return s.r.Read(p)
}
