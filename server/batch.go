package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

// JSON-RPC has batches: "To send several Request objects at the same time, the
// Client MAY send an Array filled with Request objects." So have plain JSON-RPC
// and the revisions of MCP up to 2025-03-26; 2025-06-18 took them out.

const (
	// defaultMaxBatch bounds the messages of a batch.
	defaultMaxBatch = 100

	// batchWidth is how many requests of one batch are carried out at a time.
	batchWidth = 16

	// maxAnswers bounds the bytes of the answers to a batch, as of any message.
	maxAnswers = wire.MaxLine

	// lastWithBatches is the last revision that has them.
	lastWithBatches = "2025-03-26"
)

var (
	errNotBegun = &session.Error{Code: session.CodeInternal, Message: fmt.Sprintf("the answers to the batch are longer than %d MiB already, so the request was not carried out: send it by itself", maxAnswers>>20)}
	errNotSaid  = &session.Error{Code: session.CodeInternal, Message: fmt.Sprintf("the answers to the batch are longer than %d MiB, so this one is left out; the request was carried out: send those with long answers by themselves", maxAnswers>>20)}
)

// A tally is how many bytes the answers to a batch have.
type tally struct{ bytes atomic.Int64 }

// full returns why no further request is carried out, if so.
func (t *tally) full() error {
	if t.bytes.Load() > maxAnswers {
		return errNotBegun
	}
	return nil
}

// keep returns the answer to the request of the id, or what is said instead where
// that is long and there is too much.
func (t *tally) keep(id json.RawMessage, answer []byte) []byte {
	const long = 1 << 10
	if t.bytes.Add(int64(len(answer))) > maxAnswers && len(answer) > long {
		return refusal(id, errNotSaid)
	}
	return answer
}

// split returns the messages of a batch, or what is wrong with the whole of it.
func split(array []byte, most int) (entries [][]byte, err error) {
	err = wire.Elements(array, func(entry []byte) bool {
		entries = append(entries, entry)
		return len(entries) <= most
	})
	switch {
	case err != nil:
		return nil, &session.Error{Code: session.CodeParse, Message: err.Error()}
	case len(entries) == 0:
		return nil, invalidRequest("the batch is empty")
	case len(entries) > most:
		return nil, invalidRequest(fmt.Sprintf("the batch has more than %d messages; send several", most))
	}
	return entries, nil
}

// join makes answers one array. Those that are nil are left out; if all are, so is
// the array: "If the batch rpc call itself contains … no Response objects … the
// server MUST NOT return an empty Array".
func join(answers [][]byte) []byte {
	size := 1
	for _, answer := range answers {
		size += len(answer) + 1
	}
	out := make([]byte, 0, size)
	for _, answer := range answers {
		if answer == nil {
			continue
		}
		if out = append(out, ','); len(out) == 1 {
			out[0] = '['
		}
		out = append(out, bytes.TrimSuffix(answer, []byte("\n"))...)
	}
	if len(out) == 0 {
		return nil
	}
	return append(out, "]\n"...)
}

// eachAtOnce calls f with 0 to n-1, so many at a time, and returns when all have
// returned.
func eachAtOnce(n int, f func(i int)) {
	var g errgroup.Group
	g.SetLimit(batchWidth)
	for i := range n {
		g.Go(func() error { f(i); return nil })
	}
	g.Wait()
}

// takesBatches returns why the client may not send batches, if so.
func (c *conversation) takesBatches() error {
	switch version := c.revision(); {
	case version == "":
		return invalidRequest("a batch before initialize, which must be sent by itself")
	case version > lastWithBatches:
		return invalidRequest(version + " has no batches: send each message by itself")
	}
	return nil
}

// A batch is what a client has sent as one array: requests that were let in, and
// the answers to those that were not.
type batch struct {
	requests []*request
	places   []int             // of the answer to each of them
	answers  [][]byte          // in the order of the messages; nil where there is none
	refused  []json.RawMessage // ids of requests that were not let in
}

// beginBatch lets the messages in. What needs no answer is dealt with then. run
// must be called. heard, if it is not nil, is told of each message that was let in.
// It fails with errClosed, before anything was let in.
func (c *conversation) beginBatch(ctx context.Context, entries [][]byte, out outlet, heard func(m wire.Message, entry []byte)) (*batch, error) {
	b := &batch{answers: make([][]byte, len(entries))}
	for i, entry := range entries {
		m, err := parse(entry)
		var r *request
		switch {
		case err != nil:
		case m.IsResponse():
			c.responded(m)
		case m.IsNotification():
			c.notified(m)
		case m.Method == "initialize": // "MUST NOT be part of a JSON-RPC batch"
			err = invalidRequest("initialize must not be part of a batch")
		case wire.Member(wire.Member(m.Params, "_meta"), metaVersion) != nil:
			err = invalidRequest(session.Modern + " has no batches: send each message by itself")
		default:
			r, err = c.begin(ctx, m, out)
		}
		switch {
		case err == errClosed && len(b.requests) == 0:
			return nil, err
		case err == errIDInUse: // with the id, this would pass for the answer to the other one
			b.answers[i] = refusal(nil, err)
			continue
		case err != nil:
			b.answers[i] = refusal(m.ID, err)
			if m.IsRequest() {
				b.refused = append(b.refused, m.ID)
			}
			continue
		case r != nil:
			b.requests, b.places = append(b.requests, r), append(b.places, i)
		}
		if heard != nil {
			heard(m, entry)
		}
	}
	return b, nil
}

// run answers the requests: nil if nothing is to be answered. Those that were
// cancelled because ctx has ended are refused.
func (b *batch) run(ctx context.Context) (array []byte) {
	var said tally
	eachAtOnce(len(b.requests), func(i int) {
		r := b.requests[i]
		var answer []byte
		if full := said.full(); full != nil {
			answer = r.refuse(full)
		} else {
			answer = said.keep(r.id, r.run())
		}
		if answer == nil && ctx.Err() != nil {
			answer = refusal(r.id, errClosed)
		}
		b.answers[b.places[i]] = answer
	})
	return join(b.answers)
}

// batch handles a line that is a batch; see [pipe.take].
func (p *pipe) batch(ctx context.Context, line []byte, from *wire.Reader) (taken bool) {
	entries, err := split(line, defaultMaxBatch)
	if err == nil {
		err = p.conversation.takesBatches()
	}
	if err != nil {
		p.reply(refusal(nil, err))
		return true
	}
	b, err := p.conversation.beginBatch(ctx, entries, p, p.note)
	if err != nil {
		return false
	}
	for _, r := range b.requests {
		r.slot = p.journal.begin(r.id)
	}
	slots := make([]int, 0, len(entries))
	for _, id := range b.refused { // they hear of it with the others
		slots = append(slots, p.journal.begin(id))
	}
	p.journal.passed(from)
	p.answers.Add(1)
	p.workers.Go(func() {
		defer p.answers.Done()
		array := b.run(context.Background())
		for i, r := range b.requests {
			if b.answers[b.places[i]] != nil || !p.isLeft(r) {
				slots = append(slots, r.slot)
			}
		}
		if array == nil {
			p.journal.end(slots...)
			return
		}
		p.queue.put(outgoing{array, noSlot, slots}, true, true)
	})
	return true
}
