package server

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A subscription that its server has forgotten is made again, however often the server refuses it meanwhile.
func TestSubscribedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := offering()
		c := initialized(t, r, Options{Mode: exposure.Direct})
		c.want(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"x:a"}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		var refusal error = &session.Error{Code: session.CodeInvalidParams, Message: "resource not found"}
		r.forbidden.Store(&refusal)
		close(r.lost)
		time.Sleep(time.Hour)
		r.lost = make(chan struct{})
		r.forbidden.Store(nil)
		time.Sleep(watchAgainAtMost)
		r.say("a", nil, session.Message{Method: "notifications/resources/updated", Params: json.RawMessage(`{"uri":"x:a"}`)})
		expect.Contains(t, c.receive(), `"method":"notifications/resources/updated"`, "the update")
	})
}

// A client hears nothing of a resource once it has given it up, even before the goroutine of its
// subscription has seen that.
func TestEndedWatchIsNotNotified(t *testing.T) {
	at := catalog.Address{Server: "x", URI: "x:a"}
	life, end := context.WithCancel(t.Context())
	heard, by := 0, subscription{uri: "x:a"}
	s := &subscriptions{watches: map[subscription]*watch{by: {subscription: by, at: at, notify: func(session.Message) { heard++ }, life: life}}}
	update := session.Message{Method: "notifications/resources/updated", Params: json.RawMessage(`{"uri":"x:a"}`)}
	s.updated("x", nil, update)
	end()
	s.updated("x", nil, update)
	expect.Equal(t, heard, 1, "heard … updates")
}
