//go:build linux

package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeserver"
)

// The tools of the ledger servers. Only charge may not be repeated.
const (
	read   = "ledger_read"
	put    = "ledger_put"
	charge = "ledger_charge"
)

// An outcome is how a call ended for its client.
type outcome struct {
	id, server, tool string
	began, ended     time.Time
	status           status
	text             string   // of the result or the error
	node             string   // that executed it
	path             []string // execution_path
	verified         bool
}

type status string

const (
	succeeded  status = "succeeded"
	failed     status = "failed"     // with a result or an error that says why
	hungUp     status = "hung up"    // the gateway closed the connection
	unanswered status = "unanswered" // in two minutes
)

// A disturbance is a time in which calls of some servers may fail, from a fault until shortly after
// its end.
type disturbance struct {
	from, to time.Time
	servers  []string // whose calls may fail; those that several nodes have are not in it
	charges  []string // servers whose calls that may not be repeated may fail
	gateway  bool     // the gateway may hang up
}

// late is how long after the end of a call for its client an execution may still begin: a node
// refuses to start what was offered earlier than 2 s before.
const late = 3 * time.Second

// check compares the outcomes of calls with the ledger of their executions. It returns each broken
// promise:
//
//   - Each call is answered. Only a gateway that is killed hangs up.
//   - A call that may be repeated succeeds, except calls of the servers of a disturbance.
//   - A charge is executed at most once; once if it succeeds; never if its error does not say that
//     it may have run.
//   - A result names the node that executed the call, and is verified.
//   - Nothing is executed after the end of its call.
func check(outcomes []outcome, ledger []fakeserver.LedgerLine, disturbances []disturbance) (broken []string) {
	lines := map[string][]fakeserver.LedgerLine{}
	for _, line := range ledger {
		lines[line.ID] = append(lines[line.ID], line)
	}
	for _, o := range outcomes {
		for _, problem := range slices.Concat(checkOutcome(o, disturbances), checkExecutions(o, lines[o.id])) {
			broken = append(broken, fmt.Sprintf("%s of %s (%s, began %s, took %v): %s",
				o.tool, o.server, o.id, o.began.Format("05.000"), o.ended.Sub(o.began).Round(time.Millisecond), problem))
		}
		delete(lines, o.id)
	}
	for id := range lines {
		broken = append(broken, "the ledger has a call that was not made: "+id)
	}
	return broken
}

func checkOutcome(o outcome, disturbances []disturbance) (broken []string) {
	excused := func(by func(disturbance) bool) bool {
		return slices.ContainsFunc(disturbances, func(d disturbance) bool { return d.from.Before(o.ended) && o.began.Before(d.to) && by(d) })
	}
	switch o.status {
	case unanswered:
		return []string{"it was not answered: " + o.text}
	case hungUp:
		if !excused(func(d disturbance) bool { return d.gateway }) {
			return []string{"the gateway hung up: " + o.text}
		}
	case failed:
		if !excused(func(d disturbance) bool {
			return slices.Contains(d.servers, o.server) || o.tool == charge && slices.Contains(d.charges, o.server)
		}) {
			return []string{"it failed: " + o.text}
		}
	}
	return nil
}

func checkExecutions(o outcome, lines []fakeserver.LedgerLine) (broken []string) {
	begun, endedBy := 0, map[string]bool{}
	for _, line := range lines {
		if line.Ended {
			endedBy[line.Name] = true
			continue
		}
		begun++
		if after := line.At.Sub(o.ended); after > late {
			broken = append(broken, fmt.Sprintf("it ran on %s %v after its end", line.Name, after))
		}
		if line.Tool != o.tool {
			broken = append(broken, "it ran as "+line.Tool)
		}
	}
	if o.tool == charge && begun > 1 {
		broken = append(broken, fmt.Sprintf("it ran %d times", begun))
	}
	if o.tool == charge && o.status == failed && begun > 0 && !strings.Contains(o.text, mayHaveRun) {
		broken = append(broken, "it ran, but the error does not say that it may have run: "+o.text)
	}
	if o.status != succeeded {
		return broken
	}
	if o.text != o.id {
		broken = append(broken, "the answer is that of another call: "+o.text)
	}
	if !endedBy[o.node] || !slices.Contains(o.path, o.node) {
		broken = append(broken, fmt.Sprintf("the result names %s by way of %v, but it ran to its end on %v", o.node, o.path, endedBy))
	}
	if len(o.path) > 1 && !o.verified {
		broken = append(broken, "the result of another node is not verified")
	}
	return broken
}

// mayHaveRun is what the error says of a call that was sent and not answered.
const mayHaveRun = "took effect is unknown"

