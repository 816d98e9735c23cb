//go:build linux

package hostile

import (
	"os"
	"strings"
)

// handshakes attack the first messages.
var handshakes = map[string]kind{
	"initialize never answered": {named: []string{"doctor: it runs, but did not answer"}, play: func(p *player) { p.on["initialize"] = func(message) {} }},
	"initialize with another version": {named: []string{`doctor: it speaks version "2099-01-01"`}, play: func(p *player) {
		p.on["initialize"] = func(m message) { p.result(m, p.hello("2099-01-01")) }
	}},
	"initialize with a version of 1 MB": {named: []string{"doctor: it names"}, play: func(p *player) {
		p.on["initialize"] = func(m message) { p.result(m, p.hello(strings.Repeat("2025", 1<<18))) }
	}},
	"initialize with an error of 1 MB": {named: []string{"doctor: it answers"}, play: func(p *player) {
		p.on["initialize"] = func(m message) { p.fault(m, `{"code":-32000,"message":"`+strings.Repeat(`\u001b[2J`, 1<<17)+`"}`) }
	}},
	"exit after the handshake": {named: []string{"doctor: "}, play: func(p *player) { p.initialized = func() { os.Exit(3) } }},
}
