package supervisor

import (
	"context"
	"errors"
	"reflect"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/launch"
)

// start opens the shared session of the entry: a process, the handshake, and what
// the server offers listed. An edit or a restart ends it with errEdited or
// errRestarted.
func (s *server) start(ctx context.Context, entry config.Server) (_ *instance, err error) {
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	defer func() {
		if err == nil {
			return
		}
		s.opener.secrets.Forget(entry) // a value may be the reason
		if why := context.Cause(ctx); errors.Is(why, errEdited) || errors.Is(why, errRestarted) {
			err = why
		}
	}()
	s.control.onAbort(abort)
	wanted := s.public.begin()
	if len(s.control.edited) > 0 { // since the entry was read
		return nil, errEdited
	}
	job := launch.Job{Entry: entry, Hide: s.opener.secrets.Hide, Doing: s.public.do, Wanted: wanted, LogFile: s.opener.stderr, Log: s.log}
	defer s.public.do("")
	fetched, err := s.launcher.AwaitTurn(ctx, job) // this time does not count as the server's own
	if err != nil {
		return nil, err
	}
	defer fetched()
	started, err := s.turns.of(entry).Take(ctx, signal.Turn{
		Limit: turnTime, Wanted: wanted,
		Waits: func() { s.public.do("waiting until other servers have started") },
	})
	if err != nil {
		return nil, err
	}
	defer started()
	s.public.do("")
	return s.launchAndList(ctx, job, fetched)
}

// launchAndList opens the session of the job's entry once the server has its turn, and has what
// it offers listed. fetched ends the turn to fetch.
func (s *server) launchAndList(ctx context.Context, job launch.Job, fetched func()) (*instance, error) {
	entry := job.Entry
	ctx, cancel := context.WithTimeoutCause(ctx, entry.StartTimeout, &timeoutError{entry.StartTimeout})
	defer cancel()
	began, fetching := time.Now(), time.Duration(0)
	s.opener.direct.Store(nil)
	s.public.set(func(st *status.Status) { st.Package, st.Cached = "", false })
	if entry.Transport == config.Stdio {
		var err error
		if job.Resolved, err = s.opener.secrets.Resolve(ctx, entry); err != nil {
			return nil, err
		}
	}
	direct, err := s.launcher.Fetch(ctx, job)
	if err != nil {
		return nil, err
	}
	if direct != nil {
		fetched() // the next server's turn
		fetching = time.Since(began)
		s.opener.direct.Store(direct)
		s.public.set(func(st *status.Status) { st.Package, st.Cached = direct.Package, direct.Cached })
	}
	on := terms{capabilities: allCapabilities, era: eraForAll(s.options.Legacy, s.pool.of(nil)), shared: true}
	if entry.Personal() {
		on.user = &user{secrets: s.opener.secrets}
	}
	in, err := s.opener.open(ctx, entry, on)
	if err != nil {
		return nil, err
	}
	if err := s.handler.Learn(ctx, entry, in); err != nil {
		return nil, in.explain(&listError{in.fail(err)})
	}
	s.public.set(func(st *status.Status) { st.Took, st.Fetching = time.Since(began), fetching })
	s.launcher.NoteFetched(entry)
	return in, nil
}

// replace makes the running server run its edited entry. It returns
// the instance that runs from now on, or nil and the reason.
//
// The new instance is started while the old one runs, so that the server's tools
// never vanish. If that fails, it may need something that the old one holds, such as a port, so
// it is started again alone. If that fails too, the old entry runs again, unless
// the edit changed secrets: a key that was withdrawn must not be used further.
func (s *server) replace(ctx context.Context, old *instance) (*instance, error) {
	entry, before := s.control.wanted(), old.entry()
	if reflect.DeepEqual(entry, before) {
		return old, nil
	}
	if !entry.Startable() {
		s.handler.Forget(s.name)
		s.retire(old, errEdited, status.Stopping)
		return nil, nil // ended on purpose: pause does not wait, and run waits for the next edit
	}
	if entry.Personal() {
		s.retire(old, errEdited, status.Restarting)
		return nil, errEdited // since each user is to have a session of their own
	}
	if launch.SameProcess(before, entry) {
		old.current.Store(&entry)
		s.learn(ctx, old)
		return old, nil
	}
	s.log.Info("entry edited, starting it again")
	s.pool.renew(errEdited)
	next, err := s.start(ctx, entry)
	switch {
	case err == nil:
		s.publish(next)
		old.Calls.Refuse()      // at once, so that no list is read from it any more, and no session begins next to it
		s.pool.renew(errEdited) // since clients' own sessions that were opened while it started have the entry before
		s.opener.running.Work.Go(func() {
			old.drain(s.ending)
			old.stop(errEdited)
		})
		return next, nil
	case ctx.Err() != nil || errors.Is(err, errEdited) || errors.Is(err, errRestarted):
		return old, nil // attend reads the notice of the edit or restart
	case errors.As(err, new(*login.NeededError)): // which helps the edited entry only
		s.retire(old, errEdited, status.Restarting)
		return nil, err
	case isPermanent(err) && entry.SameSecrets(before):
		s.revert(entry, before, err)
		return old, nil
	}

	s.retire(old, errEdited, status.Restarting)
	next, alone := s.start(ctx, entry)
	if alone == nil {
		s.publish(next)
		return next, nil
	}
	if ctx.Err() != nil || errors.Is(alone, errEdited) || errors.Is(alone, errRestarted) || !entry.SameSecrets(before) {
		return nil, alone
	}
	back, err := s.start(ctx, before)
	if err != nil {
		return nil, alone
	}
	s.publish(back)
	s.revert(entry, before, alone)
	return back, nil
}

// revert makes the entry before an edit the one that runs, until the next edit or
// restart.
func (s *server) revert(edited, before config.Server, why error) {
	s.control.revert(edited, before, func() {
		s.public.set(func(st *status.Status) {
			st.LastError = "the edited entry does not start (" + s.opener.secrets.Hide(why.Error()) + "); the entry before it runs"
			st.Fault = faultOf(why)
		})
		s.log.Error("the edited entry does not start; the entry before it runs", zap.String("error", s.opener.secrets.Hide(why.Error())))
	})
}

// status is the server's part of Supervisor.Status.
func (s *server) status() status.Status {
	entry, reverted := s.control.configured()
	st := s.public.status()
	st.Reverted = reverted
	st.Refused, st.RefusedBy = s.opener.limits.Refused()
	st.Sessions, st.Unshared = s.pool.sessions(), entry.Personal()
	if entry.Transport == config.AutoHTTP {
		if found := s.launcher.Cache.Get(entry).Transport; found != "" {
			st.Transport = string(found)
		}
	}
	return st
}
