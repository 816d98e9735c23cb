package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A call that asked for progress gets a heartbeat while its server says nothing. The server's own
// progress replaces it, and all values rise.
func TestHeartbeat(t *testing.T) {
	type said struct {
		after  time.Duration
		params string // with which the server notifies; "" is the answer
	}
	own := func(members string) string { return `{"progressToken":"p",` + members + `}` }
	for name, tc := range map[string]struct {
		server []said
		want   []string // the parameters of the notifications, and after which time they came
	}{
		"silence": {[]said{{70 * time.Second, ""}}, []string{
			`15s {"progressToken":"p","progress":0.000001}`, `30s {"progressToken":"p","progress":0.000002}`,
			`45s {"progressToken":"p","progress":0.000003}`, `1m0s {"progressToken":"p","progress":0.000004}`}},
		"a short call": {[]said{{14 * time.Second, ""}}, nil},
		"a server that begins late, with 1": {[]said{{40 * time.Second, own(`"progress":1,"total":2,"message":"one"`)}, {time.Second, own(`"progress":2,"total":2`)}, {time.Second, ""}}, []string{
			`15s {"progressToken":"p","progress":0.000001}`, `30s {"progressToken":"p","progress":0.000002}`,
			`40s {"progressToken":"p","progress":1,"total":2,"message":"one"}`, `41s {"progressToken":"p","progress":2,"total":2}`}},
		"a server that begins late, with 0": {[]said{{20 * time.Second, own(`"progress":0,"total":2`)}, {time.Second, own(`"progress":1`)}, {time.Second, ""}}, []string{
			`15s {"progressToken":"p","progress":0.000001}`, `20s {"progressToken":"p","progress":0.000002,"total":2}`, `21s {"progressToken":"p","progress":1}`}},
		"a server that falls silent": {[]said{{time.Second, own(`"progress":1.5,"total":2`)}, {40 * time.Second, own(`"progress":2,"total":2`)}, {20 * time.Second, ""}}, []string{
			`1s {"progressToken":"p","progress":1.5,"total":2}`, `16s {"progressToken":"p","progress":1.500001,"total":2}`, `31s {"progressToken":"p","progress":1.5000019999999998,"total":2}`,
			`41s {"progressToken":"p","progress":2,"total":2}`, `56s {"progressToken":"p","progress":2.000001}`}},
		"a server whose values do not rise": {[]said{{time.Second, own(`"progress":9007199254740993`)}, {time.Second, own(`"progress":1,"message":"again"`)}, {time.Second, ""}}, []string{
			`1s {"progressToken":"p","progress":9007199254740993}`, `2s {"progressToken":"p","progress":9007199254740994,"message":"again"}`}},
		"a server whose value can't rise": {[]said{{time.Second, own(`"progress":1.7976931348623157e308`)}, {time.Second, own(`"progress":1`)}, {40 * time.Second, ""}}, []string{
			`1s {"progressToken":"p","progress":1.7976931348623157e308}`}},
		"a server that begins with 0": {[]said{{time.Second, own(`"progress":0`)}, {time.Second, own(`"progress":0.5`)}, {time.Second, ""}}, []string{
			`1s {"progressToken":"p","progress":0}`, `2s {"progressToken":"p","progress":0.5}`}},
	} {
		for _, ask := range []struct {
			name, call string
			heard      bool
		}{
			{"legacy", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b","_meta":{"progressToken":"p"}}}`, true},
			{"modern", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b",` + strings.Replace(modernMeta, `{`, `{"progressToken":"p",`, 1) + `}}`, true},
			{"without token", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b"}}`, false},
		} {
			synctest.Test(t, func(t *testing.T) {
				r := newFake(tool("a", "b"))
				r.execute = func(ctx context.Context, c selector.Call) (selector.Result, error) {
					for _, s := range tc.server {
						time.Sleep(s.after)
						if s.params != "" && ask.heard {
							c.From.Notify("a", session.Message{Method: "notifications/progress", Params: json.RawMessage(s.params)})
						}
					}
					return selector.Result{JSON: json.RawMessage(`{"content":[]}`)}, nil
				}
				c := connect(t, r, Options{Mode: exposure.Direct})
				if ask.name != "modern" {
					c.initialize()
				}
				began := time.Now()
				c.send(ask.call)
				var got []string
				for line := <-c.lines; !strings.Contains(line, `"result"`); line = <-c.lines {
					params := strings.TrimSuffix(strings.TrimPrefix(line, `{"jsonrpc":"2.0","method":"notifications/progress","params":`), "}")
					got = append(got, fmt.Sprint(time.Since(began).Round(time.Millisecond), " ", params))
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if len(c.lines) > 0 {
					t.Errorf("%s, %s: after the answer: %s", name, ask.name, <-c.lines)
				}
				want := tc.want
				if !ask.heard {
					want = nil
				}
				expect.Equal(t, strings.Join(got, "\n"), strings.Join(want, "\n"), "%s, %s", name, ask.name)
			})
		}
	}
}

// The heartbeat of a call ends when it is cancelled.
func TestHeartbeatOfCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake(tool("a", "b"))
		r.execute = func(context.Context, selector.Call) (selector.Result, error) {
			time.Sleep(time.Minute) // it does not look at its context
			return selector.Result{}, nil
		}
		c := initialized(t, r, Options{Mode: exposure.Direct})
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b","_meta":{"progressToken":"p"}}}`)
		synctest.Wait()
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if len(c.lines) > 0 {
			t.Errorf("after the cancellation: %s", <-c.lines)
		}
	})
}
