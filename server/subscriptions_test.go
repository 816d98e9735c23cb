package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/server/internal/budget"
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
	heard := 0
	w := &watch{uri: "x:a", at: at, notify: func(session.Message) { heard++ }, life: life}
	s := &subscriptions{watches: map[session.Client]*clientWatches{nil: {byURI: map[string]*watch{w.uri: w}}}}
	update := session.Message{Method: "notifications/resources/updated", Params: json.RawMessage(`{"uri":"x:a"}`)}
	s.updated("x", nil, update)
	end()
	s.updated("x", nil, update)
	expect.Equal(t, heard, 1, "heard … updates")
}

// A hungRouter subscribes, and gives up subscriptions, when the test lets it.
type hungRouter struct {
	*fakeRouter
	subscribe, cancel chan struct{}
	open              atomic.Int32 // subscriptions
}

func (r *hungRouter) Subscribe(context.Context, string, string, session.Client) (<-chan struct{}, func(), error) {
	<-r.subscribe
	r.open.Add(1)
	return nil, func() { <-r.cancel; r.open.Add(-1) }, nil
}

// A client that gives up a subscription does not wait for the server, neither before the server has agreed nor after, and may
// subscribe again meanwhile. When it has left, nothing is left of its subscriptions.
func TestUnsubscribedFromHungServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &hungRouter{fakeRouter: offering(), subscribe: make(chan struct{}), cancel: make(chan struct{})}
		c := initialized(t, r, Options{Mode: exposure.Direct})
		say := func(id int, method string) {
			c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/%s","params":{"uri":"x:a"}}`, id, method))
			synctest.Wait()
		}
		answered := func(id int) { expect.Equal(t, c.receive(), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, id)) }
		say(1, "subscribe")
		say(2, "unsubscribe")
		answered(2)
		close(r.subscribe)
		answered(1)
		say(3, "subscribe")
		answered(3)
		say(4, "unsubscribe")
		answered(4)
		for id := range 2 { // once
			say(5+id, "subscribe")
			answered(5 + id)
		}
		expect.Equal(t, r.open.Load(), 3, "subscriptions that are open or end")
		c.in.Close()
		synctest.Wait()
		expect.Equal(t, len(c.ended), 0, "while the server hangs, ended … times")
		close(r.cancel)
		expect.OK(t, <-c.ended)
		expect.Equal(t, r.open.Load(), 0, "subscriptions are left")
		expect.Deep(t, c.server.servers.budget, budget.Clients(), "what clients hold")
	})
}

// The URIs of subscriptions are kept, and sent to servers again and again, so those of a client are bounded together.
func TestURIsOfWatches(t *testing.T) {
	c := initialized(t, offering(), Options{Mode: exposure.Direct})
	for i, test := range []struct {
		method string
		bytes  int
		want   string
	}{
		{"subscribe", 156 << 10, `"result":{}`}, {"subscribe", 100 << 10, `"result":{}`}, {"subscribe", 10, "with 262144 bytes of URIs"},
		{"unsubscribe", 100 << 10, `"result":{}`}, {"subscribe", 10, `"result":{}`},
	} {
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/%s","params":{"uri":"x:%s"}}`, i, test.method, strings.Repeat("a", test.bytes-2)))
		expect.Contains(t, c.receive(), test.want, "step %d", i)
	}
}
