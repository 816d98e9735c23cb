package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/hints"
	"github.com/mcp-metarouter/metarouter/internal/serverrow"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
)

// named returns the names of servers.
func named(servers []adapter.ServerInfo) (names []string) {
	for _, s := range servers {
		names = append(names, s.Name)
	}
	return names
}

// find returns the server of the name.
func find(servers []adapter.ServerInfo, name string) (s adapter.ServerInfo, ok bool) {
	i := slices.IndexFunc(servers, func(s adapter.ServerInfo) bool { return s.Name == name })
	if i < 0 {
		return s, false
	}
	return servers[i], true
}

// servers answers GET /dashboard/servers.
func (a *API) servers(q *query) (any, error) {
	if q.has("wait") {
		if all := named(q.scope.Servers()); q.alone() && (len(all) > 0 || a.router.Config().Router.Cluster != nil) {
			a.router.Try(q.Context(), all...)
		}
		q.noteMissing(a.router.AwaitNodes(q.Context()))
	}
	all := q.scope.Servers()
	rows := serverrow.Of(all)
	for i, s := range all {
		broken := s.State == status.Failed || s.State == status.Restarting && s.Doing == ""
		if broken && s.Fault != nil && (s.Fault.Kind == status.FetchFailed || s.Fault.Kind == status.Unreachable) {
			rows[i].Problem, _ = a.explain(s) // last_error is what npm or the network says
		}
	}
	return Servers{rows}, q.Context().Err()
}

// server answers GET /dashboard/servers/NAME.
func (a *API) server(q *query) (any, error) {
	name := q.PathValue("name")
	if err := q.isInWaitingEdit(name); err != nil {
		return nil, err
	}
	if q.alone() {
		_ = a.router.Await(q.Context(), name) // what is shown says why it failed
	}
	s, ok := find(a.router.Servers(), name)
	if !ok {
		q.noteMissing(a.router.AwaitNodes(q.Context()))
		s, ok = find(a.router.Servers(), name)
	}
	if !ok {
		return nil, absent(configfile.UnknownName("server", name, named(a.router.Servers())))
	}
	return ServerDetails{
		Row: serverrow.Of([]adapter.ServerInfo{s})[0], Since: s.Since, Doing: s.Doing, TookMS: s.Took.Milliseconds(), FetchingMS: s.Fetching.Milliseconds(),
		Package: s.Package, InFlight: s.Calls, Waiting: s.Waiting, ByHand: s.ByHand, Reverted: s.Reverted, Outdated: s.Outdated, StrayLines: s.StrayLines,
		Stderr: append([]string{}, s.Stderr...), Login: a.loginDetails(q.Context(), s),
	}, q.Context().Err()
}

// loginDetails returns how the login at a server is, nil if there is nothing to say.
func (a *API) loginDetails(ctx context.Context, s adapter.ServerInfo) *LoginDetails {
	const keyringTime = 10 * time.Second // that the keyring, which may be asked, has to answer
	if s.Transport == string(config.Stdio) || s.Node() != "" {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, keyringTime)
	defer cancel()
	state, err := a.router.LoginState(bounded, s.Name)
	if s.Fault != nil && s.State == status.NeedsAuth {
		state.Why = cmp.Or(s.Fault.Login, state.Why)
		state.Issuer = cmp.Or(state.Issuer, s.Fault.Issuer)
	}
	if err != nil || !state.LoggedIn && state.Why == "" {
		return nil // such as an entry with a header of its own
	}
	return &LoginDetails{state.LoggedIn, state.Issuer, state.Scopes, state.Expires, state.Renews, state.Why}
}

// hints answers GET /dashboard/servers/NAME/hints.
func (a *API) hints(q *query) (any, error) {
	name := q.PathValue("name")
	if err := q.isInWaitingEdit(name); err != nil {
		return nil, err
	}
	if _, err := configfile.Server(a.router.Config(), name); err != nil {
		return nil, absent(err)
	}
	return Hints{hintsOf(a.router.Snapshot().Offer(name))}, nil
}

// hintsOf returns the tools of a server whose hints no person has confirmed.
func hintsOf(l registry.Listing) []Hint {
	all := []Hint{}
	for _, c := range hints.Unconfirmed(l) {
		all = append(all, Hint{c.Tool.ID, c.Tool.ServerName(), c.Tool.Hints, hints.Changes(c.Was, c.Tool.Hints)})
	}
	return all
}

// actTime bounds an action on a server, which may take as long as its start.
const actTime = 2 * time.Minute

// act answers POST /dashboard/servers/NAME/ACTION.
func (a *API) act(q *query) (any, error) {
	name, action := q.PathValue("name"), q.PathValue("action")
	if err := q.isInWaitingEdit(name); err != nil {
		return nil, err
	}
	entry, err := configfile.Server(a.router.Config(), name)
	if _, ok := find(a.router.Servers(), name); err != nil && (!ok || fromCommand(q.Request)) {
		return nil, absent(err)
	}
	within := max(actTime, entry.StartTimeout+10*time.Second)
	ctx, cancel := context.WithTimeout(audit.By(q.Context(), actor(q.Request)), within)
	defer cancel()
	if action == "login" {
		return a.beginLogin(q.WithContext(ctx), name)
	}
	err = a.perform(ctx, q, name, action)
	if _, refused := errors.AsType[*failed](err); refused {
		return nil, err
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("the action takes longer than %v; it continues in the background", within)
	}
	if action != "logout" { // which the logins record
		a.record(q, audit.Event{Action: audit.Control, Outcome: audit.OK, Target: name, Reason: action}, err)
	}
	if err != nil {
		return nil, &failed{409, errors.New(a.mask.Text(err.Error()))}
	}
	s, _ := find(a.router.Servers(), name)
	return Servers{serverrow.Of([]adapter.ServerInfo{s})}, nil
}

// perform acts on a server. The error is a [failed] if the request asks for no action that there is.
func (a *API) perform(ctx context.Context, q *query, name, action string) error {
	switch action {
	case "restart":
		if q.alone() { // it does not run yet
			return a.router.Await(ctx, name)
		}
		return a.router.Restart(ctx, name)
	case "stop":
		return a.router.Turn(ctx, name, false)
	case "start":
		return a.router.Turn(ctx, name, true)
	case "logout":
		return a.logout(ctx, name)
	case "seen":
		return a.router.Seen(name)
	case "hints":
		var c Confirmation
		if err := q.read(&c); err != nil || len(c.Hints) == 0 {
			return wrong(errors.New(`the body must name the hints to confirm: {"hints": {"TOOL": {"readOnlyHint": true}}}`))
		}
		return a.confirm(q, name, c)
	}
	return absent(errors.New("a server can be restarted, stopped, started, logged in to or out of, its changes marked as seen, and its hints confirmed"))
}

// confirm confirms hints of a server's tools, and notes which tools still have a doubt.
func (a *API) confirm(q *query, name string, c Confirmation) error {
	if err := a.router.ConfirmHints(name, c.Hints); err != nil {
		return err
	}
	for _, t := range a.router.Snapshot().Server(name) {
		if _, ok := c.Hints[t.ServerName()]; ok && t.Doubt != "" {
			q.note("%s still does not count as one that does no harm: %s; if its server is right, write \"trustHints\": true in the entry of %q", t.ID, t.Doubt, name)
		}
	}
	return nil
}
