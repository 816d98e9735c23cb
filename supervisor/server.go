package supervisor

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/session"
)

const (
	// drainTimeout is how long the calls of a session that is to end may go on.
	drainTimeout = 30 * time.Second
	// learnTimeout bounds a listing after the first. A server's announcements
	// lead to one after relistSoon, and then to one every relistEvery at most, and
	// every relistMax if it keeps on.
	learnTimeout = 30 * time.Second
	relistSoon   = 50 * time.Millisecond
	relistEvery  = 200 * time.Millisecond
	relistMax    = 10 * time.Second
)

// A server keeps one entry of the configuration running.
type server struct {
	name   string
	v      *Supervisor
	log    *zap.Logger
	stderr *logFile
	life   context.Context // of the server; remove ends it
	remove context.CancelCauseFunc
	own    sync.WaitGroup // the goroutines of its instances

	lending chan struct{} // holds an item for each session that is lent

	// Each holds at most one signal.
	edited, woken, restart chan struct{}

	// mu guards what follows.
	mu        sync.Mutex
	entry     config.Server // as configured
	wants     config.Server // what is to run: entry, or the one before it where entry does not start
	status    Status
	listFault string                  // why its changed tools could not be listed, "" if they could
	current   *instance               // the one in use, nil if there is none
	latest    *instance               // the one started last, nil if there was none
	abort     context.CancelCauseFunc // ends the start or listing under way
	tried     time.Time               // when the last start began
	starts    int                     // how many have begun
	changed   chan struct{}           // closed at each change

	gone          bool            // nothing may be started any more
	generation    context.Context // of what the entry asks for: ends when that changes
	endGeneration context.CancelCauseFunc
	tenants       map[session.Client]*tenant // by home
	lendable      []*instance                // that nobody uses, the one used last at the end
	source        *instance                  // from which lists are to be taken next; nil for current

	doing  string    // what its start waits for, "" if for nothing but the server
	since  time.Time // when that began
	direct *direct   // what is run instead of a command that fetches it, nil if that itself
}

func newServer(v *Supervisor, entry config.Server) *server {
	state, reason := rests(entry)
	return &server{
		name:    entry.Name,
		v:       v,
		log:     v.log.With(zap.String("server", entry.Name)),
		stderr:  newLogFile(v.options.DataDir, entry.Name),
		edited:  make(chan struct{}, 1),
		woken:   make(chan struct{}, 1),
		restart: make(chan struct{}, 1),
		entry:   entry,
		wants:   entry,
		status:  Status{Name: entry.Name, State: cmp.Or(state, Starting), LastError: reason, Since: time.Now(), Transport: string(entry.Transport)},
		abort:   func(error) {},
		changed: make(chan struct{}),
		lending: make(chan struct{}, maxLent),
		tenants: make(map[session.Client]*tenant),
	}
}

var (
	errEdited    = errors.New("its entry was edited")
	errRestarted = errors.New("restarted by hand")
	errSelf      = errors.New("it would start a router inside the router")
	errIdle      = errors.New("it was not used for its idleTimeout")
)

// run is the server's life. When it returns, nothing of it is left.
func (s *server) run(ctx context.Context) {
	defer s.stderr.close()
	defer s.own.Wait()
	defer func() {
		s.mu.Lock()
		s.gone = true
		s.mu.Unlock()
	}()
	defer s.set(func(st *Status) { st.State, st.PID = Stopped, 0 })
	failures := newHistory()
	rested := false // for lack of calls
	for called := false; ctx.Err() == nil; {
		discard(s.edited) // before reading the entry, so that no edit is missed
		entry := s.wanted()
		if state, reason := rests(entry); state != "" {
			s.v.handler.Forget(s.name)
			s.set(func(st *Status) { st.State, st.LastError, st.Fault = state, reason, nil })
			s.await(ctx, nil, nil)
			continue
		}
		if (entry.Lazy || rested && entry.IdleTimeout > 0) && !called && s.v.handler.Known(entry) {
			discard(s.woken) // an older call's wish; who waits asks again at the change
			s.set(func(st *Status) { st.State = Idle })
			by := s.await(ctx, nil, s.woken)
			called = by == byCall || by == byRestart
			continue
		}
		called, rested = false, false
		in, err := s.start(ctx, entry)
		var ready time.Duration
		if err == nil {
			began := time.Now()
			s.publish(in)
			err = s.attend(ctx, in)
			ready = max(1, time.Since(began))
			rested = errors.Is(err, errIdle)
		}
		called = s.pause(ctx, failures, err, ready)
	}
}

// Startable reports whether a server of this entry can be started at all.
func Startable(entry config.Server) bool {
	state, _ := rests(entry)
	return state == ""
}

