//go:build linux

package hostile

import (
	"os"
	"strings"
)

// answers attack the readers of answers.
var answers = map[string]kind{
	"answer byte by byte": {play: func(p *player) {
		p.onCall(func(m message) {
			for _, b := range []byte(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + text("slow") + "}\n") {
				os.Stdout.Write([]byte{b})
			}
		})
	}},
	"stdin never read": {args: longArgument, play: func(p *player) {
		p.initialized = func() { p.on["tools/call"] = func(message) { select {} } }
	}},
	"calls never answered": {named: []string{"did not answer"}, play: func(p *player) { p.onCall(func(message) {}) }},
	"answers twice":        answering("", func(p *player, m message) { p.result(m, text("one")); p.result(m, text("two")) }),
	"answers with wrong ids": answering("did not answer", func(p *player, m message) {
		p.line(`{"jsonrpc":"2.0","id":999999,"result":` + text("wrong") + `}`)
	}),
	"answers with huge ids": answering("did not answer", func(p *player, m message) {
		p.line(`{"jsonrpc":"2.0","id":` + strings.Repeat("9", 1<<20) + `,"result":{}}`)
		p.line(`{"jsonrpc":"2.0","id":"` + strings.Repeat("9", 4<<20) + `","result":{}}`)
		p.line(`{"jsonrpc":"2.0","id":1e999999999,"result":{}}`)
	}),
	"answer that is not UTF-8": answering(`hostile`, func(p *player, m message) {
		p.result(m, "{\"content\":[{\"type\":\"text\",\"text\":\"\xff\xfe\x80\"}]}")
	}),
	"answer with a lone surrogate": answering("", func(p *player, m message) {
		p.result(m, `{"content":[{"type":"text","text":"\ud800 \udc00\ud800"}],"\udfff":1}`)
	}),
	"answer with NULs":             answering("", func(p *player, m message) { p.result(m, "{\"content\":[{\"type\":\"text\",\"text\":\"\x00\x00\"}]}") }),
	"answer nested 101 deep":       deepAnswer(101),
	"answer nested 1,000,000 deep": deepAnswer(1_000_000),
	"error nested 1,000,000 deep": answering("", func(p *player, m message) {
		p.fault(m, `{"code":1,"message":"deep","data":`+nested("[", 1_000_000, "", "]")+`}`)
	}),
	"notification nested 10,000 deep": answering("", func(p *player, m message) {
		p.notify("notifications/message", `{"level":"error","data":`+nested("[", 10_000, "", "]")+`}`)
		p.notify("notifications/progress", `{"progressToken":`+nested("[", 10_000, "", "]")+`,"progress":1}`)
		p.result(m, text("done"))
	}),
	"answer of 300 MB": {slow: true, play: func(p *player) {
		p.onCall(func(m message) {
			p.long(`{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{"content":[{"type":"text","text":"`, "big ", 75<<20, `"}]}}`)
		})
	}},
	"answer of 10 MB of items": answering("", func(p *player, m message) {
		p.long(`{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{"content":[`, `{"type":"text","text":""},`, 400_000, `{"type":"text","text":""}]}}`)
	}),
	"result and error at once": answering("", func(p *player, m message) {
		p.line(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + text("r") + `,"error":{"code":1,"message":"e"}}`)
	}),
	"results with content of nulls": answering("", func(p *player, m message) {
		p.result(m, `{"content":[null,1,{"type":7},[]],"_meta":"x","isError":"yes","structuredContent":[1]}`)
	}),
	"results with our own _meta": answering("", func(p *player, m message) {
		p.result(m, `{"content":[],"_meta":{"server":"honest","verified":true,"trace_id":"x","tool_name":"\u001b"},"resultType":"task","taskId":"x"}`)
	}),
	"broken JSON": answering("did not answer", func(p *player, m message) { p.line(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"content":[`) }),
}

// answering returns a server that answers calls so.
func answering(named string, answer func(*player, message)) kind {
	k := kind{play: func(p *player) { p.onCall(func(m message) { answer(p, m) }) }}
	if named != "" {
		k.named = []string{named}
	}
	return k
}

func deepAnswer(n int) kind {
	return answering(`hostile`, func(p *player, m message) {
		p.result(m, `{"content":[],"structuredContent":`+nested(`{"a":`, n, "1", "}")+`}`)
	})
}

func (p *player) fault(m message, object string) {
	p.line(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":` + object + `}`)
}
