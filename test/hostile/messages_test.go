//go:build linux

package hostile

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

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
	"messages with lone surrogates": {attack: func(v *visit) {
		v.repeat(2, func(int) {
			v.sound(v.post(rpc(1, "tools/call", `{"name":"honest:echo","arguments":{"message":"\udc00 \ud800"}}`)))
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
	"batch of 100,000": {attack: func(v *visit) {
		v.repeat(2, func(int) {
			v.refused(v.post("["+series(99_999, `{"jsonrpc":"2.0","id":%d,"method":"ping"},`)+`{"jsonrpc":"2.0","method":"x"}]`), 200, 400, 413)
		})
	}},
	"batches of the largest size": {attack: func(v *visit) {
		one := rpc(1, "tools/call", `{"name":"honest:echo","arguments":{"message":"`+strings.Repeat("x", 10_000)+`"}}`)
		v.repeat(4, func(int) { v.refused(v.post("["+strings.Repeat(one+",", 99)+one+"]"), 200) })
	}},
	"ids that are huge or odd": {attack: func(v *visit) {
		v.repeat(2, func(int) {
			for _, id := range []string{`"` + strings.Repeat("i", 1<<20) + `"`, strings.Repeat("9", 1<<20), "1e999999999", "-0", "1.5", "true", "[1]", `{"a":1}`, `"\u0000\u001b[2J"`} {
				v.sound(v.post(rpc(id, "ping", "{}")))
			}
		})
	}},
	"method of 4 MB": {attack: func(v *visit) {
		v.repeat(2, func(int) {
			r := v.post(rpc(1, strings.Repeat("m", 4<<20), "{}"))
			if v.sound(r); len(r.body) > 10_000 {
				v.t.Errorf("the error has %d bytes", len(r.body))
			}
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
	"name of 1 MB of separators": {attack: func(v *visit) {
		v.repeat(2, func(int) {
			for _, part := range []string{".", "__", ":", "a.b__c:"} {
				v.sound(v.post(rpc(1, "tools/call", `{"name":"`+strings.Repeat(part, 1<<20/len(part))+`","arguments":{}}`)))
				v.sound(v.post(rpc(1, "prompts/get", `{"name":"`+strings.Repeat(part, 1<<20/len(part))+`"}`)))
			}
		})
	}},
	"cancels of unknown ids": {attack: func(v *visit) {
		c := v.router.client(`{}`)
		v.repeat(4, func(i int) {
			c.Notify("notifications/cancelled", json.RawMessage(fmt.Sprintf(`{"requestId":%d,"reason":"%s"}`, i, strings.Repeat("x", 1000))))
		})
		v.leave(c)
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
	"progress of no one": {attack: func(v *visit) {
		c := v.router.client(`{}`)
		v.repeat(4, func(i int) {
			c.Notify("notifications/progress", json.RawMessage(fmt.Sprintf(`{"progressToken":%d,"progress":1}`, i)))
			c.Notify("notifications/roots/list_changed", json.RawMessage(`{}`))
			c.Notify("notifications/initialized", json.RawMessage(`{}`))
			c.Notify("notifications/unheard_of", json.RawMessage(`[]`))
		})
		v.leave(c)
	}},
	"answers to no question": {attack: func(v *visit) {
		c := v.router.client(`{"sampling":{},"elicitation":{},"roots":{}}`)
		v.repeat(4, func(i int) {
			v.streamable(c, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"action":"accept","content":{}}}`, i))
			v.streamable(c, fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d","error":{"code":1,"message":"x"}}`, i))
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
	"log levels by the thousand": {attack: func(v *visit) {
		c := v.router.client(`{}`)
		levels := []string{"debug", "emergency", "", "\\u001b[2J", strings.Repeat("x", 100_000), "error"}
		v.repeat(4, func(i int) {
			c.Request(within(v.t, deadline), "logging/setLevel", json.RawMessage(`{"level":"`+levels[i%len(levels)]+`"}`))
		})
		v.leave(c)
	}},
	"completion of megabytes": {attack: func(v *visit) {
		v.repeat(2, func(int) {
			v.sound(v.post(rpc(1, "completion/complete", `{"ref":{"type":"ref/resource","uri":"honest://{x}"},"argument":{"name":"x","value":"`+strings.Repeat("v", 4<<20)+`"}}`)))
		})
	}},
	"classification of megabytes": {own: map[string]any{"classification": map[string]any{"categories": []any{map[string]any{"name": "billing", "keywords": []string{"invoice"}}, map[string]any{"name": "other"}}}}, attack: func(v *visit) {
		v.repeat(2, func(int) {
			v.sound(v.post(rpc(1, "tools/call", `{"name":"classify_text","arguments":{"text":"`+strings.Repeat("invoice ", 1<<19)+`","with_probabilities":true}}`)))
			v.sound(v.post(rpc(1, "tools/call", `{"name":"classify_text","arguments":{"text":"`+strings.Repeat("ab", 2<<20)+`"}}`)))
		})
	}},
	"searches of megabytes": {own: map[string]any{"mode": "search"}, attack: func(v *visit) {
		v.repeat(2, func(int) {
			for _, query := range []string{strings.Repeat("echo the message ", 200_000), strings.Repeat("x", 4<<20), strings.Repeat("\\u00e9\\u0301", 500_000), strings.Repeat("\\\"quoted\\\" and then ", 100_000), strings.Repeat("/", 2<<20)} {
				v.sound(v.post(rpc(1, "tools/call", `{"name":"find_tools","arguments":{"query":"`+query+`","limit":1000000000,"budget_tokens":-1}}`)))
				v.sound(v.post(rpc(1, "tools/call", `{"name":"route_task","arguments":{"task":"`+query+`"}}`)))
			}
		})
	}},
	"calls in calls": {own: map[string]any{"mode": "search"}, attack: func(v *visit) {
		inner := `{"tool":"honest:echo","arguments":{}}`
		for range 200 {
			inner = `{"tool":"call_tool","arguments":` + inner + `}`
		}
		v.repeat(2, func(int) {
			v.sound(v.post(rpc(1, "tools/call", `{"name":"call_tool","arguments":`+inner+`}`)))
			v.sound(v.post(rpc(1, "tools/call", `{"name":"describe_tools","arguments":{"ids":[`+strings.Repeat(`"honest:echo",`, 100_000)+`"x"]}}`)))
		})
	}},
	"too much for our own tools": {attack: func(v *visit) {
		c := v.router.client(`{}`)
		v.tooMuch(c.Call)
		v.leave(c)
		many := rpc(1, "tools/call", `{"name":"describe_tools","arguments":{"ids":[`+strings.Repeat(`"honest:echo",`, 200_000)+`"x"]}}`)
		for _, body := range []string{many, "[" + many + "," + many + "]"} {
			if r := v.post(body); r.status != http.StatusOK || !strings.Contains(r.body, "at most 65536 are allowed") || len(r.body) > 10_000 {
				v.t.Errorf("plain JSON-RPC: %d, %.300s", r.status, r.body)
			}
		}
		if r := v.request("POST", "/mcp/tools/call", nil, strings.NewReader(`{"name":"describe_tools","arguments":{"ids":[`+strings.Repeat(`"honest:echo",`, 200_000)+`"x"]}}`)); r.status != http.StatusBadRequest || !strings.Contains(r.body, "at most 65536 are allowed") {
			v.t.Errorf("REST: %d, %.300s", r.status, r.body)
		}
	}},
	"scripts that ask for too much": {own: map[string]any{"profiles": map[string]any{"default": map[string]any{"scripts": true}}}, attack: func(v *visit) {
		c := v.router.client(`{}`)
		v.tooMuchInScripts(c.Call)
		v.leave(c)
	}},
	"results read at wild offsets": {own: map[string]any{"maxResultTokens": 10}, attack: func(v *visit) {
		v.post(rpc(1, "tools/call", `{"name":"honest:echo","arguments":{"message":"`+strings.Repeat("long ", 1000)+`"}}`))
		v.repeat(2, func(i int) {
			for _, n := range []string{"-1", "9223372036854775807", "1e308", "0.5", `"x"`, "null"} {
				v.sound(v.post(rpc(i, "tools/call", `{"name":"read_result","arguments":{"uri":"metarouter://result/1","offset":`+n+`,"limit":`+n+`}}`)))
				v.sound(v.post(rpc(i, "resources/read", `{"uri":"metarouter://result/../../../etc/passwd"}`)))
			}
		})
	}},
	"lists with wild cursors": {attack: func(v *visit) {
		v.repeat(2, func(int) {
			for _, cursor := range []string{`""`, `"-1"`, `"99999999999999999999"`, `7`, `{}`, `"` + strings.Repeat("c", 1<<20) + `"`, `"\u0000"`} {
				for _, method := range []string{"tools/list", "resources/list", "prompts/list", "resources/templates/list"} {
					v.sound(v.post(rpc(1, method, `{"cursor":`+cursor+`}`)))
				}
			}
		})
	}},
	"requests of wild versions": {attack: func(v *visit) {
		v.repeat(2, func(int) {
			for _, version := range []string{"2026-07-28", "1999-01-01", "", strings.Repeat("9", 10_000), "2025-11-25"} {
				h := map[string]string{"MCP-Protocol-Version": version, "Accept": "application/json, text/event-stream", "Mcp-Method": "tools/call", "Mcp-Name": "another"}
				v.sound(v.request("POST", "/mcp", h, strings.NewReader(rpc(1, "tools/call", `{"name":"honest:echo","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":{"a":1}}}`))))
				v.sound(v.request("POST", "/mcp", h, strings.NewReader(rpc(1, "initialize", `{"protocolVersion":`+quote(version)+`,"capabilities":[],"clientInfo":7}`))))
			}
		})
	}},
	"arguments that are numbers beyond all limits": {attack: func(v *visit) {
		v.repeat(2, func(int) {
			v.sound(v.post(rpc(1, "tools/call", `{"name":"honest:echo","arguments":{"message":`+strings.Repeat("9", 1<<20)+`,"n":1e999999,"`+strings.Repeat("k", 1<<20)+`":1}}`)))
			v.sound(v.post(rpc(1, "tools/call", `{"name":"honest:echo","arguments":{`+series(100_000, `"k%d":1,`)+`"message":"x"}}`)))
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
