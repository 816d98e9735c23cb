//go:build linux

package hostile

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// handshakes attack the first messages.
var handshakes = map[string]kind{
	"initialize never answered": {named: []string{"doctor: it runs, but did not answer"}, play: func(p *player) { p.on["initialize"] = func(message) {} }},
	"initialize without an end": {named: []string{"doctor: "}, play: func(p *player) {
		p.on["initialize"] = func(m message) {
			p.out.Lock()
			p.write(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"protocolVersion":"2025-06-18","capabilities":{"x":"`)
			forever(func(int) { p.write(strings.Repeat("x", 1<<16)) })
		}
	}},
	"initialize with another version": {named: []string{`doctor: it speaks version "2099-01-01"`}, play: func(p *player) {
		p.on["initialize"] = func(m message) { p.result(m, p.hello("2099-01-01")) }
	}},
	"initialize with a version of 1 MB": {named: []string{"doctor: it names"}, play: func(p *player) {
		p.on["initialize"] = func(m message) { p.result(m, p.hello(strings.Repeat("2025", 1<<18))) }
	}},
	"initialize answered twice": {play: func(p *player) {
		p.on["initialize"] = func(m message) { p.result(m, p.hello("2025-06-18")); p.result(m, p.hello("1999-01-01")) }
	}},
	"initialize with wrong types": {named: []string{"doctor: "}, play: func(p *player) {
		p.on["initialize"] = func(m message) { p.result(m, `{"protocolVersion":7,"capabilities":[],"serverInfo":"x"}`) }
	}},
	"initialize with an error of 1 MB": {named: []string{"doctor: it answers"}, play: func(p *player) {
		p.on["initialize"] = func(m message) { p.fault(m, `{"code":-32000,"message":"`+strings.Repeat(`\u001b[2J`, 1<<17)+`"}`) }
	}},
	"exit during the handshake": {named: []string{"doctor: it ended"}, play: func(p *player) { p.on["initialize"] = func(message) { os.Exit(3) } }},
	"exit before everything":    {named: []string{"doctor: it ended"}, play: func(*player) { os.Exit(3) }},
	"exit after the handshake":  {named: []string{"doctor: "}, play: func(p *player) { p.initialized = func() { os.Exit(3) } }},
	"exit with a flood on stderr": {named: []string{"doctor: it ended"}, play: func(*player) {
		for range 100 {
			fmt.Fprint(os.Stderr, strings.Repeat("\x1b[2Jfatal\x07", 10_000))
		}
		os.Exit(3)
	}},
	"both eras, and neither": {named: []string{"doctor: "}, play: func(p *player) {
		p.on["server/discover"] = func(m message) {
			p.result(m, `{"supportedVersions":["2026-07-28","2099-01-01",7],"capabilities":{},"ttlMs":-1,"cacheScope":"x"}`)
		}
		p.on["initialize"] = func(m message) { p.fault(m, `{"code":-32601,"message":"no"}`) }
		p.on["tools/list"] = func(m message) { p.fault(m, `{"code":-32022,"message":"Unsupported protocol version"}`) }
	}},
	"discovery with 1,000,000 versions": {play: func(p *player) {
		p.on["server/discover"] = func(m message) {
			p.long(`{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{"supportedVersions":[`, `"2099-01-01",`, 1_000_000, `"x"],"capabilities":{}}}`)
		}
	}},
	"slow handshake": {play: func(p *player) {
		p.on["initialize"] = func(m message) { time.Sleep(800 * time.Millisecond); p.result(m, p.hello("2025-06-18")) }
	}},
	"text instead of messages": {named: []string{"doctor: it runs, but prints text"}, play: func(p *player) {
		p.lines = func([]byte) bool { fmt.Println("Usage: hostile [OPTIONS]"); return true }
	}},
}
