// Package doctor says in plain words what is wrong with the servers of a
// configuration, and what to type or to write to mend it.
//
// [Examine] judges what it is given: the configuration, the state of each server,
// what the servers offer, and a [World] in which it may look for programs and files.
// It starts nothing and prints nothing, so that a command line and a page may both
// show its [Report].
//
// What the supervisor and discovery know is told apart by type. What other programs
// print (npm, Node, Python, uv, docker, servers themselves) is recognised by its
// words, all of which are in the table in said.go.
package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// A Severity says how bad a finding is.
type Severity string

const (
	Broken  Severity = "broken"  // a server or a tool does not work
	Warning Severity = "warning" // all works, and something is likely not as it was meant
	Note    Severity = "note"    // good to know
)

// A Finding is one thing that is wrong.
type Finding struct {
	Server   string   `json:"server"` // "" if it is not about one server
	Severity Severity `json:"severity"`
	Problem  string   `json:"problem"`           // one sentence
	Fix      string   `json:"fix"`               // what to type or to write
	Details  []string `json:"details,omitempty"` // the last lines that the server printed
}

// A Case is what there is to judge by.
type Case struct {
	Config  config.Config
	Servers []supervisor.Status // in any order
	Catalog *registry.Snapshot

	// Name returns the name under which clients see a tool, and why that is not
	// simply made of the server's and the tool's; "" if it is.
	Name func(*registry.NormalizedTool) (exposed, why string)

	// Finds reports whether a tool has the name, in any form.
	Finds func(name string) bool

	World World
}

// A Report is what was found.
type Report struct {
	Findings []Finding // server by server, the worst first, then what is about none of them
	Wanted   int       // servers that should work
	Working  int       // those that do
	unusable bool      // nothing can be read
}

// OK reports whether nothing keeps a server or a tool from working.
func (r Report) OK() bool { return r.count(Broken) == 0 }

