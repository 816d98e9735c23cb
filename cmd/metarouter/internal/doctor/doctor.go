// Package doctor says in plain words what is wrong with the servers of a
// configuration, and what to type or to write to fix it.
//
// [Examine] judges what it is given: the configuration, the state of each server,
// what the servers offer, and a [World] in which it may look for programs and files.
// It starts nothing and prints nothing, so that a command line and a page may both
// show its [Report].
//
// The faults that the supervisor and discovery report are distinguished by type. What
// other programs print (npm, Node, Python, uv, docker, servers themselves) is recognised
// by the patterns of one table, in printed.go.
package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/trust"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A Severity says how bad a finding is.
type Severity string

const (
	Broken  Severity = "broken"  // a server or a tool does not work
	Warning Severity = "warning" // all works, but something is likely not as intended
	Note    Severity = "note"    // worth knowing; nothing has to be done
)

// A Finding is one thing that is wrong.
type Finding struct {
	Server   string   `json:"server"` // "" if it is not about one server
	Severity Severity `json:"severity"`
	Problem  string   `json:"problem"`           // one sentence
	Fix      string   `json:"fix"`               // what to type or to write
	Details  []string `json:"details,omitempty"` // the last lines that the server printed
	Pin      bool     `json:"pin,omitempty"`     // 'metarouter doctor --pin --write' fixes it
}

// A Case is what Examine judges.
type Case struct {
	Config  config.Config
	Servers []status.Status // in any order
	Catalog *registry.Snapshot

	// Name returns the name under which clients see a tool, and why that is not
	// simply the server's name and the tool's; "" if it is.
	Name func(*registry.NormalizedTool) (exposed, why string)

	// Finds reports whether one tool has the name, in any form.
	Finds func(name string) bool

	// Why the last edit of the configuration is not in use, a [*trust.Waiting] if it waits for
	// approval; nil if it is in use.
	Edit error

	// What is wrong with the models of these keys; nil if nothing is, or they were not asked.
	Assist, Embeddings error

	// Why no traces are sent although the environment asks for them, with what to write after
	// "; "; nil if they are sent or not asked for.
	Traces error

	// The address of the configuration's HTTP server that another program has, nil if none has.
	Port *Port

	Issuers []Issuer // of "http.oauth", that were asked
	Cluster *Cluster // nil if there is none, or it was not asked

	World World
}

// A Report is what was found.
type Report struct {
	Findings []Finding // server by server, the worst first, then those about no single server
	Wanted   int       // servers that should work
	Working  int       // servers that work
	unusable bool      // the configuration can't be read

	packages map[string]string // npm packages that run, by server
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
		line = "no server is configured to run"
	case broken == 0 && r.Wanted == 1:
		line = "the server works"
	case broken == 0:
		line = fmt.Sprintf("all %d servers work", r.Wanted)
	case r.Wanted == 1:
		line = "the server does not work: see above"
	case broken == 1:
		line = fmt.Sprintf("%d of %d servers work; 1 needs you: see above", r.Working, r.Wanted)
	default:
		line = fmt.Sprintf("%d of %d servers work; %d need you: see above", r.Working, r.Wanted, broken)
	}
	if r.Working == r.Wanted && !r.OK() {
		line += fmt.Sprintf("; but %s: see above", wrong(r.count(Broken)))
	}
	if n := r.count(Warning); n > 0 {
		line += "; " + prose.Count(n, "warning")
	}
	return line
}

// Unusable returns the report on a configuration that can't be read.
func Unusable(err error) Report {
	f := Finding{Severity: Broken, Problem: "the configuration can't be read: " + err.Error(), Fix: "correct the file; 'metarouter check' says whether it is correct"}
	if p, ok := err.(config.Problem); ok {
		f.Problem, f.Fix = ofProblem(p)
	}
	return Report{Findings: []Finding{f}, unusable: true}
}

// Examine returns the report on the case. Apart from what it asks the World, it is pure.
func Examine(c Case) Report {
	r := Report{packages: make(map[string]string)}
	x := new(findings)
	states := make(map[string]status.Status)
	for _, s := range c.Servers {
		states[s.Name] = s
	}
	for _, entry := range c.Config.Servers {
		now, ok := states[entry.Name]
		if !ok {
			now = status.Status{Name: entry.Name, State: status.Starting}
		}
		before := len(x.all)
		x.server = entry.Name
		examineServer(x, c, entry, concealed(entry, now), c.Catalog.Offer(entry.Name))
		slices.SortStableFunc(x.all[before:], func(a, b Finding) int {
			return cmp.Compare(rank(a.Severity), rank(b.Severity))
		})
		if now.State != status.Disabled && now.State != status.Self {
			r.Wanted++
			if now.State == status.Ready || now.State == status.Idle {
				if r.Working++; now.Package != "" {
					r.packages[entry.Name] = now.Package
				}
			}
		}
	}
	x.server = ""
	examineWhole(x, c)
	r.Findings = x.all
	return r
}

func rank(s Severity) int { return slices.Index([]Severity{Broken, Warning, Note}, s) }

// findings collects what the rules find. The rules are functions that check one thing or
// explain one failure.
type findings struct {
	server string // that the rules look at; "" for none
	all    []Finding
}

