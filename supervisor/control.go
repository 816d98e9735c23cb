package supervisor

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// The causes that end a start or a session on request.
var (
	errEdited    = errors.New("its entry was edited")
	errRestarted = errors.New("restarted by hand")
)

// A control has the requests to a server's life: an entry, a restart, a start. The
// life reads it between its steps, and a step that takes long ends by abort.
type control struct {
	// Each holds a notice until the life reads it: the entry was edited, a restart or
	// a start is asked for.
	edited, restart, woken chan struct{}

	mu    sync.Mutex              // guards the fields below
	entry config.Server           // as configured
	wants config.Server           // the entry to run: entry, or the one before it if entry does not start
	abort context.CancelCauseFunc // ends the start or listing under way
}

// edit sets a new entry, unless it is the same. changed is called before the life sees
// the entry.
func (c *control) edit(entry config.Server, changed func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if reflect.DeepEqual(c.entry, entry) {
		return
	}
	c.entry, c.wants = entry, entry
	changed()
	signal.Leave(c.edited) // before abort, so that the life finds it when abort wakes it
	c.abort(errEdited)
}

// askRestart asks for a restart with the entry as configured, even if that did not
// start the last time. It does nothing for an entry that is not to be started, and returns its
// state and the reason.
func (c *control) askRestart() (status.State, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	state, reason := restState(c.entry)
	if state == "" {
		c.wants = c.entry
		signal.Leave(c.restart)
		c.abort(errRestarted)
	}
	return state, reason
}

// wanted returns the entry to run.
func (c *control) wanted() config.Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wants
}

// configured returns the entry as configured, and whether the one before it runs.
func (c *control) configured() (entry config.Server, reverted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entry, !reflect.DeepEqual(c.wants, c.entry)
}

// revert makes the entry before an edit the one to run, until the next edit or
// restart, and calls reverted. It does nothing if there was another edit meanwhile.
func (c *control) revert(edited, before config.Server, reverted func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if reflect.DeepEqual(c.wants, edited) {
		c.wants = before
		reverted()
	}
}

// onAbort sets the function that ends the start or listing that begins.
func (c *control) onAbort(abort context.CancelCauseFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abort = abort
}

// A wakeup is the reason why a wait ended.
type wakeup int

const (
	byEnd wakeup = iota // of the server
	byTime
	byEdit
	byRestart
	byCall
	byLogin
)

// await returns when the entry is edited, a restart is asked for, timer, woken or login
// fires, or ctx ends.
func (c *control) await(ctx context.Context, timer <-chan time.Time, woken, login <-chan struct{}) wakeup {
	select {
	case <-ctx.Done():
		return byEnd
	case <-c.edited:
		return byEdit
	case <-c.restart:
		return byRestart
	case <-woken:
		return byCall
	case <-login:
		return byLogin
	case <-timer:
		return byTime
	}
}
