package server

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

var errRouterLost = &session.Error{
	Code:    session.CodeInternal,
	Message: errEnding.Message + "; another router has taken over: try again if that does no harm",
}

// lasting reports whether a message of the client has an effect on what comes
// after, which ends with another message of the same key. end says that this is
// one that only ends it.
func lasting(m wire.Message) (key string, end bool) {
	switch m.Method {
	case "initialize", "notifications/initialized", "logging/setLevel":
		return m.Method, false
	case "resources/subscribe", "resources/unsubscribe":
		return "resource " + string(wire.Member(m.Params, "uri")), m.Method == "resources/unsubscribe"
	}
	return "", false
}

// note keeps a message in the journal if it has a lasting effect.
func (p *pipe) note(m wire.Message, line []byte) {
	if p.journal == nil {
		return
	}
	switch key, end := lasting(m); {
	case end:
		p.journal.keep(key, nil)
	case key != "":
		p.journal.keep(key, line)
	}
}

// resume takes over from a router that was killed: it answers the requests that
// were open with an error, and brings the conversation to where it was.
func (p *pipe) resume(ctx context.Context, e *estate) {
	p.conversation.resumed(e.lives)
	if e.torn {
		p.reply([]byte("\n")) // ends what may be the beginning of a line
	}
	for slot, id := range e.open {
		p.queue.answer(refusal(id, errRouterLost), slot, false)
	}
	for _, id := range e.begun {
		p.reply(refusal(id, errRouterLost))
	}
	for _, m := range e.kept {
		p.replay(ctx, m)
	}
	for _, change := range changes {
		p.conversation.server.touch(change.member) // whatever has changed meanwhile, nobody was told
	}
}

// replay acts on a message once more, whose answer the client has.
func (p *pipe) replay(ctx context.Context, m wire.Message) {
	if m.IsNotification() {
		p.conversation.notified(m)
		return
	}
	m.ID = wire.AppendString(nil, "replay of "+string(m.ID))
	r, err := p.conversation.begin(ctx, m, p)
	if err != nil {
		return
	}
	if methods[m.Method].quick {
		r.run()
		return
	}
	p.workers.Go(func() { r.run() })
}

// looseID finds the id of a request in a line with a hole: at its beginning or at
// its end, where clients put it. Nil if it is in neither.
func looseID(line []byte) (id json.RawMessage) {
	wire.Members(line, func(key string, value []byte) bool {
		if key == "id" {
			id = value
		}
		return true
	})
	if id != nil {
		return id
	}
	const name = `"id":`
	i := bytes.LastIndex(line, []byte(name))
	tail, ok := bytes.CutSuffix(line, []byte("}"))
	if i < 0 || !ok {
		return nil
	}
	if last := bytes.TrimSpace(tail[i+len(name):]); wire.Valid(last) && !wire.IsObject(last) && last[0] != '[' {
		return last
	}
	return nil
}
