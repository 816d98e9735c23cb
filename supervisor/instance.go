package supervisor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

// An instance is one session with a server, and the process at its other end
// unless it is remote.
type instance struct {
	*peer
	process     *process // nil if remote
	lines       *lines   // the link to it
	transport   config.Transport
	entry       config.Server
	hash        string            // of the entry
	declared    json.RawMessage   // the client's capabilities, as told to the server
	life        context.Context   // of one that is lent: ends when the entry changes
	roots       json.RawMessage   // of the clients that it may be lent to; nil if it was told none
	followed    map[string]func() // what ends the subscriptions of one that is lent, by URI
	greeted     atomic.Bool       // what the server does because of the handshake is done
	mark        string
	stderr      tail
	listChanged chan struct{} // holds at most one signal
	changes     changes       // of lists, since they were last listed
	done        chan struct{} // closed when the session has ended and the process is gone
	err         error         // why; valid after done

	lodging sync.Mutex     // guards what follows
	owner   session.Client // the only client that uses it now; nil if several may, or none does
	taken   chan struct{}  // closed when it has an owner
}

// Changes are the notifications that a list has changed.
type changes struct {
	mu      sync.Mutex
	methods map[string]bool
}

// noteChange has the server's lists listed again.
func (in *instance) noteChange(method string) {
	in.changes.mu.Lock()
	defer in.changes.mu.Unlock()
	if in.changes.methods == nil {
		in.changes.methods = make(map[string]bool)
	}
	in.changes.methods[method] = true
	notify(in.listChanged)
}

// noted returns the changes noted since it was called last, sorted.
func (in *instance) noted() []string {
	in.changes.mu.Lock()
	defer in.changes.mu.Unlock()
	noted := slices.Sorted(maps.Keys(in.changes.methods))
	clear(in.changes.methods)
	return noted
}

// lodge makes c the only client that uses the instance.
func (in *instance) lodge(c session.Client) {
	in.lodging.Lock()
	defer in.lodging.Unlock()
	in.owner = c
	if c == nil {
		in.taken = make(chan struct{})
	} else if in.taken != nil {
		close(in.taken)
		in.taken = nil
	}
}

func (in *instance) lodger() session.Client {
	in.lodging.Lock()
	defer in.lodging.Unlock()
	return in.owner
}

// lodged returns a channel that is closed when the instance, which has no owner,
// has one.
func (in *instance) lodged() <-chan struct{} {
	in.lodging.Lock()
	defer in.lodging.Unlock()
	if in.taken == nil {
		taken := make(chan struct{})
		close(taken)
		return taken
	}
	return in.taken
}

func (in *instance) pid() int {
	if in.process == nil {
		return 0
	}
	return in.process.pid
}

// newInstance returns an instance of the entry without a link.
func (s *server) newInstance(entry config.Server) *instance {
	in := &instance{entry: entry, hash: entry.Hash(), listChanged: make(chan struct{}, 1), done: make(chan struct{})}
	in.stderr.conceal = concealer(entry)
	in.peer = newPeer(host{
		server: s.name,
		stray:  s.stray,
		asked: func(method string) {
			s.v.traits.edit(entry, func(t *traits) { t.Asks, t.AsksRoots = true, t.AsksRoots || method == "roots/list" })
		},
		owner: func(ctx context.Context) session.Client {
			if c := in.lodger(); c != nil {
				return c
			}
			return s.v.only(ctx)
		},
	})
	s.mu.Lock()
	s.latest = in
	s.mu.Unlock()
	return in
}

// concealer is the entry's, made when something is to be concealed.
func concealer(entry config.Server) func(string) string {
	made := sync.OnceValue(func() func(string) string { return secret.Concealer(entry) })
	return func(text string) string { return made()(text) }
}

// defaultStall is how long a server may leave its stdin unread if its entry sets
// no time-out: one that works on a long call may well not read meanwhile.
const defaultStall = 5 * time.Minute

// launch starts the entry's process and what reads from it and writes to it, or
// reaches for the remote server.
func (s *server) launch(ctx context.Context, entry config.Server, known traits) (*instance, error) {
	if entry.Transport != config.Stdio {
		return s.dial(ctx, entry, known)
	}
	c, err := s.command(ctx, entry)
	if err != nil {
		return nil, err
	}
	if planned, ok := s.planned(entry); ok {
		c = planned
	}
	p, mark, err := s.spawn(c)
	if err != nil {
		return nil, err
	}
	stall := cmp.Or(entry.Timeout, defaultStall)
	for _, timeout := range entry.ToolTimeouts {
		stall = max(stall, timeout)
	}
	in := s.newInstance(entry)
	in.process, in.mark, in.transport = p, mark, config.Stdio
	in.lines = newLines(p.stdin, stall, in.closed)
	in.link = in.lines
	s.own.Go(func() { s.live(in) })
	return in, nil
}

