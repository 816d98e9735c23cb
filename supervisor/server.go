package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

const (
	// drainTimeout is how long the calls of a session that is to end may go on.
	drainTimeout = 30 * time.Second
	// learnTimeout bounds a listing after the first, and relistEvery how often a
	// server's announcements lead to one.
	learnTimeout = 30 * time.Second
	relistEvery  = 250 * time.Millisecond
)

// A server keeps one entry of the configuration running.
type server struct {
	name   string
	v      *Supervisor
	log    *zap.Logger
	tail   *tail
	remove context.CancelCauseFunc
	own    sync.WaitGroup // the goroutines of its instances

	// Each holds at most one signal.
	edited, woken, restart chan struct{}

	// mu guards what follows.
	mu      sync.Mutex
	entry   config.Server // as configured
	running config.Server // what is to run: entry, or the one before it where entry does not start
	status  Status
	current *instance               // the one in use, nil if there is none
	abort   context.CancelCauseFunc // ends the start under way
	tried   time.Time               // when the last start began
	starts  int                     // how many have begun
	changed chan struct{}           // closed at each change
}

func newServer(v *Supervisor, entry config.Server) *server {
	return &server{
		name:    entry.Name,
		v:       v,
		log:     v.log.With(zap.String("server", entry.Name)),
		tail:    newTail(v.options.DataDir, entry.Name),
		edited:  make(chan struct{}, 1),
		woken:   make(chan struct{}, 1),
		restart: make(chan struct{}, 1),
		entry:   entry,
		running: entry,
		status:  Status{Name: entry.Name, State: Starting, Transport: string(entry.Transport)},
		abort:   func(error) {},
		changed: make(chan struct{}),
	}
}

var (
	errEdited    = errors.New("its entry was edited")
	errRestarted = errors.New("restarted by hand")
	errSelf      = errors.New("it would start a router inside the router")
)

// run is the server's life. When it returns, nothing of it is left.
func (s *server) run(ctx context.Context) {
	defer s.own.Wait()
	defer s.set(func(st *Status) { st.State, st.PID = Stopped, 0 })
	failures := newHistory()
	for ctx.Err() == nil {
		entry := s.wanted()
		if state, reason := rests(entry); state != "" {
			s.v.handler.Forget(s.name)
			s.set(func(st *Status) { st.State, st.LastError = state, reason })
			s.await(ctx, nil, nil)
			continue
		}
		if entry.Lazy && s.v.handler.Known(entry) {
			s.set(func(st *Status) { st.State = Idle })
			s.await(ctx, nil, s.woken)
			if ctx.Err() != nil || !s.wanted().Equal(entry) {
				continue
			}
		}
		in, err := s.start(ctx, entry)
		var ready time.Duration
		if err == nil {
			began := time.Now()
			s.publish(in)
			err = s.attend(ctx, in)
			ready = max(1, time.Since(began))
		}
		s.recover(ctx, failures, err, ready)
	}
}

// rests returns the state of an entry that is not to be started, "" for others.
func rests(entry config.Server) (State, string) {
	switch {
	case entry.Disabled:
		return Disabled, ""
	case entry.Misconfigured != "":
		return Misconfigured, entry.Misconfigured
	case entry.Self:
		return Self, "the entry would start a router inside the router"
	case entry.Transport != config.Stdio:
		return Misconfigured, "remote servers are not supported yet: only entries with a command can be started"
	}
	return "", ""
}

