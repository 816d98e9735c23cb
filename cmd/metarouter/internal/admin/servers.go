package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/telemetry"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/hints"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
)

func named(servers []status.Server) (names []string) {
	for _, s := range servers {
		names = append(names, s.Name)
	}
	return names
}

// server returns the server of the name, of this node or of another one.
func (q *query) server(name string) (status.Server, error) {
	s, ok := status.Named(q.view.Servers(), name)
	if !ok && configfile.MayBeElsewhere(q.router.Config(), name) {
		q.noteMissing(q.router.AwaitNodes(q.Context()))
		s, ok = status.Named(q.view.Servers(), name)
	}
	if !ok {
		return s, notFound(configfile.UnknownName("server", name, named(q.view.Servers())))
	}
	return s, nil
}

func listServers(q *query) (any, error) {
	if fromCommand(q.Request) {
		if all := named(q.view.Servers()); q.alone() && !q.has("watch") && (len(all) > 0 || q.router.Config().Router.Cluster != nil) {
			q.router.Try(q.Context(), all...)
		}
		q.noteMissing(q.router.AwaitNodes(q.Context()))
	}
	all := q.view.Servers()
	rows := exposure.ServerRows(all)
	for i, s := range all {
		rows[i].LastError = lastError(q.mask, s)
		broken := s.State == status.Failed || s.State == status.Restarting && s.Doing == ""
		if broken && s.Fault != nil && (s.Fault.Kind == status.FetchFailed || s.Fault.Kind == status.Unreachable) {
			rows[i].Problem, _ = q.diagnose(s) // last_error is a message of npm or of the network
		}
	}
	return Servers{rows}, q.Context().Err()
}

func showServer(q *query) (any, error) {
	name := q.PathValue("name")
	if q.alone() {
		_ = q.router.Await(q.Context(), name) // the details say why it failed
	}
	s, err := q.server(name)
	if err != nil {
		return nil, err
	}
	return q.detailsOf(s, q.loginDetails(q.Context(), s, loginDetailsTime)), q.Context().Err()
}

// maxChanged bounds the changed tools of a server, and the changed hints, that its details name.
const maxChanged = 20

// masked returns lines without secrets.
func masked(m *telemetry.Mask, lines []string) []string {
	all := []string{}
	for _, line := range lines {
		all = append(all, m.Text(line))
	}
	return all
}

// lastError returns a server's last error without secrets.
func lastError(m *telemetry.Mask, s status.Server) string {
	if s.State == status.Misconfigured { // our own text, which names the variable that is not set
		return s.LastError
	}
	return m.Text(plain.Text(s.LastError))
}

// detailsOf returns all about a server, without secrets in what the server says.
func (a *API) detailsOf(s status.Server, login *LoginDetails) ServerDetails {
	d := ServerDetails{
		ServerRow: exposure.ServerRows([]status.Server{s})[0], Since: s.Since, Doing: s.Doing, TookMS: s.Took.Milliseconds(), FetchingMS: s.Fetching.Milliseconds(),
		Package: s.Package, InFlight: s.Calls, Waiting: s.Waiting, ByHand: s.ByHand, Reverted: s.Reverted, Outdated: s.Outdated, StrayLines: s.StrayLines,
		Stderr: masked(a.mask, s.Stderr), Login: login,
	}
	d.LastError = lastError(a.mask, s)
	switch s.State {
	case status.Failed, status.NeedsAuth, status.Misconfigured, status.Self:
		d.Problem, d.Fix = a.diagnose(s)
	}
	offer := a.router.Snapshot().Offer(s.Name)
	for _, t := range offer.Tools {
		if _, changed := offer.LastSeen[t.ServerName()]; changed {
			d.Changed = append(d.Changed, t.Name)
		}
	}
	d.Hints = hintsOf(offer)
	d.ChangedTools, d.ChangedHints = len(d.Changed), len(d.Hints)
	d.Changed, d.Hints = d.Changed[:min(len(d.Changed), maxChanged)], d.Hints[:min(len(d.Hints), maxChanged)]
	return d
}

func listHints(q *query) (any, error) {
	name := q.PathValue("name")
	if _, err := configfile.Server(q.router.Config(), name); err != nil {
		return nil, notFound(err)
	}
	return Hints{hintsOf(q.router.Snapshot().Offer(name))}, nil
}

// hintsOf returns the tools of a server with hints that no person has confirmed.
func hintsOf(l registry.Listing) []Hint {
	all := []Hint{}
	for _, c := range hints.Unconfirmed(l) {
		all = append(all, Hint{c.Tool.ID, c.Tool.ServerName(), c.Tool.Hints, hints.Changes(c.Was, c.Tool.Hints)})
	}
	return all
}

// actTime bounds an action on a server, which may take as long as its start.
const actTime = 2 * time.Minute

func act(q *query) (any, error) {
	name, action := q.PathValue("name"), q.PathValue("action")
	entry, err := configfile.Server(q.router.Config(), name)
	if _, ok := status.Named(q.router.Servers(), name); err != nil && (!ok || fromCommand(q.Request)) {
		return nil, notFound(err)
	}
	within := max(actTime, entry.StartTimeout+10*time.Second)
	ctx, cancel := context.WithTimeout(audit.By(q.Context(), actor(q.Request)), within)
	defer cancel()
	if action == "login" {
		return beginLogin(ctx, q, name)
	}
	err = perform(ctx, q, name, action)
	if _, refused := errors.AsType[*statusError](err); refused {
		return nil, err
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("the action takes longer than %v; it continues in the background", within)
	}
	if action != "logout" { // which the logins record
		q.record(audit.Event{Action: audit.Control, Outcome: audit.OK, Target: name, Reason: action}, err)
	}
	if err != nil {
		return nil, &statusError{409, errors.New(q.mask.Text(err.Error()))}
	}
	s, _ := status.Named(q.router.Servers(), name)
	return Servers{exposure.ServerRows([]status.Server{s})}, nil
}

// perform acts on a server. The error is a [statusError] if the request asks for no action that there is.
func perform(ctx context.Context, q *query, name, action string) error {
	switch action {
	case "restart":
		if q.alone() { // it does not run yet
			return q.router.Await(ctx, name)
		}
		return q.router.Restart(ctx, name)
	case "stop":
		return q.router.Turn(ctx, name, false)
	case "start":
		return q.router.Turn(ctx, name, true)
	case "logout":
		defer q.logins.Delete(name)
		_, err := q.router.Logout(ctx, name, clientauth.PrincipalOf(ctx).Hash)
		return err
	case "seen":
		return q.router.Seen(name)
	case "hints":
		var c Confirmation
		if err := json.Unmarshal(q.body, &c); err != nil || len(c.Hints) == 0 {
			return badRequest(errors.New(`the body must name the hints to confirm: {"hints": {"TOOL": {"readOnlyHint": true}}}`))
		}
		return q.router.ConfirmHints(name, c.Hints)
	}
	return notFound(errors.New("a server can be restarted, stopped, started, logged in to or out of, its changes marked as seen, and its hints confirmed"))
}