// readLedger reads a ledger, an empty one if it does not exist yet.
func readLedger(t testing.TB, file string) (all []fakeserver.LedgerLine) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var l fakeserver.LedgerLine
		expect.OK(t, json.Unmarshal([]byte(line), &l), "%s: %q", file, line)
		all = append(all, l)
	}
	return all
}

// only returns the lines of the calls whose ids have the prefix.
func only(ledger []fakeserver.LedgerLine, prefix string) (lines []fakeserver.LedgerLine) {
	for _, line := range ledger {
		if strings.HasPrefix(line.ID, prefix) {
			lines = append(lines, line)
		}
	}
	return lines
}

// check must find every broken promise.
func TestCheck(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	call := func(edit func(*outcome)) outcome {
		o := outcome{
			id: "1", server: "bank", tool: charge, began: at(0), ended: at(time.Second),
			status: succeeded, text: "1", node: "b", path: []string{"a", "b"}, verified: true,
		}
		edit(&o)
		return o
	}
	begin := fakeserver.LedgerLine{ID: "1", Tool: charge, Name: "b", At: at(0)}
	end := begin
	end.Ended = true
	once := []fakeserver.LedgerLine{begin, end}
	tooLate, asPut, onC := begin, begin, end
	tooLate.At, asPut.Tool, onC.Name = at(time.Second+late+1), put, "c"
	during := disturbance{from: at(500 * time.Millisecond), to: at(2 * time.Second)}
	with := func(edit func(*disturbance)) []disturbance { d := during; edit(&d); return []disturbance{d} }
	failing := func(o *outcome) { o.status, o.text = failed, "whether the call took effect is unknown" }

	for name, test := range map[string]struct {
		edit   func(*outcome)
		ledger []fakeserver.LedgerLine
		during []disturbance
		want   string
	}{
		"right":                      {func(*outcome) {}, once, nil, ""},
		"unanswered":                 {func(o *outcome) { o.status = unanswered }, nil, with(func(d *disturbance) { d.gateway = true }), "not answered"},
		"hung up":                    {func(o *outcome) { o.status = hungUp }, nil, with(func(d *disturbance) { d.servers = []string{"bank"} }), "hung up"},
		"hung up by a killed one":    {func(o *outcome) { o.status = hungUp }, once, with(func(d *disturbance) { d.gateway = true }), ""},
		"failed":                     {failing, once, nil, "it failed"},
		"failed in a disturbance":    {failing, once, with(func(d *disturbance) { d.servers = []string{"bank"} }), ""},
		"a charge failed in one":     {failing, once, with(func(d *disturbance) { d.charges = []string{"bank"} }), ""},
		"another server's":           {failing, once, with(func(d *disturbance) { d.servers = []string{"shop"} }), "it failed"},
		"a read failed":              {func(o *outcome) { failing(o); o.tool = read }, nil, with(func(d *disturbance) { d.charges = []string{"bank"} }), "it failed"},
		"failed before":              {func(o *outcome) { failing(o); o.ended = at(100 * time.Millisecond) }, nil, with(func(d *disturbance) { d.servers = []string{"bank"} }), "it failed"},
		"twice":                      {func(*outcome) {}, append(once, begin), nil, "2 times"},
		"twice after a hang-up":      {func(o *outcome) { o.status = hungUp }, append(once, begin), with(func(d *disturbance) { d.gateway = true }), "2 times"},
		"not at all":                 {func(*outcome) {}, nil, nil, "ran to its end on map[]"},
		"on another node":            {func(*outcome) {}, []fakeserver.LedgerLine{begin, onC}, nil, "ran to its end on map[c:true]"},
		"as another tool":            {func(*outcome) {}, []fakeserver.LedgerLine{asPut, end}, nil, "as " + put},
		"another's answer":           {func(o *outcome) { o.text = "2" }, once, nil, "another call"},
		"not verified":               {func(o *outcome) { o.verified = false }, once, nil, "not verified"},
		"by another way":             {func(o *outcome) { o.path = []string{"a", "c"} }, once, nil, "by way of"},
		"on this node":               {func(o *outcome) { o.verified, o.path = false, []string{"b"} }, once, nil, ""},
		"too late":                   {func(o *outcome) { failing(o) }, []fakeserver.LedgerLine{tooLate}, with(func(d *disturbance) { d.servers = []string{"bank"} }), "after its end"},
		"ran, but was said not to":   {func(o *outcome) { failing(o); o.text = "busy" }, once, with(func(d *disturbance) { d.servers = []string{"bank"} }), "does not say"},
		"a call that was never made": {func(o *outcome) { o.id, o.text, o.status = "2", "", failed }, once, with(func(d *disturbance) { d.servers = []string{"bank"} }), "not made: 1"},
	} {
		broken := check([]outcome{call(test.edit)}, test.ledger, test.during)
		if got := strings.Join(broken, "\n"); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
