package supervisor

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/session"
)

// What follows opens sessions beside the one that all clients share: for each
// client of a server that asks its client for things, since on a session that
// several use nobody could know which of them is asked; and for all legacy
// clients of a server that speaks both eras.

// maxTenants bounds the sessions of one server that are one client's each.
const maxTenants = 100

// A tenant is who has a session beside the shared one.
type tenant struct {
	in    *instance
	err   error
	ready chan struct{} // closed when in or err is set
	end   context.CancelCauseFunc
}

var errReleased = errors.New("its client has left")

// suit returns the session that suits the client: in, which all share, or one in
// the era of the client, or one that is the client's alone.
func (s *server) suit(ctx context.Context, in *instance, from session.Client) (session.Session, error) {
	if from == nil {
		return in, nil
	}
	if in.bothEras && in.process != nil && !from.Modern() {
		// What such a server does for modern clients it may do otherwise for
		// legacy ones, or not at all. Over HTTP it is the other way round: those
		// that speak both eras keep no sessions, and can ask legacy clients nothing.
		var err error
		if in, err = s.tenant(ctx, in, nil, terms{capabilities: offered, era: legacyEra}); err != nil {
			return nil, err
		}
	}
	if s.v.options.Sole || in.meta != nil || !s.v.traits.of(in.hash).Asks || !session.AnswersAny(from.Capabilities()) {
		return in, nil
	}
	home := from.Home()
	if home == nil {
		return &lent{instance: in, s: s}, nil
	}
	return s.tenant(ctx, in, home, terms{capabilities: home.Capabilities(), owner: home, era: legacyEra})
}

// tenant returns the session that is the client's alone, opening it if there is
// none. Without a client it is one that all legacy clients share.
func (s *server) tenant(ctx context.Context, shared *instance, home session.Client, on terms) (*instance, error) {
	s.mu.Lock()
	t := s.tenants[home]
	if t != nil && isClosed(t.ready) && (t.err != nil || !t.in.usable()) {
		t = nil
	}
	if t == nil {
		if len(s.tenants) >= maxTenants || s.gone {
			s.mu.Unlock()
			return nil, &UnavailableError{Server: s.name, State: Stopping, Reason: fmt.Sprintf("%d clients have a session of their own with it, or it is ending", maxTenants)}
		}
		life, end := context.WithCancelCause(s.generation)
		t = &tenant{ready: make(chan struct{}), end: end}
		s.tenants[home] = t
		s.own.Go(func() { s.house(life, t, shared, home, on) })
	}
	s.mu.Unlock()
	select {
	case <-t.ready:
	case <-ctx.Done():
		return nil, &UnavailableError{Server: s.name, State: Starting, Reason: "the client's own session with it is being opened"}
	}
	if t.err != nil {
		return nil, &UnavailableError{Server: s.name, State: Failed, Reason: t.err.Error()}
	}
	return t.in, nil
}

// house opens the session of a tenant and keeps it until life or the session
// ends.
func (s *server) house(life context.Context, t *tenant, shared *instance, home session.Client, on terms) {
	defer t.end(nil)
	t.in, t.err = s.separately(life, shared, on)
	close(t.ready)
	if t.err == nil {
		select {
		case <-life.Done():
			if context.Cause(life) != errReleased {
				s.drain(t.in)
			}
			t.in.stop(context.Cause(life))
		case <-t.in.done:
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tenants[home] == t {
		delete(s.tenants, home)
	}
}

// separately opens a session beside the shared one.
func (s *server) separately(life context.Context, shared *instance, on terms) (*instance, error) {
	entry := shared.entry
	ctx, cancel := context.WithTimeoutCause(life, entry.StartTimeout, &lateError{entry.StartTimeout})
	defer cancel()
	in, err := s.connect(ctx, entry, on)
	if err != nil {
		return nil, err
	}
	s.log.Debug("opened a session beside the shared one", zap.Int("pid", in.info.PID))
	return in, nil
}

// release ends the session that is the client's alone, if there is one.
func (s *server) release(home session.Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tenants[home]; t != nil {
		delete(s.tenants, home)
		t.end(errReleased)
	}
}

// ownedBy returns the sessions that are the client's alone.
func (s *server) ownedBy(home session.Client) (all []*instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tenants[home]; t != nil && isClosed(t.ready) && t.err == nil {
		all = append(all, t.in)
	}
	if s.v.options.Sole && s.current != nil {
		all = append(all, s.current)
	}
	return all
}

// running returns all sessions with the server.
func (s *server) running() (all []*instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		all = append(all, s.current)
	}
	for _, t := range s.tenants {
		if isClosed(t.ready) && t.err == nil {
			all = append(all, t.in)
		}
	}
	return append(all, s.lendable...)
}

// evict ends all sessions that are one client's: what they run is not wanted any
// more.
func (s *server) evict(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextGeneration(cause)
}

// nextGeneration ends what began under the entry. s.mu must be held.
func (s *server) nextGeneration(cause error) {
	s.endGeneration(cause)
	s.generation, s.endGeneration = context.WithCancelCause(s.life)
}
