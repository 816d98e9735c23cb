package supervisor

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
)

// What follows is what others see of a server and ask of it while run goes on.

// wanted returns the entry that is to run.
func (s *server) wanted() config.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wants
}

// edit gives the server a new entry. A start or listing under way ends.
func (s *server) edit(entry config.Server) {
	s.mu.Lock()
	if s.entry.Equal(entry) {
		s.mu.Unlock()
		return
	}
	s.entry, s.wants = entry, entry
	s.status.Transport, s.status.LastError, s.status.Fault = string(entry.Transport), "", nil
	abort := s.abort
	notify(s.edited) // before abort, so that whoever that wakes finds it
	s.mu.Unlock()
	abort(errEdited)
}

// revert makes the entry before an edit that does not start the one that runs,
// until the next edit or restart.
func (s *server) revert(edited, before config.Server, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wants.Equal(edited) {
		s.wants = before
		s.status.LastError = "the edited entry does not start (" + why.Error() + "); the entry before it runs"
		s.status.Fault = faultOf(why)
		s.log.Error("the edited entry does not start; the entry before it runs", zap.Error(why))
	}
}

// begin notes that a start is under way, which abort ends.
func (s *server) begin(abort context.CancelCauseFunc) {
	s.set(func(st *Status) {
		s.abort, s.tried = abort, time.Now()
		s.starts++
		if s.current == nil && st.State != Restarting {
			st.State = Starting
		}
	})
}

// publish makes in the instance that everyone uses.
func (s *server) publish(in *instance) {
	s.set(func(st *Status) {
		s.current, s.listFault = in, ""
		st.State, st.PID = Ready, in.info.PID
		st.Era, st.ProtocolVersion = in.info.Era(), in.info.ProtocolVersion
	})
	s.log.Info("server is ready", zap.Int("pid", in.info.PID), zap.String("protocol", in.info.ProtocolVersion))
}

// noteStart notes how long a start took that succeeded, and how much of that it was
// fetching a package.
func (s *server) noteStart(took, fetching time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Took, s.status.Fetching = took, fetching
}

// withdraw lets nobody use in any more.
func (s *server) withdraw(in *instance, state State) {
	s.set(func(st *Status) {
		if s.current == in {
			s.current = nil
			st.State, st.PID = state, 0
		}
	})
}

// set changes the status and tells whoever waits for a change.
func (s *server) set(change func(*Status)) {
	s.mu.Lock()
	before := s.status.State
	change(&s.status)
	if s.status.State != before {
		s.status.Since = time.Now()
	}
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	s.v.announce()
}

func (s *server) report() Status {
	s.mu.Lock()
	st, latest, current := s.status, s.latest, s.current
	st.Doing, st.Reverted = s.doing, !s.wants.Equal(s.entry)
	waiting := s.waiting()
	if found := s.v.traits.get(s.entry).Transport; st.Transport == string(config.AutoHTTP) && found != "" {
		st.Transport = string(found)
	}
	if s.listFault != "" {
		st.LastError = s.listFault
	} else if st.LastError == "" {
		st.LastError = waiting
	}
	s.mu.Unlock()
	if latest != nil {
		st.Stderr = latest.stderr.last(10)
	}
	if current == nil {
		current = latest
	}
	if current != nil {
		st.StrayLines, st.StrayLine = current.strays.Load(), current.stderr.conceal(Plain(current.firstStray()))
	}
	return st
}

// session is Supervisor.Session for this server.
func (s *server) session(ctx context.Context) (*instance, error) {
	woken, startsThen := false, 0
	for {
		s.mu.Lock()
		in, st, tried, starts, changed := s.current, s.status, s.tried, s.starts, s.changed
		s.mu.Unlock()
		if in != nil && in.usable() {
			return in, nil
		}
		unavailable := &UnavailableError{Server: s.name, State: st.State, Reason: st.LastError}
		switch st.State {
		case Idle:
			notify(s.woken)
		case Failed, NeedsAuth:
			switch {
			case !woken && time.Since(tried) < retryOnCall, woken && starts > startsThen:
				return nil, unavailable
			case !woken:
				woken, startsThen = true, starts
				notify(s.woken)
			}
		case Misconfigured, Disabled, Stopping, Stopped, Self:
			return nil, unavailable
		}
		select {
		case <-changed:
		case <-ctx.Done():
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.doing != "" {
				unavailable.Reason = s.waiting()
			}
			return nil, unavailable
		}
	}
}

// waiting says what the server's start waits for, and for how long already; s.mu is
// held.
func (s *server) waiting() string {
	if s.doing == "" {
		return ""
	}
	return fmt.Sprintf("%s, for %s", s.doing, time.Since(s.since).Round(time.Second))
}

// restartNow is Supervisor.Restart for this server.
func (s *server) restartNow(ctx context.Context) error {
	s.mu.Lock()
	before, abort := s.starts, s.abort
	state, reason := rests(s.entry)
	if state == "" {
		s.wants = s.entry // even if it did not start the last time
		notify(s.restart)
	}
	s.mu.Unlock()
	if state != "" {
		return &UnavailableError{Server: s.name, State: state, Reason: reason}
	}
	abort(errRestarted)
	for {
		s.mu.Lock()
		st, starts, changed := s.status, s.starts, s.changed
		s.mu.Unlock()
		failure := &UnavailableError{Server: s.name, State: st.State, Reason: st.LastError}
		switch st.State {
		case Ready:
			if starts > before {
				return nil
			}
		case Failed, NeedsAuth, Self:
			if starts > before {
				return failure
			}
		case Misconfigured, Disabled, Stopping, Stopped:
			return failure
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return failure
		}
	}
}

// wakeIfFailed has a failed server tried again.
func (s *server) wakeIfFailed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.State == Failed {
		notify(s.woken)
	}
}

// notify leaves a signal in c unless one is there.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// discard takes the signal out of c if one is there.
func discard(c chan struct{}) {
	select {
	case <-c:
	default:
	}
}