// stray notes what the server said that is no message. What looks like one may
// hold a result, so it is not shown.
func (s *server) stray(line []byte, why error) {
	shown, ok := showable(line)
	if !ok {
		shown = "{…}"
	}
	s.log.Debug("skipped what the server said, which is no message", zap.String("line", shown), zap.Int("bytes", len(line)), zap.Error(why))
}

// A notFoundError is a command that can't be started at all: trying again at
// once is of no use.
type notFoundError struct{ error }

func (e *notFoundError) Unwrap() error { return e.error }

// isHopeless reports whether trying again at once is of no use.
func isHopeless(err error) bool {
	_, missing := errors.AsType[*notFoundError](err)
	_, stranger := errors.AsType[*needsAuthError](err)
	return missing || stranger
}

// An exitError says how a process ended and what it printed last.
type exitError struct {
	what   string
	code   int
	signal string // "" if it exited
	after  time.Duration
	spoke  bool     // it had sent a message
	said   []string // on stderr, at the end
}

// epitaph is the error with which the sessions of a process end that has.
func (in *instance) epitaph() *exitError {
	p := in.process
	e := &exitError{what: p.epitaph() + in.lastWords(), after: time.Since(p.born), spoke: in.spoke.Load(), said: in.stderr.last(stderrLines)}
	if p.hasExited() {
		if e.code = p.state.ExitCode(); e.code < 0 {
			e.signal = p.state.String()
		}
	}
	return e
}

func (e *exitError) Error() string { return e.what }

// SelfCode and the member "metarouter": "self" in an error's data are how a
// router that was started by a router says so.
const SelfCode = -32000

func isSelf(err error) bool {
	e, ok := errors.AsType[*session.Error](err)
	return ok && e.Code == SelfCode && string(wire.Member(e.Data, "metarouter")) == `"self"`
}

// explain adds the process's last words to the reason why it does not serve.
func (in *instance) explain(err error) error {
	if _, ok := errors.AsType[*exitError](err); ok {
		return err // has them
	}
	return fmt.Errorf("%w%s", err, in.lastWords())
}

// lastWords returns the end of the process's stderr as part of a sentence, "" if
// it printed nothing.
func (in *instance) lastWords() string { return lastWords(&in.stderr) }

func lastWords(stderr *tail) string {
	lines := stderr.last(5)
	if len(lines) == 0 {
		return ""
	}
	words := strings.Join(lines, " | ")
	if len(words) > 1000 {
		words = "…" + strings.ToValidUTF8(words[len(words)-1000:], "")
	}
	return "; its last lines on stderr: " + words
}

// stop ends the instance and waits until nothing of it is left. Calls under way
// fail with the cause.
func (in *instance) stop(cause error) {
	in.close(cause)
	<-in.done
}

// live reads from the instance's process until it ends or is to end, and clears
// away what it leaves.
func (s *server) live(in *instance) {
	defer close(in.done)
	p := in.process
	eof, copied, written := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() { defer close(copied); in.stderr.copy(p.stderr, s.stderr) }()
	go func() { defer close(written); in.lines.write() }()
	go func() { defer close(eof); in.read(p.stdout) }()
	select {
	case <-p.exited: // what it printed last may still be under way
		within(eof, graceOutput)
	case <-eof:
		within(p.exited, graceOutput) // to learn how it ended, if it did
	case <-in.lines.broken:
		if !within(p.exited, graceOutput) {
			in.close(in.lines.torn)
		}
	case <-in.closed:
	}
	if p.hasExited() {
		within(copied, graceOutput)
	}
	in.close(in.epitaph())
	in.err = in.cause
	p.stop(in.spoke.Load())
	if !s.v.isEnding() { // the supervisor sweeps once for all at its end
		killMarked(in.mark)
	}
	p.stdout.Close()
	<-eof
	<-written
	in.owned.Wait()
	within(copied, graceOutput)
	p.stderr.Close()
	<-copied
}
