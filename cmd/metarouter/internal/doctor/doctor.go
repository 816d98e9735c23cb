// Package doctor finds the faults of the servers of a configuration, and says in plain words which
// command or edit fixes each.
//
// [Examine] judges the configuration, the state of each server, the tools that the servers offer,
// and the [World] around them.
// It starts nothing and prints nothing, so that a command line and a page may both
// show its [Diagnosis].
//
// The faults that the supervisor and discovery report are distinguished by type. The output of
// other programs (npm, Node, Python, uv, docker, servers themselves) is recognised by the patterns
// of one table, in causes.go.
package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/vault"
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
}

// A Case is the input of Examine.
type Case struct {
	Config  config.Config
	Servers []status.Status // in any order
	Catalog *registry.Snapshot

	// Finds reports whether one tool has the name, in any form.
	Finds func(name string) bool

	Edit    error  // why the last edit of the configuration is not in use; nil if it is in use
	Approve string // the command that approves it, if it waits for that

	Issuers []Issuer // of "http.oauth", that were asked
	Cluster *Cluster // nil without one, or if it was not asked

	World World
}

// A Diagnosis is the result of Examine, as the command doctor prints it.
type Diagnosis struct {
	OK       bool      `json:"ok"`       // nothing keeps a server or a tool from working
	Findings []Finding `json:"findings"` // server by server, the worst first, then the findings about no single server
	Verdict  string    `json:"verdict"`

	Packages map[string]string `json:"packages,omitempty"` // that run, as name@version, by server
}

// verdict sums findings up in a line. wanted is the number of servers that should work, and working of
// the ones that do.
func verdict(findings []Finding, wanted, working int) string {
	line := fmt.Sprintf("servers that work: %d of %d", working, wanted)
	count := make(map[Severity]int)
	for _, f := range findings {
		count[f.Severity]++
	}
	if n := count[Broken]; n > 0 {
		line += "; " + prose.Count(n, "problem") + ": see above"
	}
	if n := count[Warning]; n > 0 {
		line += "; " + prose.Count(n, "warning")
	}
	return line
}

// Unusable returns the diagnosis of a configuration that can't be read.
func Unusable(p config.Problem) Diagnosis {
	p.Server = "" // it is about all
	return Diagnosis{Findings: []Finding{ofProblem(p, Broken)}, Verdict: "the configuration can't be used; nothing was started"}
}

// Examine returns the diagnosis of the case. It is pure.
func Examine(c Case) Diagnosis {
	packages, wanted, working := make(map[string]string), 0, 0
	x := &findings{all: []Finding{}}
	states := make(map[string]status.Status)
	for _, s := range c.Servers {
		states[s.Name] = s
	}
	for _, entry := range c.Config.Servers {
		now, ok := states[entry.Name]
		if !ok {
			now = status.Status{Name: entry.Name, State: status.Starting}
		}
		if entry.Disabled && now.State == status.Stopping { // its calls end
			now.State = status.Disabled
		}
		x.all = append(x.all, ExamineServer(c, entry, now)...)
		if now.State != status.Disabled && now.State != status.Self {
			wanted++
			if now.State == status.Ready || now.State == status.Idle {
				if working++; now.Package != "" {
					packages[entry.Name] = now.Package
				}
			}
		}
	}
	examineWhole(x, c)
	isBroken := func(f Finding) bool { return f.Severity == Broken }
	return Diagnosis{!slices.ContainsFunc(x.all, isBroken), x.all, verdict(x.all, wanted, working), packages}
}

// ExamineServer returns the findings about the server of an entry, the worst first. It needs no servers of the case.
func ExamineServer(c Case, entry config.Server, s status.Status) []Finding {
	x := &findings{server: entry.Name}
	examineServer(x, c, entry, concealed(entry, s), c.Catalog.Offer(entry.Name))
	order := []Severity{Broken, Warning, Note}
	slices.SortStableFunc(x.all, func(a, b Finding) int { return slices.Index(order, a.Severity) - slices.Index(order, b.Severity) })
	return x.all
}

// findings collects the findings of the rules. These are functions that check one thing or
// explain one failure.
type findings struct {
	server string // that the rules look at; "" for the whole configuration
	all    []Finding
}

func (x *findings) add(s Severity, problem, fix string, details ...string) {
	x.all = append(x.all, Finding{Server: x.server, Severity: s, Problem: problem, Fix: fix, Details: details})
}

// when adds a finding if it applies.
func (x *findings) when(applies bool, s Severity, problem, fix string) {
	if applies {
		x.add(s, problem, fix)
	}
}

