package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

// Terms are those on which a session is opened.
type terms struct {
	capabilities json.RawMessage // of the client
	owner        session.Client  // the only client that will use it; nil if several may
	era          era             // that the client wants; "" is the server's choice
	shared       bool            // the session from which the server's lists are known
}

// connect opens a session in an era that the server speaks.
func (s *server) connect(ctx context.Context, entry config.Server, on terms) (*instance, error) {
	known := s.v.traits.get(entry)
	if on.era != unknownEra {
		known.Era = on.era
	}
	open := func(known traits) (*instance, error) {
		in, err := s.launch(ctx, entry, known)
		if err != nil {
			return nil, err
		}
		in.declared = on.capabilities
		in.lodge(on.owner)
		in.Listen(func(m session.Message) { s.hear(in, on, m) })
		if in.transport == config.SSE {
			known.Era = legacyEra // there is no other
		}
		return in, s.greet(ctx, in, known.Era)
	}
	in, err := open(known)
	_, refused := errors.AsType[*session.Error](err)
	switch {
	case errors.Is(err, errProbeExit):
		known.Era = legacyEra
		in, err = open(known)
	case known.Era == legacyEra && on.era == unknownEra && (refused || notHere(err)):
		known.Era = unknownEra
		in, err = open(known)
	}
	if next, ok := other(entry, transport(entry, known), err); ok {
		first := err
		if in, err = open(traits{Transport: next}); err != nil {
			err = fmt.Errorf("neither streamable HTTP nor SSE: %w; %w", first, err)
		}
	}
	if err != nil {
		return nil, err
	}
	s.v.traits.edit(entry, func(t *traits) {
		if on.era == unknownEra {
			t.Era = era(in.info.Era())
		}
		if entry.Transport == config.AutoHTTP {
			t.Transport = in.transport
		}
	})
	s.v.mu.Lock()
	level := s.v.level
	s.v.mu.Unlock()
	in.setLevel(ctx, level)
	if !on.shared && in.meta == nil {
		in.settle(ctx, known.AsksRoots)
	}
	in.greeted.Store(true)
	return in, nil
}

// settleTime bounds how long a session is waited for beyond the handshake.
const settleTime = time.Second

const (
	// rootsTime is how long a server that asks for roots is waited for to do so, and
	// digestTime what it then gets to look at them.
	rootsTime  = 500 * time.Millisecond
	digestTime = 100 * time.Millisecond
)

// settle waits until the server has done what it does because of the handshake:
// the answer to a ping comes behind that. One that asks for roots has then got them.
func (in *instance) settle(ctx context.Context, asksRoots bool) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	in.Call(ctx, session.Request{Method: "ping"})
	if !asksRoots || wire.Member(in.declared, "roots") == nil {
		return
	}
	asked, cancel := context.WithTimeout(ctx, rootsTime)
	defer cancel()
	if in.rooted(asked) {
		digested, cancel := context.WithTimeout(ctx, digestTime)
		defer cancel()
		<-digested.Done()
	}
}

// hear takes in what the server says that belongs to no request.
func (s *server) hear(in *instance, on terms, m session.Message) {
	switch m.Method {
	case "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed":
		if on.shared {
			in.noteChange(m.Method)
		} else if in.greeted.Load() { // else it is that client's capabilities that make its lists others
			in.noteChange(m.Method)
			s.announce(in)
		}
	default:
		var owner session.Client
		if c := in.lodger(); c != nil {
			owner = c.Home()
		}
		s.v.options.Hear(s.name, owner, m)
	}
}

// announce has the lists taken from a session beside the shared one, which says
// that they have changed: who said so last is right for all, since lists are the
// same for all clients.
func (s *server) announce(in *instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		s.source = in
		notify(s.current.listChanged)
	}
}

// takeSource returns the session from which lists are to be taken next.
func (s *server) takeSource(shared *instance) *instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	source := s.source
	s.source = nil
	if source == nil || !source.usable() {
		return shared
	}
	return source
}

// greet shakes hands, and stops the instance if that fails.
func (s *server) greet(ctx context.Context, in *instance, known era) error {
	err := in.handshake(ctx, greeting{known: known, version: s.v.options.Version, capabilities: in.declared})
	if err == nil {
		in.info.PID, in.info.Remote = in.pid(), in.process == nil
		return nil
	}
	in.stop(err)
	if isSelf(err) {
		return errSelf
	}
	if exit, ok := errors.AsType[*exitError](err); ok && !errors.Is(err, errProbeExit) {
		return exit // that says it all
	}
	return in.explain(err)
}