func (r Report) count(s Severity) (n int) {
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// Verdict sums the report up in a line.
func (r Report) Verdict() string {
	var line string
	switch broken := r.Wanted - r.Working; {
	case r.unusable:
		return "the configuration can't be used; nothing was started"
	case r.Wanted == 0:
		line = "there is no server that could work"
	case broken == 0 && r.Wanted == 1:
		line = "the server works"
	case broken == 0:
		line = fmt.Sprintf("all %d servers work", r.Wanted)
	case broken == 1:
		line = fmt.Sprintf("%d of %d servers work; 1 needs you: see above", r.Working, r.Wanted)
	default:
		line = fmt.Sprintf("%d of %d servers work; %d need you: see above", r.Working, r.Wanted, broken)
	}
	if r.Working == r.Wanted && !r.OK() {
		line += fmt.Sprintf("; %s all the same: see above", wrong(r.count(Broken)))
	}
	if n := r.count(Warning); n > 0 {
		line += "; " + counted(n, "warning")
	}
	return line
}

// Unusable returns the report on a configuration of which nothing can be read.
func Unusable(err error) Report {
	f := Finding{Severity: Broken, Problem: "the configuration can't be read: " + err.Error(), Fix: "correct the file; 'metarouter check' says whether it is in order"}
	if p, ok := err.(config.Problem); ok {
		f.Problem, f.Fix = ofProblem(p)
	}
	return Report{Findings: []Finding{f}, unusable: true}
}

// Examine judges the case. It is pure but for what it asks of the World.
func Examine(c Case) Report {
	var r Report
	x := &examiner{Case: c}
	states := make(map[string]supervisor.Status)
	for _, s := range c.Servers {
		states[s.Name] = s
	}
	for _, entry := range c.Config.Servers {
		status, ok := states[entry.Name]
		if !ok {
			status = supervisor.Status{Name: entry.Name, State: supervisor.Starting}
		}
		before := len(x.findings)
		x.server = entry
		x.examine(entry, concealed(entry, status), c.Catalog.Offer(entry.Name))
		slices.SortStableFunc(x.findings[before:], func(a, b Finding) int {
			return cmp.Compare(rank(a.Severity), rank(b.Severity))
		})
		if status.State != supervisor.Disabled && status.State != supervisor.Self {
			r.Wanted++
			if status.State == supervisor.Ready || status.State == supervisor.Idle {
				r.Working++
			}
		}
	}
	x.server = config.Server{}
	x.whole()
	r.Findings = x.findings
	return r
}

func rank(s Severity) int { return slices.Index([]Severity{Broken, Warning, Note}, s) }

// An examiner collects findings. Each rule is a method.
type examiner struct {
	Case
	server   config.Server // that is being examined; the zero value for none
	findings []Finding
}

func (x *examiner) find(s Severity, problem, fix string, details ...string) {
	x.findings = append(x.findings, Finding{Server: x.server.Name, Severity: s, Problem: problem, Fix: fix, Details: details})
}

// examine judges one server: first whether it runs, then how it runs, then what it
// offers.
func (x *examiner) examine(entry config.Server, s supervisor.Status, offer registry.Listing) {
	x.problems(entry, s)
	switch s.State {
	case supervisor.Disabled:
		if entry.ByHand {
			x.find(Note, "it was stopped by hand, so it does not run.", "to have it back: metarouter restart "+entry.Name+", or its button on the page")
			return
		}
		x.find(Note, "it is disabled, so it is not started.", `to use it, take "disabled": true out of its entry`)
		return
	case supervisor.Self:
		x.find(Warning, "its entry would start a router inside the router, so it is never started.", "take the entry out of the configuration")
		return
	case supervisor.Misconfigured:
		return // as its problems say
	case supervisor.Ready, supervisor.Idle:
		x.afterwards(entry, s)
	default:
		x.down(entry, s)
	}
	x.duplicates(entry)
	x.habits(entry, s)
	x.filters(entry, s, offer)
	x.offered(entry, offer)
}

// whole judges what is not about one server.
func (x *examiner) whole() {
	for _, p := range x.Config.Problems {
		if p.Server == "" {
			problem, fix := ofProblem(p)
			x.find(Warning, problem, fix)
		}
	}
	if len(x.Config.Servers) == 0 {
		x.find(Warning, "the configuration names no server.",
			`write one: {"mcpServers": {"files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "."]}}}`)
	}
	if err := x.World.DataFolder(); err != nil {
		x.find(Warning, fmt.Sprintf("nothing can be kept in the data folder (%v): each start is as slow as the first.", err), "make it writable, or name another with --data DIR")
	}
	x.pinned()
	x.cost()
}

// problems are those that reading the entry found.
func (x *examiner) problems(entry config.Server, s supervisor.Status) {
	severity := Warning
	if s.State == supervisor.Misconfigured {
		severity = Broken
	}
	for _, p := range x.Config.Problems {
		if p.Server != entry.Name {
			continue
		}
		problem, fix := ofProblem(p)
		x.find(severity, problem, fix)
	}
}

// ofProblem returns what a problem of the configuration says, with its place, and
// what to write instead.
func ofProblem(p config.Problem) (problem, fix string) {
	where := p.File
	if p.Line > 0 {
		where = fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	}
	what, fix, _ := strings.Cut(p.Message, "; ")
	if p.Unset != "" {
		first, _, _ := strings.Cut(p.Unset, ",")
		fix = fmt.Sprintf(`set %s where the client is started (programs started from the Dock or a menu do not see your shell's variables), or put it into a file and write "envFile": "that/file" into the entry`, first)
	}
	if fix == "" {
		fix = "correct the line"
	}
	return fmt.Sprintf("%s (%s).", what, where), fix + "."
}

// counted returns "1 warning" or "3 warnings".
func counted(n int, noun string) string { return fmt.Sprintf("%d %s", n, plural(n, noun)) }

func wrong(n int) string {
	if n == 1 {
		return "1 thing is wrong"
	}
	return fmt.Sprintf("%d things are wrong", n)
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// some names the first few.
func some(names []string) string {
	const most = 4
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}