// examineServer checks one server: whether it runs, how it runs, and its tools.
func examineServer(x *findings, c Case, entry config.Server, s status.Status, offer registry.Listing) {
	severity := Warning
	if s.State == status.Misconfigured {
		severity = Broken
	}
	for _, p := range c.Config.Problems {
		if p.Server == entry.Name {
			x.all = append(x.all, ofProblem(p, severity))
		}
	}
	switch s.State {
	case status.Disabled:
		if entry.ByHand {
			x.add(Note, "it was stopped by hand, so it does not run.", "to start it again, run: metarouter restart "+commandline.Quote(entry.Name)+"; or press Start in the dashboard")
			return
		}
		x.add(Note, "it is disabled, so it is not started.", "to use it, run: metarouter enable "+commandline.Quote(entry.Name)+" --write")
		return
	case status.Self:
		x.add(Warning, "its entry would start a router inside the router, so it is never started.", "take the entry out of the configuration")
		return
	case status.Misconfigured:
		return // as its problems say
	case status.Ready, status.Idle:
		if s.Reverted {
			x.add(Broken, "its last edit is not in use: "+s.LastError+".", "correct the entry, or undo the edit")
		} else if s.Fault != nil && s.Restarts > 0 {
			x.add(Warning, fmt.Sprintf("it runs now, but before that it ended or failed to start %s. The last reason: %s.", prose.Count(s.Restarts, "time"), s.LastError), output{entry: entry}.rerun())
		}
	default:
		problem, fix, details := explainFailure(c, entry, s)
		x.add(Broken, problem, fix, details...)
	}
	checkContainer(x, entry)
	checkDuplicates(x, c, entry)
	checkBehaviour(x, entry, s)
	checkFilters(x, entry, offer)
	checkOffer(x, c, entry, s, offer)
}

// examineWhole checks the settings and the data folder, which are not about one server.
func examineWhole(x *findings, c Case) {
	if c.Approve != "" {
		x.add(Warning, "the last edit of the configuration waits for your approval: "+c.Edit.Error()+".", "read the file, then run: "+c.Approve)
	} else if c.Edit != nil {
		x.add(Warning, "the last edit of the configuration is not in use: "+c.Edit.Error()+".", "correct the file; 'metarouter check' says whether it is correct")
	}
	for _, p := range c.Config.Problems {
		if p.Server == "" {
			x.all = append(x.all, ofProblem(p, Broken))
		}
	}
	if in := c.Config.Router.Cluster; len(c.Config.Servers) == 0 && (in == nil || len(in.Use) == 0) {
		x.add(Warning, "the configuration has no server.",
			"type 'metarouter import CLIENT --write' for the servers of a client such as claude-desktop, or 'metarouter add NAME --write -- COMMAND' for one of your own")
	}
	err := c.World.DataFolder
	if exposed, ok := errors.AsType[*safefile.Exposed](err); ok {
		x.add(Warning, exposed.Problem+", so no approval in the data folder counts, and programs of npx packages are looked up at each start.", exposed.Fix+", or name another folder with --data DIR")
	} else if err != nil {
		x.add(Warning, fmt.Sprintf("nothing can be written to the data folder (%v), so each start is as slow as the first.", err), "make it writable, or name another with --data DIR")
	}
	for _, path := range c.World.KeyFiles {
		x.add(Note, "the key of your secrets or logins is in the file "+path+", because no keyring ran when it was made: whoever can read your files can use them.",
			"where a keyring runs, remove the files "+strings.TrimSuffix(path, "key")+"* and set the secrets or log in again; else nothing has to be done")
	}
	checkIssuers(x, c)
	checkCluster(x, c)
	for _, name := range c.Config.Router.Pinned {
		x.when(!c.Finds(name), Warning, fmt.Sprintf(`"pinned" has %q, but no tool has this name, or several have it.`, name), fmt.Sprintf("correct it: 'metarouter why %s' explains it", commandline.Quote(name)))
	}
	checkCost(x, c)
}

// ofProblem returns a problem of the configuration with its place, and with the severity unless it is a warning.
func ofProblem(p config.Problem, severity Severity) Finding {
	if p.Severity == "warning" {
		severity = Warning
	}
	where := p.File
	if p.Line > 0 {
		where = fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	}
	what, fix := prose.Advice(p.Message)
	return Finding{Server: p.Server, Severity: severity, Problem: fmt.Sprintf("%s (%s).", what, where), Fix: cmp.Or(p.Fix, fix, "correct the line")}
}

// some joins the first few names, and counts the others.
func some(names []string) string { return prose.List(names, 4) }

// A World is what [Examine] may know of this machine.
type World struct {
	Folder     string   // the working folder of this process
	KeyFiles   []string // the files with the keys of the secrets and of the logins at remote servers, where no keyring has them
	DataFolder error    // why the data folder can't be written, or a [*safefile.Exposed]; nil if all is well, or nothing is kept
}

// Look returns the world of this process, which keeps its data in a folder; "" keeps nothing.
func Look(dataDir string) (w World) {
	w.Folder, _ = os.Getwd()
	if own, err := configpath.Own(); err == nil {
		files := []string{vault.New(filepath.Dir(own)).KeyFile(), vault.Logins(filepath.Dir(own)).KeyFile()}
		w.KeyFiles = slices.DeleteFunc(files, func(path string) bool { return path == "" })
	}
	if dataDir != "" {
		w.DataFolder = tryFolder(dataDir)
	}
	return w
}

func tryFolder(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	probe, err := os.CreateTemp(path, ".doctor")
	if err != nil {
		return err
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return err
	}
	return safefile.OwnersOnly(path)
}
