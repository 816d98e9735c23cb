package adapter

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mcp-metarouter/metarouter/internal/profile"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// A Scope is the router as clients of some profiles see it: what one of their profiles does not
// allow does not exist for them. What a method answers to a name depends on the profiles and on
// what exists for the clients, so that a name that is not allowed and one that does not exist have
// the same answer. A Scope follows edits of the configuration. It embeds nothing, so that each
// method of the router must decide here what clients may see. Its methods may be called by many
// goroutines at once.
type Scope struct {
	parts  *Parts
	chosen []string
	whole  bool // no profile limits it, not even "default"

	judged atomic.Pointer[judgement]

	building sync.Mutex // one goroutine at a time replaces seen: that takes long for very many tools
	seen     atomic.Pointer[visible]
}

// Scope returns the router as clients see it that have chosen all of these: what each of them
// allows. Each is the name of a profile, a union of profiles such as "dev|ops" (what any of them
// allows), or "@read" (all but the tools that may write). Without a profile, it is that of the
// profile "default", or everything if there is none. A Scope remembers what it has filtered: keep
// it for further requests.
func (p *Parts) Scope(chosen ...string) *Scope { return &Scope{parts: p, chosen: chosen} }

// Everything returns the router without any limit, also if there is a profile "default".
func (p *Parts) Everything() *Scope { return &Scope{parts: p, whole: true} }

// Explain is [Router.Explain].
func (s *Scope) Explain(ctx context.Context, task string, candidates []Candidate) ([]selector.Explanation, error) {
	return s.parts.Explain(ctx, task, candidates)
}

// Profile returns what was chosen, joined by "+".
func (s *Scope) Profile() string { return joined(s.chosen) }

func joined(profiles []string) string { return strings.Join(profiles, "+") }

// Exists reports whether all that was chosen exists: of a union, one of its profiles. If one does
// not, the scope has nothing.
func (s *Scope) Exists() bool {
	profiles := s.parts.router.current.load().config.Router.Profiles
	return !slices.ContainsFunc(s.chosen, func(chosen string) bool { return !profile.Exists(profiles, chosen) })
}

// Snapshot returns what the clients may see. It does not wait for servers.
func (s *Scope) Snapshot() *registry.Snapshot { return s.now().snapshot }

// Servers returns the state of each server that the clients may see. What other clients do with
// these servers is left out.
func (s *Scope) Servers() []ServerInfo {
	all, v := s.parts.Servers(), s.now()
	if v.rules == nil {
		return all
	}
	some := make([]ServerInfo, 0, len(all))
	for _, i := range all {
		if !v.rules.Server(i.Name) {
			continue
		}
		i.Tools = len(v.snapshot.Server(i.Name))
		i.Sessions = nil // they name other clients
		i.Stderr, i.StrayLine = nil, ""
		some = append(some, i)
	}
	return some
}

// Settled is [Router.Settled], for servers that the clients may see.
func (s *Scope) Settled(ctx context.Context) error {
	return s.parts.settledOf(ctx, s.judge().server)
}

// Await is that of [Parts], for a server that the clients may see.
func (s *Scope) Await(ctx context.Context, server string) error {
	if !s.judge().server(server) {
		return noServer(server)
	}
	return s.parts.Await(ctx, server)
}

// noServer is the error of the supervisor for a server that does not exist.
func noServer(name string) error { return &status.UnavailableError{Server: name} }

// Unlisted returns the names of servers that may have tools that are not known.
func (s *Scope) Unlisted() []string { return s.parts.unlistedOf(s.judge().server) }

// within returns the query for what the clients may see.
func (s *Scope) within(q Query) Query {
	if v := s.now(); v.rules != nil {
		q.Catalog = v.snapshot // a server that it does not have is one that does not exist, also in q.Servers
	}
	return q
}

// Find is [Router.Find], among what the clients may see.
func (s *Scope) Find(ctx context.Context, q Query) (Ranking, error) {
	return s.parts.Find(ctx, s.within(q))
}

// Select is [Router.Select], among what the clients may see.
func (s *Scope) Select(ctx context.Context, q Query) (Selection, error) {
	return s.parts.Select(ctx, s.within(q))
}

// Plan is that of [Parts], among what the clients may see.
func (s *Scope) Plan(ctx context.Context, q Query) ([]selector.Step, error) {
	return s.parts.Plan(ctx, s.within(q))
}

// Check is that of [Parts]. Arguments of a tool that the clients may not call have one fault.
func (s *Scope) Check(ctx context.Context, t *NormalizedTool, args json.RawMessage) selector.Checked {
	if t.Server != "" { // else it is the router's own
		if err := s.now().callable(t); err != nil {
			return selector.Checked{Arguments: args, Faults: []string{err.Error()}}
		}
	}
	return s.parts.Check(ctx, t, args)
}

// Execute is [Router.Execute], for tools that the clients may call. The tool must be one of
// [Scope.Snapshot].
func (s *Scope) Execute(ctx context.Context, c Call) (Result, error) {
	v := s.now()
	c.Profile, c.Rules = v.profile, v.encoded
	c = s.loggingIn(v, c)
	if v.rules == nil {
		return s.parts.Execute(ctx, c)
	}
	if err := v.callable(c.Tool); err != nil {
		return Result{}, err
	}
	c.Catalog = v.snapshot
	return s.parts.Execute(ctx, s.askingFirst(v, c))
}

// callable returns the error of a call of the tool, or nil if it can be called. A caller may have
// found the tool before an edit of the configuration, or before its server listed another one of
// the same ID, which may do something else.
func (v *visible) callable(t *NormalizedTool) error {
	if v.rules == nil {
		return nil
	}
	now, ok := v.snapshot.Tool(t.ID)
	switch {
	case !ok || now.Server != t.Server:
		return &session.Error{Code: session.CodeInvalidParams, Message: fmt.Sprintf("unknown tool %q", t.ID)}
	case now != t:
		return &session.Error{Code: session.CodeInvalidParams, Message: fmt.Sprintf("%s was not run: the tool has changed since it was looked up; call it again", t.ID)}
	}
	return nil
}

// Classifier returns the classifier of [Parts], without capability tags that no tool in sight has.
func (s *Scope) Classifier() *Classifier {
	all, v := s.parts.Classifier(), s.now()
	if v.rules == nil {
		return all
	}
	return all.Within(v.snapshot.Capabilities())
}

// Assistant is that of [Parts]. It is asked about tools that were found for the clients only.
func (s *Scope) Assistant() selector.Assistant { return s.parts.Assistant() }

// Learn is [Router.Learn], of tools that the clients may see.
func (s *Scope) Learn(ctx context.Context, u selector.Use) {
	if _, ok := s.Snapshot().Tool(u.Tool); ok {
		s.parts.Learn(ctx, u)
	}
}
