package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

const (
	slowStart = 10 * time.Second // a longer start gets a warning
	longCall  = time.Minute      // a longer call gets a note
)

const (
	toAuthors = "nothing has to be done; you can report it to the server's authors"
	reportIt  = "update the server, or report this to its authors"
)

// checkBehaviour checks how a server behaves.
func checkBehaviour(x *findings, entry config.Server, s status.Status) {
	up, repaired := s.State == status.Ready || s.State == status.Idle, s.Repaired("results")
	x.when(up && s.StrayLines > 0, Warning, fmt.Sprintf("it prints text to stdout, which is for messages only: %s so far%s. metarouter skips the text, but other clients fail.", prose.Count(int(s.StrayLines), "line"), example(s.StrayLine)),
		"a server must write its logs to stderr: look for an option that turns them off on stdout, or report this to its authors")
	x.when(up && len(s.Notes) > 0, Note, fmt.Sprintf("it %s. metarouter understands this, but other clients may not.", plain.Line(strings.Join(s.Notes, ", and "))), toAuthors)
	x.when(repaired != "", Note, fmt.Sprintf("metarouter repairs its results: %s. Other clients may not show them, or models refuse them.", repaired), toAuthors)
	x.when(s.Refused > 0, Warning, fmt.Sprintf("metarouter has refused or delayed %s of it to its clients so far. The rule for the last of them: %s.", prose.Count(int(s.Refused), "question"), s.RefusedBy),
		`report this to its authors; if you trust it and it must ask often, write a higher "questionsPerMinute" into its entry`)
	x.when(up && s.Unusable.Count > 0, Warning, fmt.Sprintf("it sent %s that could not be passed on: calls with such a result fail, and notifications are left out. The last came %s.", prose.Count(int(s.Unusable.Count), "message"), plain.Line(s.Unusable.Last)),
		`ask its tools for less, or report this to its authors; many servers write UTF-8 with "env": {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"} in the entry`)
	x.when(up && s.Flood.PerSecond > 0, Warning, fmt.Sprintf("it sends too many messages that were not asked for, such as %q (%d in a second): clients get at most 1000 a second, %d were left out, and the server is read slowly.", cmp.Or(console.Cut(plain.Line(s.Flood.Method), 60), "text"), s.Flood.PerSecond, s.Flood.Dropped),
		"set it to log less, if it has an option or a variable for that, or report this to its authors")
	x.when(up && s.Longest > longCall, Note, fmt.Sprintf("a call has been under way for %s.", short(s.Longest)), `if it hangs: metarouter restart `+commandline.Quote(entry.Name)+` ends it, and "timeout" in its entry bounds such calls`)
	x.when(up && s.Outdated != "", Warning, fmt.Sprintf("its lists have changed and can't be read, so the old ones stay: %s.", strings.TrimPrefix(s.Outdated, "list its changed tools: ")), reportIt)
	x.when(up && s.ProtocolVersion == session.Oldest, Note, fmt.Sprintf("it uses an old version of the protocol (%s), without structured results and elicitation.", s.ProtocolVersion),
		"nothing has to be done; a newer version of the server may use a newer protocol")
	if up && s.Took > slowStart {
		checkStart(x, entry, s)
	}
}

// PinAdvice is the fix of servers with versions that can be pinned.
const PinAdvice = "pin the version, so the newest one is not looked up each time: run metarouter doctor --pin --write"

// checkStart says why a start took long, and how the next one is faster.
func checkStart(x *findings, entry config.Server, s status.Status) {
	problem := fmt.Sprintf("it took %s to start", short(s.Took))
	unpinned := func(arg string) bool { return arg != s.Package && commandline.Bare(arg) == commandline.Bare(s.Package) }
	use, ok := commandline.PackagesOf(entry.Command, entry.Args)
	switch fetching := s.Fetching > s.Took/3; {
	case fetching && !s.Cached:
		x.add(Note, fmt.Sprintf("%s, %s of them to fetch its package; the next start is faster.", problem, short(s.Fetching)), "")
	case fetching && ok && use.KeepsData(entry.Env):
		x.add(Warning, fmt.Sprintf("%s, %s of them to look up its package.", problem, short(s.Fetching)),
			"its version can't be pinned yet: its data is in its package's folder; set MEMORY_FILE_PATH first")
	case fetching && s.Package != "" && slices.ContainsFunc(entry.Args, unpinned):
		x.add(Warning, fmt.Sprintf("%s, %s of them to look up its package.", problem, short(s.Fetching)), PinAdvice)
	default:
		x.add(Note, problem+"; clients can use the other servers meanwhile.", "")
	}
}

// checkContainer names options of a container without which its server does not work, or leaves
// something behind.
func checkContainer(x *findings, entry config.Server) {
	if entry.Transport != config.Stdio {
		return
	}
	run, unknown := commandline.ContainerOf(entry.Command, entry.Args)
	if unknown != "" {
		x.add(Warning, fmt.Sprintf("metarouter does not know its option %q, so it can't tell which argument is the image. It starts the container as it is written, and can't stop it if the router is killed.", plain.Line(unknown)),
			`write it in its long form with "=": --option=VALUE, or --option=true if it has no value`)
		return
	}
	if run == nil {
		return
	}
	x.when(run.Detached, Warning, "its container runs in the background (-d), so no message reaches it.", `remove "-d" from "args", and write "-i" there`)
	x.when(!run.Detached && !run.Interactive, Warning, "its container has no stdin, so no message reaches it.", `write "-i" into "args", after "run"`)
	x.when(!run.Remove, Warning, "each start leaves a stopped container behind.", `write "--rm" into "args", after "run"`)
	x.when(run.Name != "", Warning, fmt.Sprintf("its container has the fixed name %q, so no second one can run: not for another client or router, nor for a client that needs a process of its own.", plain.Line(run.Name)),
		`remove "--name" from "args"`)
	x.when(run.CIDFile != "", Warning, "its container starts once only: the file of \"--cidfile\" then exists, for which it is refused.", `remove "--cidfile" from "args"; metarouter adds one for each start`)
}
