package peer

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// An AnswerError says why an answer of a server was not passed on.
type AnswerError struct {
	Server string
	Cause  error // [wire.ErrNotUTF8], [wire.ErrTooDeep], [wire.ErrTooLong], or the fault of the JSON
}

func (e *AnswerError) Error() string {
	return fmt.Sprintf("server %q answered %s", e.Server, problem(e.Cause))
}

// problem says how an unusable message came.
func problem(cause error) string {
	switch {
	case errors.Is(cause, wire.ErrNotUTF8):
		return "with bytes that are not UTF-8, which clients can't read; report this to the server's authors"
	case errors.Is(cause, wire.ErrTooDeep):
		return fmt.Sprintf("with JSON nested deeper than %d levels, which many clients can't read; ask it for less", wire.MaxLevels)
	case errors.Is(cause, wire.ErrTooLong):
		return fmt.Sprintf("with more than %d MiB, and the answer was skipped; ask it for less", wire.MaxLine>>20)
	}
	return fmt.Sprintf("with what is not a JSON-RPC message (%v), and the answer was skipped; report this to the server's authors", cause)
}

func (e *AnswerError) Unwrap() error { return e.Cause }

// check returns the reply, a message with a fault, to a request of the method. Answers that
// the router reads and cleans itself are kept: lists, and a server's description of itself.
func check(c *Conn, method string, r Reply) Reply {
	fault := r.Message.Fault
	switch method {
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list", "skills/list":
		return r
	case Initialize, Discover:
		if errors.Is(fault, wire.ErrNotUTF8) {
			r.Message.Result = bytes.ToValidUTF8(r.Message.Result, []byte("\ufffd"))
			return r
		}
	}
	c.Budget.spoil(fault)
	return Reply{Err: &AnswerError{c.host.Server, fault}}
}

// lastChance is how long a request waits for its answer after a line that seemed to be a
// broken answer: some servers write an answer again, or print parts of messages.
const lastChance = 10 * time.Second

// SkipLine deals with a line of the server that is no message, or was too long to be
// kept; line is nil then. If the line looks like an answer, its request fails, so that
// the caller does not wait in vain.
func (c *Conn) SkipLine(line []byte, ends wire.Ends, why error) {
	c.Budget.admit("", len(line))
	one := answered(&c.Calls, ends)
	if one == nil {
		c.Budget.Skip(line, why)
		return
	}
	if errors.Is(why, wire.ErrTooLong) || errors.Is(why, wire.ErrTooDeep) {
		c.Fail(one.id, why)
		return
	}
	c.Budget.Skip(line, why)
	giveUpLater(c, one, why)
}

// Doubt deals with a line that may be the first of a message. If it looks like an answer, and
// the rest does not come, its request fails.
func (c *Conn) Doubt(line []byte, why error) {
	if one := answered(&c.Calls, wire.Ends{Head: line, Tail: line}); one != nil {
		giveUpLater(c, one, why)
	}
}

// giveUpLater fails a request if its answer does not come soon.
func giveUpLater(c *Conn, one *pendingRequest, why error) {
	if one.method == Initialize || one.method == Discover {
		return // its wait is bounded anyway, and a server that starts may be slow
	}
	if !one.doubted.Swap(true) {
		c.Go(func() {
			if !signal.Within(c.Done(), lastChance) {
				c.Fail(one.id, why)
			}
		})
	}
}

// Fail ends a request, if it is still under way: its answer can't be passed on.
func (c *Conn) Fail(id int64, why error) {
	if c.Calls.get(id) != nil {
		c.Budget.spoil(why)
		c.Settle(id, Reply{Err: &AnswerError{c.host.Server, why}})
	}
}

// answered returns the request under way that a line seems to answer, or nil.
func answered(calls *Calls, line wire.Ends) *pendingRequest {
	const version = `"jsonrpc"`
	if !bytes.HasPrefix(bytes.TrimLeft(line.Head, " \t"), []byte("{")) || bytes.Contains(line.Head, []byte(`"method"`)) ||
		!bytes.Contains(line.Head, []byte(version)) && !bytes.Contains(line.Tail, []byte(version)) {
		return nil
	}
	id, err := OurID(wire.LooseID(line))
	if err != nil {
		return nil
	}
	return calls.get(id)
}
