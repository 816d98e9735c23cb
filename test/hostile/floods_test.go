//go:build linux

package hostile

import (
	"fmt"
	"os"
	"strings"
)

// floods send more than anyone reads.
var floods = map[string]kind{
	"flood of tools/list_changed":     flooding("notifications/tools/list_changed", `{}`),
	"flood of prompts/list_changed":   flooding("notifications/prompts/list_changed", `{}`),
	"flood of resources/list_changed": flooding("notifications/resources/list_changed", `{}`),
	"flood of resources/updated":      flooding("notifications/resources/updated", `{"uri":"honest://r"}`),
	"flood of log messages":           flooding("notifications/message", `{"level":"emergency","logger":"\u001b[2J","data":"`+strings.Repeat("x", 20_000)+`"}`), // which counts as five
	"flood of progress":               flooding("notifications/progress", `{"progressToken":"unknown","progress":1}`),
	"flood of cancellations":          flooding("notifications/cancelled", `{"requestId":1,"reason":"no"}`),
	"flood of unknown notifications":  flooding("notifications/unheard_of", `{"a":[1,2,3]}`),
	"flood of progress of a call": {play: func(p *player) {
		p.onCall(func(m message) {
			for i := range 20_000 {
				p.notify("notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":%d,"message":"%s"}`, orNull(m.Params.Meta.ProgressToken), i, strings.Repeat("m", 100)))
			}
			p.result(m, text("done"))
		})
	}},
	"flood on stderr": {play: func(p *player) {
		go forever(func(int) { fmt.Fprintln(os.Stderr, strings.Repeat("an error \x1b[2J ", 100)) })
	}},
	"flood on stderr without a line end": {play: func(p *player) {
		go forever(func(int) { fmt.Fprint(os.Stderr, strings.Repeat("x", 1<<20)) })
	}},
	"flood on stdout without a line end": {named: []string{"doctor: ", "did not answer"}, play: func(p *player) {
		block := strings.Repeat("x", 1<<20)
		p.initialized = func() { p.out.Lock(); forever(func(int) { p.write(block) }) }
	}},
	"flood of a string without an end": {named: []string{"did not answer"}, play: func(p *player) {
		block := strings.Repeat("x", 1<<20)
		p.onCall(func(m message) {
			p.out.Lock()
			p.write(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"content":[{"type":"text","text":"`)
			forever(func(int) { p.write(block) })
		})
	}},
	"flood of text on stdout": {named: []string{"doctor: it prints text"}, play: func(p *player) { p.initialized = func() { forever(func(int) { p.line(strings.Repeat("text ", 20)) }) } }},
	"flood of empty lines":    {play: func(p *player) { p.initialized = func() { forever(func(int) { p.line(strings.Repeat("\n", 4096)) }) } }},
	"flood of empty objects":  {named: []string{"doctor: it sends too many messages"}, play: func(p *player) { p.initialized = func() { forever(func(int) { p.line(`{}`) }) } }},
	"flood of brackets": {named: []string{"doctor: "}, play: func(p *player) {
		p.initialized = func() { forever(func(int) { p.long(`{"jsonrpc":"2.0","method":"x","params":`, "[", 1<<20, "") }) }
	}},
	"flood of answers": {named: []string{"doctor: "}, play: func(p *player) {
		p.initialized = func() { forever(func(i int) { p.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, i)) }) }
	}},
	"flood of errors": {named: []string{"doctor: "}, play: func(p *player) {
		p.initialized = func() {
			forever(func(int) { p.line(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`) })
		}
	}},
	"flood of requests unknown": {named: []string{"doctor: "}, play: func(p *player) {
		p.initialized = func() {
			forever(func(i int) { p.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"unheard/of","params":{}}`, i)) })
		}
	}},
	"flood of batches": {named: []string{"doctor: "}, play: func(p *player) {
		p.initialized = func() {
			forever(func(int) {
				p.long("[", `{"jsonrpc":"2.0","id":1,"method":"ping"},`, 20_000, `{"jsonrpc":"2.0","id":1,"method":"ping"}]`)
			})
		}
	}},
}

// flooding returns a server that sends a notification as fast as it can.
func flooding(method, params string) kind {
	return kind{named: []string{"doctor: it sends too many notifications"}, play: func(p *player) {
		p.capabilities = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"logging":{}}`
		p.on["prompts/list"] = func(m message) { p.result(m, `{"prompts":[]}`) }
		p.on["resources/list"] = func(m message) { p.result(m, `{"resources":[]}`) }
		p.on["resources/templates/list"] = func(m message) { p.result(m, `{"resourceTemplates":[]}`) }
		p.initialized = func() { forever(func(int) { p.notify(method, params) }) }
	}}
}

func orNull(id []byte) []byte {
	if id == nil {
		return []byte("null")
	}
	return id
}