// recover waits for as long as the end of the server, for the reason err, asks
// before the next start. A nil err asks for nothing.
func (s *server) recover(ctx context.Context, failures *history, err error, ready time.Duration) {
	var notFound *notFoundError
	switch {
	case ctx.Err() != nil || err == nil || errors.Is(err, errEdited):
		return
	case errors.Is(err, errRestarted):
		failures.reset()
		return
	case errors.Is(err, errSelf):
		s.set(func(st *Status) { st.State, st.LastError = Self, err.Error() })
		s.await(ctx, nil, nil)
		return
	}
	wait, again := failures.failed(time.Now(), ready)
	if errors.As(err, &notFound) {
		again = false
	}
	if again {
		s.set(func(st *Status) { st.State, st.LastError = Restarting, err.Error(); st.Restarts++ })
		s.log.Warn("server ended, starting it again", zap.Error(err), zap.Duration("in", wait))
		s.await(ctx, time.After(wait), nil)
		return
	}
	discard(s.woken) // an older call's wish
	s.set(func(st *Status) { st.State, st.LastError = Failed, err.Error() })
	s.log.Error("server failed", zap.Error(err), zap.Duration("next try in", retryFailed))
	s.await(ctx, time.After(retryFailed), s.woken)
	failures.reset()
	s.set(func(st *Status) { st.Restarts++ })
}

// await returns when the entry is edited, a restart is asked for, timer or woken
// fires, or ctx ends.
func (s *server) await(ctx context.Context, timer <-chan time.Time, woken <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-s.edited:
	case <-s.restart:
	case <-timer:
	case <-woken:
	}
}

// attend looks after a running server until it ends, and returns why; nil if
// that was wanted.
func (s *server) attend(ctx context.Context, in *instance) error {
	var relist <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errRemoved) {
				s.drain(in)
			}
			s.withdraw(in)
			in.stop(context.Cause(ctx))
			return nil
		case <-in.done:
			s.withdraw(in)
			return in.err
		case <-s.restart:
			s.withdraw(in)
			in.stop(errRestarted)
			return errRestarted
		case <-in.listChanged:
			if relist == nil {
				relist = time.After(relistEvery)
			}
		case <-relist:
			relist = nil
			s.learn(ctx, in)
		case <-s.edited:
			next, err := s.replace(ctx, in)
			if next == nil {
				return err
			}
			in = next
		}
	}
}

// learn has the handler list the server's tools again. A failure leaves what was
// known.
func (s *server) learn(ctx context.Context, in *instance) {
	ctx, cancel := context.WithTimeout(ctx, learnTimeout)
	defer cancel()
	err := s.v.handler.Learn(ctx, in.entry, in)
	if err != nil && !in.ended() {
		s.log.Warn("can't list the changed tools; the old list stays", zap.Error(err))
		s.set(func(st *Status) { st.LastError = "list its changed tools: " + err.Error() })
	}
}

// replace makes the running server what its edited entry asks for. It returns
// the instance that runs from now on, or none and why.
//
// The new one is started beside the old one, so that its tools never vanish. If
// that fails it may want for itself what the old one holds, such as a port, so
// it is started again alone. If that fails too the old entry runs again, unless
// the edit changed secrets: who withdraws a key does not want it used further.
func (s *server) replace(ctx context.Context, old *instance) (*instance, error) {
	entry := s.wanted()
	if entry.Equal(old.entry) {
		return old, nil
	}
	if state, _ := rests(entry); state != "" {
		s.drain(old)
		s.withdraw(old)
		old.stop(errEdited)
		return nil, nil
	}
	if sameProcess(old.entry, entry) {
		old.entry = entry
		s.learn(ctx, old)
		return old, nil
	}
	s.log.Info("entry edited, starting it anew")
	next, beside := s.start(ctx, entry)
	if beside == nil {
		s.publish(next)
		s.own.Go(func() {
			s.drain(old)
			old.stop(errEdited)
		})
		return next, nil
	}
	if ctx.Err() != nil || errors.Is(beside, errEdited) {
		return old, nil
	}
	s.drain(old)
	s.withdraw(old)
	old.stop(errEdited)
	next, alone := s.start(ctx, entry)
	if alone == nil {
		s.publish(next)
		return next, nil
	}
	if ctx.Err() != nil || errors.Is(alone, errEdited) || !entry.SameSecrets(old.entry) {
		return nil, alone
	}
	back, err := s.start(ctx, old.entry)
	if err != nil {
		return nil, alone
	}
	s.publish(back)
	s.revert(entry, old.entry, fmt.Sprintf("the edited entry does not start (%v); the entry before it runs", alone))
	s.log.Error("the edited entry does not start; the entry before it runs", zap.Error(alone))
	return back, nil
}

