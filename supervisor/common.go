package supervisor

import (
	"runtime"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/launch"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/resolve"
)

// A common is shared by all servers of a Supervisor.
type common struct {
	handler  Handler
	options  Options
	log      *zap.Logger
	launcher *launch.Launcher
	resolver *resolve.Resolver
	sources  func(oauth.Server) source // of tokens; nil without logins
	turns    turns
	ending   chan struct{}          // closed when Run is to return
	level    atomic.Pointer[string] // of the log messages that servers are to send; may be nil
	changed  signal.Change          // of any status
}

// turns limit how many servers start at a time. To start a process is mostly to compute:
// with one for each core, the first are ready soon, and the last no later. One more computes
// while another waits for the router.
type turns struct {
	processes, remote *signal.Turns
}

// maxConnecting is how many remote servers start at a time.
const maxConnecting = 8

func newTurns() turns {
	starting := runtime.GOMAXPROCS(0) + 1
	return turns{signal.NewTurns(starting, starting), signal.NewTurns(maxConnecting, maxConnecting)}
}

// of returns the turns for servers such as the entry's.
func (t turns) of(entry config.Server) *signal.Turns {
	if entry.Transport == config.Stdio {
		return t.processes
	}
	return t.remote
}
