//go:build linux

package hostile

import (
	"fmt"
	"os"
	"strings"
)

// floods send more than anyone reads.
var floods = map[string]kind{
	"flood of tools/list_changed": flooding("notifications/tools/list_changed", `{}`),
	"flood of resources/updated":  flooding("notifications/resources/updated", `{"uri":"honest://r"}`),
	"flood of log messages":       flooding("notifications/message", `{"level":"emergency","logger":"\u001b[2J","data":"`+strings.Repeat("x", 20_000)+`"}`), // which counts as five
	"flood of progress":           flooding("notifications/progress", `{"progressToken":"unknown","progress":1}`),
	"flood of progress of a call": {play: func(p *player) {
		p.onCall(func(m message) {
			for i := range 20_000 {
				p.notify("notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":%d,"message":"%s"}`, orNull(m.Params.Meta.ProgressToken), i, strings.Repeat("m", 100)))
			}
			p.result(m, text("done"))
		})
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
	"flood of empty objects":  {named: []string{"doctor: it sends too many messages"}, play: func(p *player) { p.initialized = func() { forever(func(int) { p.line(`{}`) }) } }},
	"flood of answers": {named: []string{"doctor: "}, play: func(p *player) {
		p.initialized = func() { forever(func(i int) { p.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, i)) }) }
	}},
}

// flooding returns a server that sends a notification as fast as it can.
func flooding(method, params string) kind {
	return kind{named: []string{"doctor: it sends too many messages"}, play: func(p *player) {
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
