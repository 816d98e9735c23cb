//go:build linux

package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// messages attack by what they say, over HTTP.
var messages = map[string]guest{
	"message nested 1,000,000 deep": {attack: func(v *visit) {
		v.repeat(2, func(int) {
			v.post(rpc(1, "tools/call", nested(`{"a":`, 1_000_000, "1", "}")))
			v.post(nested("[", 1_000_000, "", "]"))
			v.post(rpc(1, "tools/call", `{"name":"honest:echo","arguments":`+nested(`{"a":`, 9_000, "1", "}")+`}`))
		})
	}},
	"messages that are not UTF-8": {attack: func(v *visit) {
		v.repeat(2, func(int) {
			v.sound(v.post("{\"jsonrpc\":\"2.0\",\"id\":\"\xff\xfe\",\"method\":\"ping\"}"))
			v.sound(v.post("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xc3\x28\"}"))
			v.sound(v.post(rpc(1, "tools/call", "{\"name\":\"honest:echo\",\"arguments\":{\"message\":\"\x80\"}}")))
			v.sound(v.post(rpc(1, "tools/call", "{\"name\":\"honest:\xff\",\"arguments\":{}}")))
		})
	}},
	"messages that are none": {attack: func(v *visit) {
		v.repeat(2, func(int) {
			for _, body := range []string{"", "null", "7", `"x"`, "[]", "[[]]", "{", "{}", `{"id":1}`, `{"jsonrpc":"9","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":{},"method":"ping"}`,
				`{"jsonrpc":"2.0","id":1,"method":7}`, `{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}`, `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping","method":"tools/list"}`,
				"\x00", "\xef\xbb\xbf{}", strings.Repeat(" ", 1<<20), `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":null,"error":{}}`} {
				if r := v.post(body); r.status >= 500 {
					v.t.Errorf("%.50q: status %d: %.200s", body, r.status, r.body)
				}
			}
		})
	}},
	"calls given up, and connections dropped": {attack: func(v *visit) {
		c := v.router.client(`{}`)
		v.repeat(8, func(i int) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+i%20)*time.Millisecond)
			defer cancel()
			if i%2 == 0 { // as the protocol has it
				c.Call(ctx, "honest__sleep", json.RawMessage(`{"ms":30000}`))
				return
			}
			params := `{"name":"honest__sleep","arguments":{"ms":100}}`
			if resp, err := c.Do(ctx, http.MethodPost, mcptest.StandardHeaders("tools/call", json.RawMessage(params)), rpc(`"dropped"`, "tools/call", params)); err == nil {
				<-ctx.Done()
				resp.Body.Close()
			}
		})
		v.leave(c)
	}},
	"batch of 100,000": {attack: func(v *visit) {
		v.repeat(2, func(int) {
			v.refused(v.post("["+series(99_999, `{"jsonrpc":"2.0","id":%d,"method":"ping"},`)+`{"jsonrpc":"2.0","method":"x"}]`), 200, 400, 413)
		})
	}},
	"name of 4 MB": {attack: func(v *visit) {
		v.repeat(2, func(int) {
			r := v.post(rpc(1, "tools/call", `{"name":"`+strings.Repeat("n", 4<<20)+`","arguments":{}}`))
			if v.sound(r); len(r.body) > 10_000 {
				v.t.Errorf("the error has %d bytes", len(r.body))
			}
		})
	}},
	"duplicate ids at once": {attack: func(v *visit) {
		c := v.router.client(`{}`)
		v.repeat(8, func(int) { v.streamable(c, rpc(7, "tools/call", `{"name":"honest:echo","arguments":{}}`)) })
		v.leave(c)
	}},
	"equal progress tokens": {attack: func(v *visit) {
		c := v.router.client(`{}`)
		v.repeat(8, func(i int) {
			v.streamable(c, rpc(i, "tools/call", `{"name":"honest:echo","arguments":{},"_meta":{"progressToken":"one"}}`))
			v.streamable(c, rpc(i, "tools/call", `{"name":"honest:echo","arguments":{},"_meta":{"progressToken":{"a":[1e999]}}}`))
		})
		v.leave(c)
	}},
	"subscriptions by the thousand": {attack: func(v *visit) {
		c := v.router.client(`{}`)
		v.repeat(4, func(i int) {
			c.Request(within(v.t, deadline), "resources/subscribe", json.RawMessage(fmt.Sprintf(`{"uri":"honest://%d"}`, i)))
			c.Request(within(v.t, deadline), "resources/unsubscribe", json.RawMessage(fmt.Sprintf(`{"uri":"honest://%d"}`, i-1000)))
		})
		v.leave(c)
	}},
	"listeners by the hundred": {attack: func(v *visit) {
		var all sync.WaitGroup
		for range v.number(2000) {
			all.Go(func() {
				c := mcptest.NewHTTPClient(v.t, v.url())
				if _, err := c.Discover(v.ctx); err == nil {
					c.Request(v.ctx, "subscriptions/listen", json.RawMessage(`{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["honest://r","x://`+strings.Repeat("y", 10_000)+`"]}}`))
				}
				c.Close()
			})
		}
		all.Wait()
	}},
	"searches of megabytes": {own: map[string]any{"mode": "search"}, attack: func(v *visit) {
		v.repeat(2, func(int) {
			for _, query := range []string{strings.Repeat("echo the message ", 200_000), strings.Repeat("x", 4<<20), strings.Repeat("\\u00e9\\u0301", 500_000), strings.Repeat("\\\"quoted\\\" and then ", 100_000), strings.Repeat("/", 2<<20)} {
				v.sound(v.post(rpc(1, "tools/call", `{"name":"find_tools","arguments":{"query":"`+query+`","limit":1000000000,"budget_tokens":-1}}`)))
				v.sound(v.post(rpc(1, "tools/call", `{"name":"route_task","arguments":{"task":"`+query+`"}}`)))
			}
		})
	}},
}

// sound checks that an answer came, and that any reader understands it.
func (v *visit) sound(r reply) {
	v.t.Helper()
	if r.status == 0 || r.status >= 500 {
		v.t.Errorf("status %d: %.300q", r.status, r.body)
	}
	if why := unsound(r.body); why != "" {
		v.t.Errorf("the answer is not sound: %s: %.300q", why, r.body)
	}
}

// streamable sends a message in the session of a client and reads the answer.
func (v *visit) streamable(c *mcptest.HTTPClient, body string) {
	v.request("POST", "/mcp", map[string]string{"Accept": "application/json, text/event-stream", "Mcp-Session-Id": c.Session(), "MCP-Protocol-Version": "2025-11-25"}, strings.NewReader(body))
}

// leave ends the session of a client.
func (v *visit) leave(c *mcptest.HTTPClient) {
	if resp, err := c.Do(within(v.t, deadline), http.MethodDelete, nil, ""); err == nil {
		resp.Body.Close()
	}
	c.Close()
}
