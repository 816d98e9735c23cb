package stdio

import (
	"context"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

var errRouterLost = conversation.Internal(conversation.AsError(errEnding).Message + "; another router has taken over: try again if that does no harm")

// note keeps a message in the journal if it has an effect on later ones. The effect
// lasts until another message of the same key comes.
func (c *connection) note(m wire.Message, line []byte) {
	switch m.Method {
	case "initialize", "notifications/initialized", "logging/setLevel":
		c.journal.Keep(m.Method, line)
	case "resources/subscribe":
		c.journal.Keep(resourceKey(m), line)
	case "resources/unsubscribe":
		c.journal.Keep(resourceKey(m), nil)
	}
}

func resourceKey(m wire.Message) string { return "resource " + string(wire.Member(m.Params, "uri")) }

// resume takes over from a router that was killed: it answers the requests that
// were open with an error, and brings the conversation to where it was.
func (c *connection) resume(ctx context.Context, inherited *Inherited) {
	if inherited.Torn {
		c.reply([]byte("\n")) // ends what may be the beginning of a line
	}
	for slot, id := range inherited.Open {
		c.queue.put(outgoing{message: conversation.Refusal(id, errRouterLost), slot: slot}, putOptions{patient: true})
	}
	for _, id := range inherited.Begun {
		c.reply(conversation.Refusal(id, errRouterLost))
	}
	for _, m := range inherited.Kept {
		c.replay(ctx, m)
	}
}

// replay acts on a message again, whose answer the client has.
func (c *connection) replay(ctx context.Context, m wire.Message) {
	if m.IsNotification() {
		c.conversation.Notified(m)
		return
	}
	m.ID = wire.AppendString(nil, "replay of "+string(m.ID))
	r, err := c.conversation.Begin(ctx, m, c)
	if err != nil {
		return
	}
	if r.Quick {
		r.Run()
		return
	}
	c.answers.Go(func() { r.Run() })
}
