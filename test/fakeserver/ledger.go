package fakeserver

import (
	"bytes"
	"encoding/json"
	"os"
	"time"

	"github.com/mcp-metarouter/metarouter/test/internal/protocol"
)

// A LedgerLine is a line of a -ledger, which records every execution of the tools ledger_read,
// ledger_put and ledger_charge: one line when it begins, before anything else, and one before
// its answer. Each is one write to the end of the file, so that servers may share the file.
type LedgerLine struct {
	ID    string // the argument id of the call
	Tool  string
	Name  string // of the server
	PID   int
	Ended bool
	At    time.Time
}

const ledgerSchema = `{"id":{"type":"string"},"ms":{"type":"integer"}}`

// recordExecution takes as many milliseconds as asked, and answers with the call's id. A call
// that is cancelled has no answer and no second line.
func recordExecution(tool string) action {
	return func(c *call) (string, *rpcError) {
		var a struct {
			ID string
			Ms int
		}
		json.Unmarshal(c.arguments, &a)
		line := LedgerLine{ID: a.ID, Tool: tool, Name: c.name, PID: c.pid, At: time.Now()}
		c.record(line)
		select {
		case <-time.After(time.Duration(a.Ms) * time.Millisecond):
		case <-c.ctx.Done():
			return "", nil
		}
		line.Ended, line.At = true, time.Now()
		c.record(line)
		return text(a.ID), nil
	}
}

func (o *options) record(line LedgerLine) {
	if o.ledger != "" {
		o.appendTo(o.ledger, string(protocol.Encode(line))+"\n")
	}
}

// Executions returns how often each call of a tool of ledgers began, by the argument id, as the ledger in the file says.
func Executions(file string) map[string]int {
	all := make(map[string]int)
	text, _ := os.ReadFile(file)
	for line := range bytes.Lines(text) {
		var l LedgerLine
		if json.Unmarshal(line, &l) == nil && !l.Ended {
			all[l.ID]++
		}
	}
	return all
}
