package supervisor

import (
	"io"
	"os"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/launch"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/process"
)

// DepthVariable is set in the environment of every server. A router that finds it set
// was started by a router, and must not start.
const DepthVariable = process.DepthVariable

// RunGuard is the whole of the process guard: a program that starts the router's
// servers, and ends them when the router is killed. The program named by
// [Options.Guard] must call it with its stdin. RunGuard returns when nothing is left to
// guard.
func RunGuard(stdin *os.File) { process.RunGuard(stdin) }

// A GuardProcess is a process guard that no router uses yet.
type GuardProcess = process.GuardProcess

// StartGuard starts a process guard with the command line of [Options.Guard], so that it runs
// once a router needs it, and does not wait for it. It ends with this process.
func StartGuard(command []string) *GuardProcess { return process.StartGuard(command) }

// OpenForUser is the whole of what the program named by [Options.Guard] does if a server
// has called it as xdg-open, gio or open: it starts the real program such that it
// outlives the server, and exits. Call it first of all with [os.Args]. It returns at
// once if no server has called the program so.
func OpenForUser(args []string) { process.Open(args) }

// Inherited returns the variables of ours that the server of an entry gets, and the PATH
// in which its command is searched.
func Inherited(ours []string, entry config.Server) []string {
	return process.Environment(ours, entry.InheritEnv, os.Getenv("PATH"), nil, append([]string{entry.Command}, entry.Args...))
}

// ReportVariable is set in the environment of a program that must call [Report].
const ReportVariable = launch.ReportVariable

// Report is the whole of the program named by [Options.Reporter], which npm runs as
// its shell with the arguments args. It writes the command that npx has for the shell
// to w.
func Report(w io.Writer, args []string) error { return launch.Report(w, args) }

// SelfCode and the member "metarouter": "self" in an error's data are the answer of
// a router that was started by a router.
const SelfCode = peer.SelfCode