func (x *findings) add(s Severity, problem, fix string, details ...string) {
	x.all = append(x.all, Finding{Server: x.server, Severity: s, Problem: problem, Fix: fix, Details: details, Pin: strings.HasPrefix(fix, pinAdvice)})
}

// examineServer checks one server: whether it runs, how it runs, and what it offers.
func examineServer(x *findings, c Case, entry config.Server, s status.Status, offer registry.Listing) {
	addProblems(x, c, entry, s)
	switch s.State {
	case status.Disabled:
		if entry.ByHand {
			x.add(Note, "it was stopped by hand, so it does not run.", "to start it again, run: metarouter restart "+entry.Name+"; or press Start in the dashboard")
			return
		}
		x.add(Note, "it is disabled, so it is not started.", "to use it, run: metarouter enable "+entry.Name+" --write")
		return
	case status.Self:
		x.add(Warning, "its entry would start a router inside the router, so it is never started.", "take the entry out of the configuration")
		return
	case status.Misconfigured:
		return // as its problems say
	case status.Ready, status.Idle:
		checkRestarts(x, entry, s)
	default:
		explainFailure(x, c, entry, s)
	}
	checkContainer(x, entry)
	checkDuplicates(x, c, entry)
	checkBehaviour(x, entry, s)
	checkFilters(x, entry, s, offer)
	checkOffer(x, c, entry, offer)
}

// examineWhole checks what is not about one server.
func examineWhole(x *findings, c Case) {
	if w, ok := errors.AsType[*trust.Waiting](c.Edit); ok {
		x.add(Warning, "the last edit of the configuration waits for your approval: "+w.Untrusted.Error()+".", "read the file, then run: "+w.Command)
	} else if c.Edit != nil {
		x.add(Warning, "the last edit of the configuration is not in use: "+c.Edit.Error()+".", "correct the file; 'metarouter check' says whether it is correct")
	}
	for _, p := range c.Config.Problems {
		if p.Server == "" {
			problem, fix := ofProblem(p)
			severity := Broken
			if p.Severity == "warning" {
				severity = Warning
			}
			x.add(severity, problem, fix)
		}
	}
	if in := c.Config.Router.Cluster; len(c.Config.Servers) == 0 && (in == nil || len(in.Use) == 0) {
		x.add(Warning, "the configuration has no server.",
			"type 'metarouter import CLIENT --write' for the servers of a client such as claude-desktop, or 'metarouter add NAME --write -- COMMAND' for one of your own")
	}
	err := c.World.DataFolder()
	if exposed, ok := errors.AsType[*safefile.Exposed](err); ok {
		x.add(Warning, exposed.Problem+", so no approval in the data folder counts, and programs of npx packages are looked up at each start.", exposed.Fix+", or name another folder with --data DIR")
	} else if err != nil {
		x.add(Warning, fmt.Sprintf("nothing can be written to the data folder (%v), so each start is as slow as the first.", err), "make it writable, or name another with --data DIR")
	}
	if path := c.World.KeyFile(); path != "" {
		x.add(Note, "the key of your secrets is in the file "+path+", because there was no keyring when the first one was set: whoever can read your files can read the secrets.",
			"where a keyring runs, remove the files secrets.* in its folder and set the secrets again; else nothing has to be done")
	}
	if path := c.World.LoginsKey(); path != "" {
		x.add(Note, "the key of your logins at remote servers is in the file "+path+", because no keyring ran when it was made: whoever can read your files can use the logins.",
			"where a keyring runs, remove the files logins.* in its folder and log in again; else nothing has to be done")
	}
	checkPort(x, c.Port)
	checkIssuers(x, c)
	checkCluster(x, c)
	checkModels(x, c)
	checkTraces(x, c.Traces)
	checkPinned(x, c)
	checkCost(x, c)
}

// checkTraces reports variables that ask for traces which can't be sent.
func checkTraces(x *findings, err error) {
	if err == nil {
		return
	}
	why, fix, _ := strings.Cut(err.Error(), "; ")
	x.add(Warning, "no traces are sent: "+why+".", "in the environment of the router, "+cmp.Or(fix, "correct the variable")+"; then start it again")
}

// addProblems adds the problems that were found when the entry was read.
func addProblems(x *findings, c Case, entry config.Server, s status.Status) {
	severity := Warning
	if s.State == status.Misconfigured {
		severity = Broken
	}
	for _, p := range c.Config.Problems {
		if p.Server != entry.Name {
			continue
		}
		problem, fix := ofProblem(p)
		if p.Severity == "warning" {
			x.add(Warning, problem, fix)
		} else {
			x.add(severity, problem, fix)
		}
	}
}

// ofProblem returns a problem of the configuration with its place, and what to write
// instead.
func ofProblem(p config.Problem) (problem, fix string) {
	where := p.File
	if p.Line > 0 {
		where = fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	}
	what, fix, _ := strings.Cut(p.Message, "; ")
	if fix = cmp.Or(p.Fix, fix); fix == "" {
		fix = "correct the line"
	}
	return fmt.Sprintf("%s (%s).", what, where), fix
}

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

// some joins the first few names, and counts the others.
func some(names []string) string { return prose.List(names, 4) }
