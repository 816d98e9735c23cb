//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"
)

// deadline is the longest time for an answer: more than all of the router's own deadlines for a
// call together. Without an answer by then, a call is lost.
const deadline = 2 * time.Minute

// A call is one tools/call. Its id is unique in the run.
type call struct {
	id        int
	server    string
	tool      string
	arguments string // JSON
	want      string // the text of the right answer
}

// An answer is the answer to a call: a result, or the message of an error.
type answer struct {
	result json.RawMessage
	fault  string
}

// A tally counts calls by their results.
type tally struct {
	Made, Right int
	Failed      int // with an error that names the server and a known reason
	Wrong       int // with another answer, or with an error without a reason
	Twice       int // answered more than once
	Lost        int // not answered
	Garbled     int // lines of routers that are no messages
}

// sound reports whether every call had exactly one permitted answer.
func (t tally) sound() bool {
	return t.Wrong+t.Twice+t.Lost+t.Garbled == 0 && t.Made == t.Right+t.Failed
}

// A ledger records every call and its result.
type ledger struct {
	mayEnd bool // routers are killed on purpose, so calls may have no answer

	mu       sync.Mutex // guards the fields below
	tally    tally
	answers  []uint8        // number of answers by call id
	reasons  map[string]int // of failures
	examples map[string]string
	slowest  time.Duration // of the right answers
}

func newLedger(mayEnd bool) *ledger {
	return &ledger{mayEnd: mayEnd, reasons: map[string]int{}, examples: map[string]string{}}
}

// next returns the id of a new call, which starts now.
func (l *ledger) next() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tally.Made++
	l.answers = append(l.answers, 0)
	return len(l.answers) - 1
}

// came records an answer with this id.
func (l *ledger) came(id int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id < 0 || id >= len(l.answers) {
		return // belongs to the handshake
	}
	if l.answers[id]++; l.answers[id] == 2 {
		l.tally.Twice++
		l.example("TWICE", fmt.Sprintf("call %d", id))
	}
}

// settle records the answer to a call.
func (l *ledger) settle(c call, a answer, took time.Duration) {
	text, isError := a.fault, true
	if a.result != nil {
		text, isError = textOf(a.result)
	}
	reason, named := reasonOf(text, c.server)
	named = named || l.mayEnd && reason == routerKilled
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !isError && text == c.want:
		l.tally.Right++
		l.slowest = max(l.slowest, took)
	case isError && named:
		l.tally.Failed++
		l.reasons[reason]++
		l.example(reason, text)
	default:
		l.tally.Wrong++
		l.example("WRONG", fmt.Sprintf("%s of %q: %s", c.tool, c.server, text))
	}
}

// lose records that a call has no answer, and why.
func (l *ledger) lose(c call, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tally.Lost++
	l.example("LOST", fmt.Sprintf("call %d, %s of %q: %v", c.id, c.tool, c.server, why))
}

// garbled records a line of a router that is no message.
func (l *ledger) garbled(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tally.Garbled++
	l.example("GARBLED", string(line))
}

// excuse records that a call has no answer because its router was killed on purpose.
func (l *ledger) excuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tally.Failed++
	l.reasons[routerKilled]++
}

// example keeps the first text of each kind. l.mu must be held.
func (l *ledger) example(kind, text string) {
	if _, ok := l.examples[kind]; !ok {
		l.examples[kind] = text[:min(len(text), 400)]
	}
}

func (l *ledger) sum() tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tally
}

func (l *ledger) byReason() (counts map[string]int, examples map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.reasons), maps.Clone(l.examples)
}

// textOf returns the text of a CallToolResult, "" if it has not exactly one.
func textOf(result json.RawMessage) (text string, isError bool) {
	var r struct {
		Content []struct{ Text string }
		IsError bool
	}
	if json.Unmarshal(result, &r) != nil || len(r.Content) != 1 {
		return "", r.IsError
	}
	return r.Content[0].Text, r.IsError
}

const routerKilled = "the router was killed during the call, or had not come back"

// reasons are the words that identify a reason, the more specific first.
var reasons = []struct{ words, reason string }{
	{"the router ended", routerKilled},
	{"ended during the call", "the server ended during the call"},
	{"did not answer the last", "the server had answered nothing for a while, and was left alone"},
	{"did not answer", "the server did not answer within its timeout"},
	{"not ready within", "the server was not ready within its startTimeout"},
	{"is busy", "too many calls waited for the server"},
	{"too many open files", "no descriptor was left"},
	{"try again in a minute", "the server was still starting"},
	{"removed from the configuration", "the server was removed meanwhile"},
	{"unknown tool", "the server was not in the configuration at that time"},
	{"is stopped", "the server was removed meanwhile"},
	{"\" failed", "the server had failed too often"},
	{"is restarting", "the server was being started again"},
}

// reasonOf returns the reason of an error. named is false if the error does not name the server.
func reasonOf(text, server string) (reason string, named bool) {
	named = strings.Contains(text, server)
	for _, r := range reasons {
		if strings.Contains(text, r.words) {
			return r.reason, named
		}
	}
	return "other", named
}
