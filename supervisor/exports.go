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

// RunGuard is the whole of the process guard: a program that ends what the router
// has started when the router is killed. The program named by [Options.Guard] must
// call it with its stdin, or [ExecShim] if it has the arguments "--" and a command.
// RunGuard returns when nothing is left to guard.
func RunGuard(stdin io.Reader) { process.RunGuard(stdin) }

// ExecShim is the whole of the exec shim: the process becomes the command once the
// process guard knows of it. It returns only on failure.
func ExecShim(command []string) error { return process.ExecShim(command) }

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
