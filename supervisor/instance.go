package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
)

// An instance is one session with a server, and the process at its other end unless
// the server is remote or in this process. An opener makes it.
type instance struct {
	*peer.Peer
	process   *process.Process // nil if the server has no process of its own
	transport config.Transport
	hash      string          // of the entry
	declared  json.RawMessage // the client's capabilities, as sent to the server
	stderr    *process.Tail
	conceal   func(string) string            // replaces the secrets of the entry in a text
	current   atomic.Pointer[config.Server]  // the entry; an edit that does not concern the process replaces it
	greeted   atomic.Bool                    // the server has finished its actions after the handshake
	owner     atomic.Pointer[session.Client] // the only client that uses it; nil if several may, or none does
	user      *user                          // the only principal that uses it; nil if several may
	otherEra  atomic.Bool                    // a session in the other era may be opened next to it
	done      chan struct{}                  // closed when the session has ended and the process is gone
}

// entry returns the entry that the instance runs.
func (in *instance) entry() config.Server { return *in.current.Load() }

func (in *instance) setOwner(c session.Client) { in.owner.Store(&c) }

func (in *instance) pid() int {
	if in.process == nil {
		return 0
	}
	return in.process.PID
}

// stop ends the instance and waits until its session has ended and its process is
// gone. Calls under way fail with the cause.
func (in *instance) stop(cause error) {
	in.Close(cause)
	<-in.done
}

// drainTimeout is how long the calls of a session that is to end may go on.
const drainTimeout = 30 * time.Second

// drain lets no new calls begin, and waits for those under way to end, unless the
// whole supervisor is ending.
func (in *instance) drain(ending <-chan struct{}) {
	in.Calls.Refuse()
	select {
	case <-in.Calls.Idle():
	case <-in.done:
	case <-time.After(drainTimeout):
	case <-ending:
	}
}

const (
	// settleTime bounds how long a session is waited for after the handshake,
	// rootsTime how long a server that asks for roots is waited for to do so, and
	// digestTime is for the server to read them then.
	settleTime = time.Second
	rootsTime  = 500 * time.Millisecond
	digestTime = 100 * time.Millisecond
)

// settle waits until the server has finished its actions after the handshake:
// the answer to a ping comes after that. A server that asks for roots has then got
// them.
func (in *instance) settle(ctx context.Context, asksRoots bool) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	in.Call(ctx, session.Request{Method: "ping"})
	if !asksRoots || wire.Member(peer.Roots(in.entry().Roots).Shown(in.declared), "roots") == nil {
		return
	}
	asked, cancel := context.WithTimeout(ctx, rootsTime)
	defer cancel()
	if in.Questions.AwaitRoots(asked) {
		signal.Within(ctx.Done(), digestTime)
	}
}

// exitError returns the error that ends the session after its process has ended.
func (in *instance) exitError() *exitError {
	p := in.process
	e := &exitError{
		what: p.ExitReason() + in.stderr.Reason(), after: time.Since(p.Born), spoke: in.Spoke.Load(),
		lastLines: in.stderr.Last(process.StderrLines),
	}
	if e.code, e.signal = p.ExitStatus(); e.signal != "" {
		var why string
		why, e.lastLines = in.stderr.Recent()
		e.what = p.ExitReason() + why
	}
	return e
}

// fail stops an instance that does not serve because of err, and returns the reason.
func (in *instance) fail(err error) error {
	if in.process != nil && errors.Is(err, peer.ErrRefused) { // which says only that the session takes no more calls
		<-in.Done()
		err = in.Cause()
	}
	in.stop(err)
	return err
}

// explain adds the last stderr lines to the reason why the server does not serve.
func (in *instance) explain(err error) error {
	if _, ok := errors.AsType[*exitError](err); ok {
		return err // has them
	}
	return fmt.Errorf("%w%s", err, in.stderr.Reason())
}

// listChanges are the notifications that a list of a server has changed, since the lists were
// last read.
type listChanges struct {
	notice  chan struct{} // holds an item after a change
	mu      sync.Mutex    // guards the fields below
	methods map[string]bool
	source  *instance // the session that spoke last, since lists are the same for all clients; nil without a change
}

// note asks for the lists to be read again, from the session that says so.
func (c *listChanges) note(method string, in *instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.methods[method], c.source = true, in
	signal.Leave(c.notice)
}

// take returns the notifications since it was called last, sorted, and the session to read.
func (c *listChanges) take() (methods []string, source *instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	methods, source = slices.Sorted(maps.Keys(c.methods)), c.source
	clear(c.methods)
	c.source = nil
	return methods, source
}