// sameProcess reports whether two entries ask for the same process.
func sameProcess(a, b config.Server) bool {
	return a.Hash() == b.Hash() && slices.Equal(a.InheritEnv, b.InheritEnv) && a.SameSecrets(b)
}

// drain lets the calls under way end, and no new ones begin.
func (s *server) drain(in *instance) {
	in.refuse()
	t := time.NewTimer(drainTimeout)
	defer t.Stop()
	select {
	case <-in.quiet():
	case <-in.done:
	case <-t.C:
	case <-s.v.ending:
	}
}

// start brings up an instance for the entry: a process, the handshake, and what
// it offers learned.
func (s *server) start(ctx context.Context, entry config.Server) (_ *instance, err error) {
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	s.begin(abort)
	release, err := s.v.slot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithTimeoutCause(ctx, entry.StartTimeout, fmt.Errorf("not ready within %s (startTimeout)", entry.StartTimeout))
	defer cancel()
	in, err := s.connect(ctx, entry)
	if err != nil {
		if errors.Is(context.Cause(ctx), errEdited) {
			return nil, errEdited
		}
		return nil, err
	}
	in.Listen(func(m session.Message) {
		if m.Method == "notifications/tools/list_changed" {
			notify(in.listChanged)
		}
	})
	if err := s.v.handler.Learn(ctx, entry, in); err != nil {
		in.stop(err)
		if errors.Is(context.Cause(ctx), errEdited) {
			return nil, errEdited
		}
		return nil, s.explain(fmt.Errorf("list its tools: %w", err))
	}
	in.subscribe(ctx)
	return in, nil
}

// connect opens a session in the era that the server speaks.
func (s *server) connect(ctx context.Context, entry config.Server) (*instance, error) {
	known := s.v.eras.get(entry)
	in, err := s.open(ctx, entry, known)
	var refusal *session.Error
	switch {
	case errors.Is(err, errProbeExit):
		in, err = s.open(ctx, entry, legacyEra)
	case known == legacyEra && errors.As(err, &refusal):
		in, err = s.open(ctx, entry, unknownEra)
	}
	if err != nil {
		return nil, s.explain(err)
	}
	s.v.eras.put(entry, era(in.info.Era()))
	return in, nil
}

// open starts a process and shakes hands with it.
func (s *server) open(ctx context.Context, entry config.Server, known era) (*instance, error) {
	in, err := s.launch(ctx, entry)
	if err != nil {
		return nil, err
	}
	if err := in.handshake(ctx, known, s.v.options.Version); err != nil {
		in.stop(err)
		if isSelf(err) {
			return nil, errSelf
		}
		return nil, err
	}
	in.info.PID = in.process.pid
	return in, nil
}

// SelfCode and the member "metarouter": "self" in an error's data are how a
// router that was started by a router says so.
const SelfCode = -32000

func isSelf(err error) bool {
	var e *session.Error
	return errors.As(err, &e) && e.Code == SelfCode && string(wire.Member(e.Data, "metarouter")) == `"self"`
}

// explain adds the server's last words to the reason why it does not start.
func (s *server) explain(err error) error {
	var notFound *notFoundError
	var exit *exitError
	if errors.As(err, &notFound) || errors.As(err, &exit) || errors.Is(err, errSelf) {
		return err
	}
	return fmt.Errorf("%w%s", err, s.lastWords())
}

// lastWords returns the end of the server's stderr as part of a sentence, "" if
// it printed nothing.
func (s *server) lastWords() string {
	lines := s.tail.last(5)
	if len(lines) == 0 {
		return ""
	}
	words := strings.Join(lines, " | ")
	if len(words) > 1000 {
		words = "…" + strings.ToValidUTF8(words[len(words)-1000:], "")
	}
	return "; its last lines on stderr: " + words
}
