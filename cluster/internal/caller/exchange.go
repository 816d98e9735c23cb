package caller

import (
	"time"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/transfer"
	"github.com/mcp-metarouter/metarouter/internal/session"
)

// An exchange is all frames with one ID between this router and another: a call, or a question of a
// server outside of calls. Apart from the inbox it belongs to one goroutine.
type exchange struct {
	caller *Caller
	id     string
	to     frame.Address
	server string         // by its name here
	from   session.Client // the client that the server may ask; may be nil
	in     inbox

	sources   map[string]*transfer.Source // of the bodies that the node may pull
	receiving []*incoming
	questions questions
}

// An incoming is a body that is received, and the action when it is complete.
type incoming struct {
	id   string
	sink *transfer.Sink
	then func(data []byte, err error)
}

// send sends a frame of the exchange. source is the source of its body; nil without one.
func (e *exchange) send(h frame.Header, source *transfer.Source) error {
	h.Call = e.id
	if source == nil {
		return e.caller.Wire.Send(e.to, h, nil)
	}
	if e.sources == nil {
		e.sources = make(map[string]*transfer.Source)
	}
	e.sources[source.Body().ID] = source
	return source.Send(e.caller.Wire, e.to, h)
}

// pulled sends the bytes that a frame asks for.
func (e *exchange) pulled(h *frame.Header) {
	if h.Part == nil {
		return
	}
	if source := e.sources[h.Part.Body]; source != nil {
		// Bytes that are not sent will be pulled again.
		_ = source.Answer(e.caller.Wire, e.to, e.id, *h.Part)
	}
}

// maxReceiving bounds the bodies that an exchange receives at once.
const maxReceiving = 20

// receive receives the body that a frame announces, and calls then with it. A body that is being
// received already, or one too many, is ignored.
func (e *exchange) receive(f *frame.Frame, then func(data []byte, err error)) {
	body := f.Header.Body
	for _, in := range e.receiving {
		if in.id == body.ID {
			return
		}
	}
	if len(e.receiving) >= maxReceiving {
		return
	}
	sink, err := transfer.NewSink(*body, f.Payload, e.caller.Budget, time.Now())
	if err != nil {
		then(nil, err)
		return
	}
	if data, ok, err := sink.Bytes(); ok || err != nil {
		sink.Close()
		then(data, err)
		return
	}
	e.receiving = append(e.receiving, &incoming{body.ID, sink, then})
}

// part takes a part of a body.
func (e *exchange) part(f *frame.Frame) {
	at := f.Header.Part
	if at == nil {
		return
	}
	for _, in := range e.receiving {
		if in.id == at.Body {
			in.sink.Add(*at, f.Payload, time.Now())
			return
		}
	}
}

// advance pulls the missing bytes of bodies, and hands over complete bodies. It returns when to
// call it again, zero for never.
func (e *exchange) advance(now time.Time) (wake time.Time) {
	for i := 0; i < len(e.receiving); {
		in := e.receiving[i]
		data, ok, err := in.sink.Bytes()
		if !ok && err == nil {
			var pull frame.Range
			var next time.Time
			if pull, next, err = in.sink.Next(now); err == nil {
				if pull.Length > 0 {
					// One that is not sent is repeated after a silence.
					_ = e.send(frame.Header{Kind: frame.Pull, Part: &pull}, nil)
				}
				if wake.IsZero() || next.Before(wake) {
					wake = next
				}
				i++
				continue
			}
		}
		in.sink.Close()
		e.receiving = append(e.receiving[:i], e.receiving[i+1:]...)
		in.then(data, err)
	}
	return wake
}

// stop ends the goroutines of the exchange, and releases its memory.
func (e *exchange) stop() {
	e.caller.close(e)
	e.questions.cancelAll()
	for _, in := range e.receiving {
		in.sink.Close()
	}
	e.receiving = nil
}
