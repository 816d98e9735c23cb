package server

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A subscription ends whose resource does not exist for its client any more. One whose server
// can't be reached goes on.
func TestSubscriptionsEnd(t *testing.T) {
	for name, test := range map[string]struct {
		refusal error
		ends    bool
	}{
		"not allowed":      {&session.Error{Code: session.CodeInvalidParams, Message: "resource not found"}, true},
		"server not ready": {&session.Error{Code: session.CodeInternal, Message: "starting"}, false},
		"other":            {errors.New("broken"), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := offering()
				c := initialized(t, r, Options{Mode: exposure.Direct})
				c.want(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"x:a"}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`)
				c.wantPrefix(`{"jsonrpc":"2.0","id":2,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["x:a"]},`+modernMeta+`}}`,
					`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"`)
				r.forbidden.Store(&test.refusal)
				close(r.lost)
				if test.ends {
					if got := c.receive(); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":2,"result":{`) {
						t.Errorf("received %s", got)
					}
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				s := c.server.notifier.subscriptions
				s.mu.Lock()
				defer s.mu.Unlock()
				left := len(s.watches.all) + len(s.listeners)
				for _, legacy := range s.legacy {
					left += len(legacy.stop)
				}
				expect.Equal(t, left, map[bool]int{true: 0, false: 4}[test.ends], "subscriptions and parts of them are left")
			})
		})
	}
}

// A client hears nothing of a resource once it has given it up, even before the goroutine of its
// subscription has seen that.
func TestEndedWatchIsNotNotified(t *testing.T) {
	at := catalog.Address{Server: "x", URI: "x:a"}
	ended := make(chan struct{})
	heard := 0
	w := &watch{at: at, notify: func(session.Message) { heard++ }, uri: "x:a", ended: ended}
	s := &watches{all: map[*watch]bool{w: true}}
	update := session.Message{Method: "notifications/resources/updated", Params: json.RawMessage(`{"uri":"x:a"}`)}
	s.updated("x", nil, update)
	close(ended)
	s.updated("x", nil, update)
	expect.Equal(t, heard, 1, "heard … updates")
}
