package supervisor

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/launch"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/resolve"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/transport"
)

const (
	// turnTime is how long a starting server keeps others from starting.
	turnTime = 3 * time.Second
	// learnTimeout bounds a listing after the first. A server's announcements
	// lead to one after relistSoon, and then to one every relistEvery at most, and
	// every relistMax if they continue.
	learnTimeout = 30 * time.Second
	relistSoon   = 50 * time.Millisecond
	relistEvery  = 200 * time.Millisecond
	relistMax    = 10 * time.Second
	// never is longer than anything runs.
	never = 100 * 365 * 24 * time.Hour
)

var errLearnTimeout = fmt.Errorf("no answer within %s", learnTimeout)

var errIdle = errors.New("it was not used for its idleTimeout")

// A server keeps one entry of the configuration running. Its life is one goroutine,
// in run; others see the life in public and steer it through control.
type server struct {
	*common
	name    string
	log     *zap.Logger
	remove  context.CancelCauseFunc // ends the life
	control *control
	public  *published
	opener  *opener
	pool    *pool
	changes listChanges
}

// newServer returns a server; its life is to be run with the context life, which
// remove ends.
func newServer(life context.Context, remove context.CancelCauseFunc, c *common, entry config.Server) *server {
	log := c.log.With(zap.String("server", entry.Name))
	control := &control{
		edited: make(chan struct{}, 1), restart: make(chan struct{}, 1), woken: make(chan struct{}, 1),
		entry: entry, wants: entry, abort: func(error) {},
	}
	s := &server{
		common: c, name: entry.Name, log: log, remove: remove, control: control,
		public: newPublished(entry, control.woken, c.changed.Notify),
		opener: &opener{common: c, name: entry.Name, log: log, secrets: c.resolver.Server(nil, c.options.OnSecrets), stderr: process.NewLogFile(c.options.DataDir, entry.Name), running: signal.NewLife(),
			limits: peer.NewLimits(func() int { return control.wanted().QuestionsPerMinute })},
	}
	s.opener.began, s.opener.hear, s.opener.text = s.public.opened, s.hear, s.public.printsText
	s.public.loggedIn = func(ctx context.Context) bool { return s.opener.tokens.Load().hasNew(ctx) }
	s.pool = newPool(life, s.opener)
	s.changes.notice, s.changes.methods = make(chan struct{}, 1), make(map[string]bool)
	return s
}

// run is the server's life. When it returns, no process and no goroutine of it is
// left.
func (s *server) run(ctx context.Context) {
	defer s.opener.running.Wait()
	defer s.opener.running.Close(nil)
	defer s.public.set(func(st *status.Status) { st.State, st.PID = status.Stopped, 0 })
	failures := newHistory()
	unused := false // the server was stopped for lack of calls
	before := s.control.wanted()
	startNow := false // start even if lazy or unused: after a call, a restart or a failure
	for ctx.Err() == nil {
		signal.Discard(s.control.edited) // before reading the entry, so that no edit is missed
		entry := s.control.wanted()
		if !reflect.DeepEqual(entry, before) && (entry.Personal() || before.Personal() || !entry.Startable() || !launch.SameProcess(entry, before)) {
			s.pool.renew(errEdited)
		}
		before = entry
		if state, reason := restState(entry); state != "" {
			s.handler.Forget(s.name)
			s.public.set(func(st *status.Status) { st.State, st.LastError, st.Fault = state, reason, nil })
			s.control.await(ctx, nil, nil, nil)
			continue
		}
		if (entry.Lazy || unused && entry.IdleTimeout > 0) && !startNow && s.handler.Known(entry) {
			signal.Discard(s.control.woken) // of an older call; a call that waits asks again at the change
			s.public.set(func(st *status.Status) { st.State = status.Idle })
			by := s.control.await(ctx, nil, s.control.woken, nil)
			startNow = by == byCall || by == byRestart
			continue
		}
		signal.Discard(s.control.restart) // the start that begins is the one that was asked for
		signal.Discard(s.control.woken)   // and answers older calls
		in, err := s.start(ctx, entry)
		var last ended
		if err == nil {
			began := time.Now()
			if entry.Personal() {
				err = attendUsers(ctx, s, in)
			} else {
				s.publish(in)
				before, last.served, err = s.attend(ctx, in)
			}
			last.ready = max(1, time.Since(began))
		}
		unused = errors.Is(err, errIdle)
		startNow = s.pause(ctx, failures, err, last)
	}
}

