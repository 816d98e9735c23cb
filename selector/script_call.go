package selector

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mcp-metarouter/metarouter/internal/script"
	"github.com/mcp-metarouter/metarouter/internal/session"
)

// A scriptClient is the client of a call of a script.
type scriptClient struct {
	session.Client                 // of the outermost script
	ctx            context.Context // of the call
	journal        ScriptJournal   // may be nil
	call           script.Call
	id             string // the number of the call, after those of the calls that run its script
}

// Unwrap returns the client of the script, for [session.As].
func (c *scriptClient) Unwrap() session.Client { return c.Client }

// Ask implements [session.Client]. The script's time stands still while a person is asked. ctx may be the session's.
func (c *scriptClient) Ask(ctx context.Context, server string, m session.Message) (json.RawMessage, error) {
	m.ID = json.RawMessage(c.id) // an answer is for this call alone, also when the script runs again
	return c.Client.Ask(session.WithAsked(ctx, func() func() { return script.Pause(c.ctx) }), server, m)
}

var errLost = errors.New("the router ended before its result came")

// Sending implements [session.Sending].
func (c *scriptClient) Sending(repeatable bool) error {
	if err := session.Sending(c.Client, repeatable); err != nil || c.journal == nil {
		return err
	}
	before, err := c.journal.Send(c.call.Number, repeatable)
	if before && !repeatable {
		return &script.Lost{Tool: c.call.Tool, Err: errLost}
	}
	return err
}

// AsCall returns a client's call of a stored script as the only call of a script, with its context.
func (run ScriptRun) AsCall(ctx context.Context, c Call) (context.Context, Call) {
	run.Call.From, run.Journal = c.From, sectionOf(run.Journal)
	h, only := &scriptHost{run: &run}, script.Call{Number: 1, Tool: c.Tool.ID}
	c.From = h.from(ctx, only)
	return h.within(ctx, only), c
}

type runKey struct{}

// ScriptRunOf returns the run of a stored script that a call of the context runs, without the script and the call. Each
// attempt at the call has a run of its own, with all answers of the run before.
func ScriptRunOf(ctx context.Context) ScriptRun {
	run, _ := ctx.Value(runKey{}).(ScriptRun)
	if s, ok := run.Journal.(*section); ok {
		again := *s
		run.Journal = &again
	}
	return run
}

// within returns the context of a call, which may run another script.
func (h *scriptHost) within(ctx context.Context, c script.Call) context.Context {
	run := *h.run
	if s, ok := run.Journal.(*section); ok {
		run.GoesOn = s.WasSent(c.Number)
		run.Journal = &section{s.ScriptJournal, c.Number << sectionBits, s.before[c.Number<<sectionBits], s.before}
	}
	return context.WithValue(ctx, runKey{}, run)
}

// sectionBits are the bits of a number in a section. A script makes fewer calls.
const sectionBits = 20

// A section is the part of a journal that one script has: the outermost one, or one that it calls.
type section struct {
	ScriptJournal                         // of the outermost script
	base          int                     // is added to the script's numbers
	rest          []script.Answer         // of the run before
	before        map[int][]script.Answer // the answers of all sections, by base; not modified
}

// sectionOf returns the journal as that of the outermost script, unless it is a section.
func sectionOf(j ScriptJournal) ScriptJournal {
	if _, ok := j.(*section); ok || j == nil {
		return j
	}
	s := &section{ScriptJournal: j, before: make(map[int][]script.Answer)}
	for a, ok := j.Next(); ok; a, ok = j.Next() {
		n := a.Number & (1<<sectionBits - 1)
		base := a.Number - n
		a.Number = n
		s.before[base] = append(s.before[base], a)
	}
	s.rest = s.before[0]
	return s
}

// Next implements [script.Journal].
func (s *section) Next() (a script.Answer, ok bool) {
	if len(s.rest) > 0 {
		a, s.rest, ok = s.rest[0], s.rest[1:], true
	}
	return a, ok
}

// Answered implements [script.Journal].
func (s *section) Answered(a script.Answer) {
	a.Number += s.base
	s.ScriptJournal.Answered(a)
}

// Send implements [ScriptJournal].
func (s *section) Send(number int, repeatable bool) (before bool, err error) {
	return s.ScriptJournal.Send(s.base+number, repeatable)
}

// WasSent implements [ScriptJournal].
func (s *section) WasSent(number int) bool { return s.ScriptJournal.WasSent(s.base + number) }
