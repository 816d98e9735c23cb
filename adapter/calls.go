package adapter

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/mcp-metarouter/metarouter/discovery"
	"github.com/mcp-metarouter/metarouter/internal/inprocess"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// calls are searches, calls of tools and other requests to servers.
type calls struct{ scoped }

// Find ranks the tools that suit a query.
func (c calls) Find(ctx context.Context, q selector.Query) (selector.Ranking, error) {
	return c.router.selector.Find(ctx, c.scope.Visible().Query(q))
}

// Select picks the tool for a query.
func (c calls) Select(ctx context.Context, q selector.Query) (selector.Selection, error) {
	return c.router.selector.Select(ctx, c.scope.Visible().Query(q))
}

// Plan implements [selector.Provider].
func (c calls) Plan(ctx context.Context, q selector.Query) ([]selector.Step, error) {
	return c.router.selector.Plan(ctx, c.scope.Visible().Query(q))
}

// Explain returns the parts of the scores of tools that were found for a task.
func (c calls) Explain(ctx context.Context, task string, candidates []selector.Candidate) ([]selector.Explanation, error) {
	return c.router.selector.Explain(ctx, task, candidates)
}

// Check implements [selector.Provider]. Arguments of a tool that the clients may not call have one
// fault.
func (c calls) Check(ctx context.Context, t *registry.NormalizedTool, args json.RawMessage) selector.Checked {
	if t.Server != "" { // else it is the router's own
		if err := c.scope.Visible().Callable(t); err != nil {
			return selector.Checked{Arguments: args, Faults: []string{err.Error()}}
		}
	}
	return c.router.executor.Check(ctx, t, args)
}

// Execute runs a tool of the snapshot.
func (c calls) Execute(ctx context.Context, call selector.Call) (selector.Result, error) {
	if call.Tool == nil {
		return selector.Result{}, inprocess.NoTool(c.router.Name(), "")
	}
	v := c.scope.Visible()
	call.Profile, call.Rules = v.Profile, v.Encoded
	made := call
	call = c.loggingIn(v, call)
	if v.Rules != nil {
		if err := v.Callable(call.Tool); err != nil {
			return selector.Result{}, err
		}
		call.Catalog = v.Snapshot
	}
	ctx, err := withScript(ctx, c, made)
	if err != nil {
		return selector.Result{}, err
	}
	if v.Rules != nil {
		call = c.askingFirst(v, call)
	}
	return c.router.executor.Execute(ctx, call)
}

// Relay sends a request about prompts, resources or tasks to a server. The error is a
// [*session.Error], or the cause of ctx's end.
func (c calls) Relay(ctx context.Context, server string, r Request) (json.RawMessage, error) {
	v := c.scope.Visible()
	if err := v.Relayable(server, r); err != nil {
		return nil, err
	}
	if v.Config.Router.Cluster != nil {
		who, _ := session.CallerOf(r.From)
		r.Origin = session.NewOrigin(v.Profile, v.Encoded, who.Principal, who.Name)
	}
	result, err := c.router.executor.Relay(ctx, server, r)
	if helps, why := c.loggedIn(ctx, r.From, err); helps {
		if why != nil {
			return nil, why
		}
		if err := c.scope.Visible().Relayable(server, r); err != nil { // an edit may have changed that meanwhile
			return nil, err
		}
		result, err = c.router.executor.Relay(ctx, server, r)
	}
	switch uri := wire.Text(r.Params, "uri"); {
	case r.Method != "resources/read" && r.Method != "skills/get":
	case err != nil:
		err = v.Hide(server, uri, err)
	case r.Method == "resources/read":
		err = c.verify(ctx, server, r, result)
	default:
		s, err := skillIn(result, server, uri)
		return wire.SetMember(result, "skill", s.Definition), err
	}
	return result, err
}

// skillIn returns the skill of a skills/get result.
func skillIn(result json.RawMessage, server, uri string) (registry.Skill, error) {
	s, err := discovery.Skill(server, wire.Member(result, "skill"))
	if err != nil || s.URI != uri {
		err = cmp.Or(err, errors.New("it is another one"))
		err = session.Internal(fmt.Sprintf("%s: its skill %q can't be used: %v", server, uri, err))
	}
	return s, err
}

// verify compares the result of resources/read with the skills that list the file. Their server may have changed them
// since, so it is asked for a skill that does not fit before the file is refused.
func (c calls) verify(ctx context.Context, server string, r Request, result json.RawMessage) error {
	uri := wire.Text(r.Params, "uri")
	for _, s := range c.router.registry.Snapshot().Offer(server).Skills {
		if !s.Holds(uri) || fits(s, uri, result) {
			continue
		}
		r.Method, r.Params = "skills/get", wire.Marshal(map[string]string{"uri": s.URI})
		raw, err := c.router.executor.Relay(ctx, server, r)
		if err != nil {
			return err
		}
		if now, err := skillIn(raw, server, s.URI); err != nil {
			return err
		} else if !fits(&now, uri, result) {
			return session.Internal(fmt.Sprintf("%s: the file %q does not fit its digest and size in the skill %q, so it is not passed on", server, uri, s.URI))
		}
	}
	return nil
}

// fits reports whether a skill does not list the file, or the result of resources/read has its contents alone.
func fits(s *registry.Skill, uri string, result json.RawMessage) bool {
	files := s.Files()
	at := slices.IndexFunc(files, func(f registry.SkillEntry) bool { return f.URI == uri && f.Digest != "" })
	var contents []json.RawMessage
	if list := wire.Member(result, "contents"); at < 0 || json.Unmarshal(list, &contents) != nil {
		return true // or it is a question
	}
	if len(contents) != 1 || wire.Text(contents[0], "uri") != uri || (wire.Member(contents[0], "text") == nil) == (wire.Member(contents[0], "blob") == nil) {
		return false
	}
	body, err := base64.StdEncoding.DecodeString(wire.Text(contents[0], "blob"))
	body = append(body, wire.Text(contents[0], "text")...)
	return err == nil && int64(len(body)) == files[at].Size && fmt.Sprintf("sha256:%x", sha256.Sum256(body)) == files[at].Digest
}

// loggedIn is LogIn for a request that has ended with err, which may be nil. Its error is a
// [*session.Error], or the cause of ctx's end.
func (c calls) loggedIn(ctx context.Context, from Client, err error) (helps bool, why error) {
	if err == nil {
		return false, nil
	}
	helps, why = c.LogIn(ctx, from, err)
	if _, ok := errors.AsType[*session.Error](why); why != nil && !ok && ctx.Err() == nil {
		why = session.Internal(why.Error())
	}
	return helps, why
}