// restState returns the state of an entry that is not to be started, and the reason;
// "" for other entries.
func restState(entry config.Server) (status.State, string) {
	switch {
	case entry.Startable():
		return "", ""
	case entry.ByHand:
		return status.Disabled, "it was stopped by hand; 'metarouter restart' starts it, or its button on the page"
	case entry.Disabled:
		return status.Disabled, ""
	case entry.Misconfigured != "":
		return status.Misconfigured, entry.Misconfigured
	}
	return status.Self, "the entry would start a router inside the router"
}

// publish makes in the session that all use.
func (s *server) publish(in *instance) {
	s.public.ready(in)
	s.log.Info("server is ready", zap.Int("pid", in.pid()), zap.String("protocol", in.Info().ProtocolVersion))
}

// retire takes the instance from use, and stops it with the pool's sessions. Calls under way may end if its entry was edited, disabled or removed.
func (s *server) retire(in *instance, cause error, state status.State) {
	in.Calls.Refuse() // first, so that no session begins next to it later
	s.pool.renew(cause)
	if errors.Is(cause, errRemoved) || errors.Is(cause, errEdited) {
		if state == status.Stopping {
			s.public.set(func(st *status.Status) {
				st.State, st.LastError = state, fmt.Sprintf("it was disabled or removed; its calls under way have %v to end", drainTimeout)
			})
		}
		in.drain(s.ending)
		if errors.Is(cause, errEdited) && s.control.wanted().Startable() { // enabled again meanwhile
			state = status.Restarting
		}
	}
	s.public.withdraw(in, state)
	in.stop(cause)
}

// pause waits before the next start, for as long as the reason err of the server's
// end asks. It reports whether the next start is due even if the server is lazy or unused;
// that is so after each failure, unless an edit ended the wait.
func (s *server) pause(ctx context.Context, failures *history, err error, last ended) (startNow bool) {
	switch {
	case ctx.Err() != nil || err == nil || errors.Is(err, errIdle):
		return false
	case errors.Is(err, errEdited):
		failures.reset()
		return false
	case errors.Is(err, errRestarted):
		return true
	case errors.Is(err, peer.ErrSelf):
		s.public.set(func(st *status.Status) { st.State, st.LastError, st.Fault = status.Self, err.Error(), nil })
		return s.control.await(ctx, nil, nil, nil) == byRestart
	}
	wait, again := failures.failed(time.Now(), last)
	failed := status.Failed
	if _, ok := errors.AsType[*transport.NeedsAuthError](err); ok {
		failed = status.NeedsAuth
	}
	fault, reason := faultOf(err), s.opener.secrets.Hide(reasonOf(err))
	fault.Message = s.opener.secrets.Hide(fault.Message)
	needed, needsLogin := errors.AsType[*login.NeededError](err)
	var by wakeup
	switch {
	case needsLogin:
		reason = s.opener.secrets.Hide(loginReason(s.control.wanted(), needed))
		signal.Discard(s.control.woken) // of an older call
		s.public.set(func(st *status.Status) { st.State, st.LastError, st.Fault = failed, reason, fault })
		s.log.Log(failures.level(zap.WarnLevel, fault, true), "server needs a login", zap.String("reason", reason))
		by = s.control.awaitLogin(ctx, s.opener.tokens.Load(), needed, again)
	case again && !isPermanent(err):
		s.public.set(func(st *status.Status) { st.State, st.LastError, st.Fault = status.Restarting, reason, fault })
		message := "server ended, starting it again"
		if last.ready == 0 {
			message = "server does not start, trying it again"
		}
		s.log.Log(failures.level(zap.WarnLevel, fault, false), message, zap.String("error", reason), zap.Duration("in", wait))
		by = s.control.await(ctx, time.After(wait), nil, nil)
	default:
		signal.Discard(s.control.woken) // of an older call
		s.public.set(func(st *status.Status) { st.State, st.LastError, st.Fault = failed, reason, fault })
		s.log.Log(failures.level(zap.ErrorLevel, fault, true), "server failed", zap.String("error", reason), zap.Duration("next try in", retryFailed))
		by = s.control.await(ctx, time.After(retryFailed), s.control.woken, nil)
	}
	if by == byRestart {
		failures.logged = logged{} // a person waits for the outcome
	}
	if by == byEdit || by == byLogin {
		failures.reset()
	} else if ctx.Err() == nil {
		s.public.set(func(st *status.Status) { st.Restarts++ })
	}
	return by != byEdit
}