// rests returns the state of an entry that is not to be started, "" for others.
func rests(entry config.Server) (State, string) {
	switch {
	case entry.ByHand:
		return Disabled, "it was stopped by hand; 'metarouter restart' starts it, or its button on the page"
	case entry.Disabled:
		return Disabled, ""
	case entry.Misconfigured != "":
		return Misconfigured, entry.Misconfigured
	case entry.Self:
		return Self, "the entry would start a router inside the router"
	}
	return "", ""
}

// pause waits for as long as the server's end, for the reason err, asks before
// the next start. It reports whether that shall come even if the server is lazy.
func (s *server) pause(ctx context.Context, failures *history, err error, ready time.Duration) (insist bool) {
	switch {
	case ctx.Err() != nil || err == nil || errors.Is(err, errIdle):
		return false
	case errors.Is(err, errEdited):
		failures.reset()
		return false
	case errors.Is(err, errRestarted):
		return true
	case errors.Is(err, errSelf):
		s.set(func(st *Status) { st.State, st.LastError, st.Fault = Self, err.Error(), nil })
		return s.await(ctx, nil, nil) == byRestart
	}
	wait, again := failures.failed(time.Now(), ready)
	failed := Failed
	if _, unknown := errors.AsType[*needsAuthError](err); unknown {
		failed = NeedsAuth
	}
	again = again && !isHopeless(err)
	fault := faultOf(err)
	by := byTime
	if again {
		s.set(func(st *Status) { st.State, st.LastError, st.Fault = Restarting, err.Error(), fault })
		s.log.Warn("server ended, starting it again", zap.Error(err), zap.Duration("in", wait))
		by = s.await(ctx, time.After(wait), nil)
	} else {
		discard(s.woken) // an older call's wish
		s.set(func(st *Status) { st.State, st.LastError, st.Fault = failed, err.Error(), fault })
		s.log.Error("server failed", zap.Error(err), zap.Duration("next try in", retryFailed))
		by = s.await(ctx, time.After(retryFailed), s.woken)
	}
	if by == byEdit {
		failures.reset()
	} else if ctx.Err() == nil {
		s.set(func(st *Status) { st.Restarts++ })
	}
	return by != byEdit
}

// A cause is what ended a wait.
type cause int

const (
	byEnd cause = iota
	byTime
	byEdit
	byRestart
	byCall
)

// await returns when the entry is edited, a restart is asked for, timer or woken
// fires, or ctx ends.
func (s *server) await(ctx context.Context, timer <-chan time.Time, woken <-chan struct{}) cause {
	select {
	case <-ctx.Done():
		return byEnd
	case <-s.edited:
		return byEdit
	case <-s.restart:
		return byRestart
	case <-woken:
		return byCall
	case <-timer:
		return byTime
	}
}

// attend looks after a running server until it ends, and returns why; nil if
// that was wanted.
func (s *server) attend(ctx context.Context, in *instance) error {
	var relist <-chan time.Time
	var listed time.Time
	every := relistEvery
	idle := time.After(s.unusedIn(in))
	for {
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errRemoved) {
				s.drain(in)
			}
			s.retire(in, context.Cause(ctx), Stopping)
			return nil
		case <-in.done:
			s.withdraw(in, Restarting)
			return in.err
		case <-s.restart:
			s.evict(errRestarted)
			s.retire(in, errRestarted, Restarting)
			return errRestarted
		case <-in.listChanged:
			if time.Since(listed) > every {
				every = relistEvery // it does not keep on
			}
			if relist == nil {
				relist = time.After(max(relistSoon, time.Until(listed.Add(every))))
			}
		case <-relist:
			source := s.takeSource(in)
			changes := source.noted()
			s.learn(ctx, source)
			for _, method := range changes { // though the lists may be what they were
				s.v.options.Hear(s.name, nil, session.Message{Method: method})
			}
			relist, listed, every = nil, time.Now(), min(2*every, relistMax)
		case <-idle:
			wait := s.unusedIn(in)
			if wait <= 0 && !s.rest(in) {
				wait = in.entry.IdleTimeout
			}
			if wait > 0 {
				idle = time.After(wait)
				continue
			}
			s.log.Info("nobody uses it: stopping it until it is called")
			s.retire(in, errIdle, Idle)
			return errIdle
		case <-s.edited:
			next, err := s.replace(ctx, in)
			if next == nil {
				return err
			}
			in, idle = next, time.After(s.unusedIn(next))
		}
	}
}

