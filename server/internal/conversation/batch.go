package conversation

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// JSON-RPC has batches: "To send several Request objects at the same time, the
// Client MAY send an Array filled with Request objects." Revision 2025-03-26 of MCP requires them; 2025-06-18 took them out.

const (
	// MaxBatch bounds the messages of a batch.
	MaxBatch = 100

	// batchWidth is how many requests of one batch are carried out at a time.
	batchWidth = 16

	// maxAnswers bounds the bytes of the answers to a batch: they are one message.
	maxAnswers = wire.MaxLine

	// WithBatches is the revision that has batches.
	WithBatches = "2025-03-26"
)

var errLeftOut = &session.Error{Code: session.CodeInternal, Message: fmt.Sprintf("the answers to the batch are longer than %d MiB, so this one is left out; the request was carried out: send those with long answers by themselves", maxAnswers>>20)}

// Split returns the messages of a batch of at most most messages, or the fault
// with the batch as a whole.
func Split(array []byte, most int) (entries [][]byte, err error) {
	err = wire.Elements(array, func(entry []byte) bool {
		entries = append(entries, entry)
		return len(entries) <= most
	})
	switch {
	case err != nil:
		return nil, &session.Error{Code: session.CodeParse, Message: err.Error()}
	case len(entries) == 0:
		return nil, InvalidRequest("the batch is empty")
	case len(entries) > most:
		return nil, InvalidRequest(fmt.Sprintf("the batch has more than %d messages; send several", most))
	}
	return entries, nil
}

// join makes answers one array, without those that are nil; if all are nil, it returns
// nil: "If the batch rpc call itself contains … no Response objects … the
// server MUST NOT return an empty Array".
func join(answers [][]byte) []byte {
	parts := [][]byte{[]byte("[")}
	for _, answer := range answers {
		if answer != nil {
			parts = append(parts, bytes.TrimSuffix(answer, []byte("\n")), []byte(","))
		}
	}
	if len(parts) == 1 {
		return nil
	}
	parts[len(parts)-1] = []byte("]\n")
	return slices.Concat(parts...) // one copy: they may be long
}

// TakesBatches fails if the client may not send batches.
func TakesBatches(c *Conversation) error {
	switch version := c.Revision(); {
	case version == "":
		return InvalidRequest("a batch before initialize, which must be sent by itself")
	case version != WithBatches:
		return InvalidRequest(version + " has no batches: send each message by itself")
	}
	return nil
}

// A Batch has the messages that a client has sent as one array: requests that were let in, and
// the answers to those that were not.
type Batch struct {
	Requests []*Request
	places   []int    // of the answers to Requests, in answers
	answers  [][]byte // in the order of the messages; nil for a message without an answer
}

// BeginBatch lets the messages in, and acts on those that need no answer. Run must
// be called. BeginBatch fails with ErrClosed only, before any message was let in.
func BeginBatch(ctx context.Context, c *Conversation, entries [][]byte, w Writer) (*Batch, error) {
	b := &Batch{answers: make([][]byte, len(entries))}
	for i, entry := range entries {
		m, err := Parse(entry)
		var r *Request
		switch {
		case err != nil:
		case m.IsResponse(), m.IsNotification():
			c.Receive(m)
		case m.Method == "initialize": // "MUST NOT be part of a JSON-RPC batch"
			err = InvalidRequest("initialize must not be part of a batch")
		case m.Protocol != nil:
			err = InvalidRequest(session.Modern + " has no batches: send each message by itself")
		default:
			r, err = c.Begin(ctx, m, w)
		}
		switch {
		case err == ErrClosed && len(b.Requests) == 0:
			return nil, err
		case err == ErrIDInUse: // with the id, this would pass for the answer to the other one
			b.answers[i] = Refusal(nil, err)
		case err != nil:
			b.answers[i] = Refusal(m.ID, err)
		case r != nil:
			b.Requests, b.places = append(b.Requests, r), append(b.places, i)
		}
	}
	return b, nil
}

// Run handles the requests and returns the array of answers, nil if there are no
// answers. Those that were cancelled because ctx has ended are refused.
func (b *Batch) Run(ctx context.Context) (array []byte) {
	const short = 1 << 10 // such answers are errors, or as small
	var size atomic.Int64
	var all errgroup.Group
	all.SetLimit(batchWidth)
	for i, r := range b.Requests {
		all.Go(func() error {
			answer := r.Run()
			switch {
			case answer == nil && ctx.Err() != nil:
				answer = Refusal(r.ID, ErrClosed)
			case size.Add(int64(len(answer))) > maxAnswers && len(answer) > short:
				answer = Refusal(r.ID, errLeftOut)
			}
			b.answers[b.places[i]] = answer
			return nil
		})
	}
	_ = all.Wait() // no function returns an error
	return join(b.answers)
}