// isPermanent reports whether trying again at once is of no use.
func isPermanent(err error) bool {
	_, refused := errors.AsType[*transport.NeedsAuthError](err)
	_, secret := errors.AsType[*resolve.Error](err)
	return launch.IsMissing(err) || errors.Is(err, transport.ErrURL) || refused || secret
}

// attend looks after a running server until it ends, and returns why; nil if
// it was to end. It reads changed lists, stops a server that is not used, and
// follows edits. followed is the entry of the last instance, and served is how many calls that has answered.
func (s *server) attend(ctx context.Context, in *instance) (followed config.Server, served int, err error) {
	defer func() { followed = in.entry() }()
	var relist <-chan time.Time
	var listed time.Time
	every := relistEvery
	idle := time.After(s.unusedIn(in))
	for {
		select {
		case <-ctx.Done():
			s.retire(in, context.Cause(ctx), status.Stopping)
			return followed, 0, nil
		case <-in.done:
			s.public.withdraw(in, status.Restarting)
			return followed, int(in.Calls.Served.Load()), in.Cause()
		case <-s.control.restart:
			s.retire(in, errRestarted, status.Restarting)
			return followed, 0, errRestarted
		case <-s.changes.notice:
			if time.Since(listed) > every {
				every = relistEvery // the announcements had stopped
			}
			if relist == nil {
				relist = time.After(max(relistSoon, time.Until(listed.Add(every))))
			}
		case <-relist:
			s.relist(ctx, in)
			relist, listed = nil, time.Now()
			every = min(2*every, relistMax)
		case <-idle:
			wait := s.unusedIn(in)
			if wait <= 0 && !s.pool.renewIfUnused(in) {
				wait = in.entry().IdleTimeout
			}
			if wait > 0 {
				idle = time.After(wait)
				continue
			}
			s.log.Info("no client uses it: stopping it until it is called")
			s.retire(in, errIdle, status.Idle)
			return followed, 0, errIdle
		case <-s.control.edited:
			next, err := s.replace(ctx, in)
			if next == nil {
				return followed, 0, err
			}
			in, idle = next, time.After(s.unusedIn(next))
		}
	}
}

// unusedIn returns in how long the server will have been unused for its idleTimeout:
// not above 0 if it is to be stopped now.
func (s *server) unusedIn(in *instance) time.Duration {
	limit := in.entry().IdleTimeout
	if limit == 0 {
		return never
	}
	if len(in.Subscriptions.Wanted()) > 0 || !s.handler.Known(in.entry()) {
		return limit
	}
	return limit - in.Calls.IdleFor()
}

// relist reads the server's lists again after they have changed, and passes the
// notifications on.
func (s *server) relist(ctx context.Context, shared *instance) {
	methods, source := s.changes.take()
	if source == nil || !source.Usable() {
		source = shared
	}
	s.learn(ctx, source)
	for _, method := range methods { // though the lists may be unchanged
		s.options.OnMessage(s.name, nil, session.Message{Method: method})
	}
}

// learn has the handler list the server's tools again. After a failure, the offer that was
// known stays.
func (s *server) learn(ctx context.Context, in *instance) {
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	bounded, cancel := context.WithTimeoutCause(ctx, learnTimeout, errLearnTimeout)
	defer cancel()
	s.control.onAbort(abort)
	err := s.handler.Learn(bounded, in.entry(), in)
	fault := ""
	if err != nil && ctx.Err() == nil && !signal.IsClosed(in.done) {
		reason := s.opener.secrets.Hide(err.Error())
		s.log.Warn("can't list the changed tools; the old list stays", zap.String("error", reason))
		fault = "list its changed tools: " + reason
	}
	s.public.listed(fault)
}

// hear acts on a message of the server that belongs to no request. It is called on
// the reading goroutine.
func (s *server) hear(in *instance, shared bool, m session.Message) {
	switch m.Method {
	case "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed":
		switch {
		case !shared && !in.greeted.Load(): // its lists differ because of that client's capabilities
		case !shared && in.user != nil:
			signal.Leave(s.control.woken)
		default:
			s.changes.note(m.Method, in)
		}
	default:
		var owner session.Client
		if c := *in.owner.Load(); c != nil {
			owner = c.Home()
		} else if in.user != nil {
			owner = session.Principal{ID: in.user.principal}
		}
		s.options.OnMessage(s.name, owner, m)
	}
}