// unusedIn returns in how long the server will be unused for as long as it may be:
// not above 0 if it is to be stopped now.
func (s *server) unusedIn(in *instance) time.Duration {
	limit := in.entry.IdleTimeout
	if limit == 0 {
		return never
	}
	s.mu.Lock()
	alone := len(s.tenants) == 0 && len(s.lending) == 0
	s.mu.Unlock()
	if !alone || len(in.subscriptions.wanted()) > 0 || !s.v.handler.Known(in.entry) {
		return limit
	}
	return limit - in.unused()
}

// rest has nobody begin anything on the server's sessions, if nobody uses them, and
// reports whether that is so: a call either keeps the server or waits for the next.
func (s *server) rest(in *instance) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tenants) > 0 || len(s.lending) > 0 || !in.refuseUnlessBusy() {
		return false
	}
	s.nextGeneration(errIdle)
	return true
}

// never is longer than anything runs.
const never = 100 * 365 * 24 * time.Hour

// learn has the handler list the server's tools again. A failure leaves what was
// known.
func (s *server) learn(ctx context.Context, in *instance) {
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	ctx, cancel := context.WithTimeout(ctx, learnTimeout)
	defer cancel()
	s.mu.Lock()
	s.abort = abort
	s.mu.Unlock()
	err := s.v.handler.Learn(ctx, in.entry, in)
	fault := ""
	if err != nil && ctx.Err() == nil && !isClosed(in.done) {
		s.log.Warn("can't list the changed tools; the old list stays", zap.Error(err))
		fault = "list its changed tools: " + err.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listFault = fault
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
	if !Startable(entry) {
		s.v.handler.Forget(s.name)
		s.evict(errEdited)
		s.drain(old)
		s.retire(old, errEdited, Stopping)
		return nil, nil
	}
	if sameProcess(old.entry, entry) {
		old.entry = entry
		s.learn(ctx, old)
		return old, nil
	}
	s.log.Info("entry edited, starting it anew")
	s.evict(errEdited)
	next, err := s.start(ctx, entry)
	if err == nil {
		s.publish(next)
		s.own.Go(func() {
			s.drain(old)
			old.stop(errEdited)
		})
		return next, nil
	}
	switch {
	case ctx.Err() != nil || errors.Is(err, errEdited):
		return old, nil
	case errors.Is(err, errRestarted):
		notify(s.restart) // for attend, which ends the old one
		return old, nil
	case isHopeless(err) && entry.SameSecrets(old.entry):
		s.revert(entry, old.entry, err)
		return old, nil
	}
	return s.startAlone(ctx, entry, old)
}

// startAlone ends the old instance and starts the entry in its place, or else
// the old entry.
func (s *server) startAlone(ctx context.Context, entry config.Server, old *instance) (*instance, error) {
	s.drain(old)
	s.retire(old, errEdited, Restarting)
	next, alone := s.start(ctx, entry)
	if alone == nil {
		s.publish(next)
		return next, nil
	}
	if ctx.Err() != nil || errors.Is(alone, errEdited) || errors.Is(alone, errRestarted) || !entry.SameSecrets(old.entry) {
		return nil, alone
	}
	back, err := s.start(ctx, old.entry)
	if err != nil {
		return nil, alone
	}
	s.publish(back)
	s.revert(entry, old.entry, alone)
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

// retire lets nobody use the instance any more, and stops it.
func (s *server) retire(in *instance, cause error, state State) {
	s.withdraw(in, state)
	in.stop(cause)
}

// start brings up an instance for the entry: a process, the handshake, and what
// it offers learned. An edit or a restart ends it with errEdited or errRestarted.
func (s *server) start(ctx context.Context, entry config.Server) (_ *instance, err error) {
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	defer func() {
		if why := context.Cause(ctx); err != nil && (errors.Is(why, errEdited) || errors.Is(why, errRestarted)) {
			err = why
		}
	}()
	s.begin(abort)
	if len(s.edited) > 0 { // since the entry was read
		return nil, errEdited
	}
	defer s.does("")
	fetched, err := s.turn(ctx, entry) // none of this time is the server's own
	if err != nil {
		return nil, err
	}
	defer fetched()
	release, err := s.v.slot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	bounded, cancel := context.WithTimeoutCause(ctx, entry.StartTimeout, &lateError{entry.StartTimeout})
	defer cancel()
	began, fetching := time.Now(), time.Duration(0)
	if done, err := s.prepare(bounded, entry); err != nil {
		return nil, err
	} else if done {
		fetched()
		fetching = time.Since(began)
	}
	in, err := s.connect(bounded, entry, terms{capabilities: offered, shared: true})
	if err != nil {
		return nil, err
	}
	in.listenOn(s.log)
	if err := s.v.handler.Learn(bounded, entry, in); err != nil {
		in.stop(err)
		return nil, in.explain(&listError{err})
	}
	s.noteStart(time.Since(began), fetching)
	s.noteFetched(entry)
	return in, nil
}
