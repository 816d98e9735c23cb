package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// A query is a request to a router, the part of the router that it is about, and the notes of the answer.
type query struct {
	*http.Request
	*API
	view  *adapter.View
	body  []byte
	notes []string
}

// A statusError is an error with the status of its answer.
type statusError struct {
	status int
	error
}

func (f *statusError) Unwrap() error { return f.error }

// badRequest is the error of a request with a wrong value.
func badRequest(err error) error { return &statusError{http.StatusBadRequest, err} }

// notFound is the error of a request about a name that does not exist.
func notFound(err error) error { return &statusError{http.StatusNotFound, err} }

// reply answers a request with the value or the error that answer returns. An edit in progress comes first.
func (a *API) reply(w http.ResponseWriter, r *http.Request, answer func(*query) (any, error)) {
	a.settle(r.Context())
	q := &query{Request: r, API: a}
	if why := a.judgement(); why != nil && fromCommand(r) {
		q.note("note: the last edit is not in use: %v", q.explain(why))
	}
	err := q.prepare()
	var v any
	if err == nil {
		v, err = answer(q)
	}
	status := http.StatusOK
	if err != nil {
		v, status = Refusal{err.Error()}, http.StatusInternalServerError
		if f, ok := errors.AsType[*statusError](err); ok {
			status = f.status
		}
	}
	if len(q.notes) > 0 {
		v = json.RawMessage(wire.AddMember(wire.Marshal(v), "notes", wire.Marshal(q.notes)))
	}
	writeJSON(w, status, v)
}

// prepare reads the body, and chooses the view of the parameter "profile": of clients of that profile, of
// clients without one if it is "", and of everything if it is absent. All of the body is read first, or
// net/http would not notice that the client leaves.
func (q *query) prepare() (err error) {
	if q.Method == http.MethodPost {
		if q.body, err = io.ReadAll(q.Body); err != nil {
			return badRequest(err)
		}
	}
	chosen, ok := q.URL.Query()["profile"]
	switch {
	case !ok:
		q.view = q.router.View
	case chosen[0] == "":
		q.view = q.router.Scope()
	default:
		if err := configfile.CheckProfile(q.router.Config(), chosen[0]); err != nil {
			return badRequest(err)
		}
		q.view = q.router.Scope(chosen[0])
	}
	return nil
}

// note adds a line for the person who asks.
func (q *query) note(format string, args ...any) {
	q.notes = append(q.notes, plain.Line(fmt.Sprintf(format, args...)))
}

// has reports whether a parameter is set to something.
func (q *query) has(parameter string) bool { return q.FormValue(parameter) != "" }

// alone reports whether the router runs for this command alone, and serves no client.
func (q *query) alone() bool { return q.mcp == nil }

const (
	MaxReason = 120 // characters of an error that a line for a person has
	maxFailed = 10  // servers that a note names
)

// awaitTools waits until the tools of all servers are known or their servers have failed, and notes
// which failed; noteFailed explains needed. Another note says if servers of other nodes may be missing.
func (q *query) awaitTools(needed bool) error {
	missing := q.view.Settled(q.Context())
	if q.Context().Err() != nil {
		return q.Context().Err()
	}
	q.noteMissing(missing)
	q.noteFailed(q.view.Servers(), needed)
	return nil
}

// noteFailed notes which servers have no tools because they failed, if that explains why the request fails, or the router serves no client.
func (q *query) noteFailed(servers []status.Server, needed bool) {
	if !needed && !q.alone() {
		return
	}
	var without []status.Server
	for _, s := range servers {
		if s.LastError != "" && s.Tools == 0 && s.State != status.Disabled && s.State != status.Self {
			without = append(without, s)
		}
	}
	switch len(without) {
	case 0:
	case 1:
		s := without[0]
		q.note("metarouter: server %q %s: %s; 'metarouter servers %s' says more", s.Name, s.Verb(), console.Cut(plain.Line(lastError(q.mask, s)), MaxReason), commandline.Quote(s.Name))
	default:
		q.note("metarouter: %d servers do not work, so their tools are missing: %s; 'metarouter doctor' says why and what to do", len(without), prose.List(named(without), maxFailed))
	}
}

// noteMissing notes why servers of other nodes may be missing; nil if all are known.
func (q *query) noteMissing(why error) {
	if why != nil {
		q.note("metarouter: servers of other nodes may be missing: %s; 'metarouter doctor' says more", console.Cut(plain.Line(why.Error()), MaxReason))
	}
}

// byCommand is the key of contexts of requests that commands of this machine send.
type byCommand struct{}

// ForCommands returns h for the requests of commands of this user.
func ForCommands(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), byCommand{}, true)))
	})
}

// fromCommand reports whether a command of this user sends the request.
func fromCommand(r *http.Request) bool { return r.Context().Value(byCommand{}) != nil }

func actor(r *http.Request) audit.Actor {
	if fromCommand(r) {
		return audit.Actor{Principal: configfile.UserName(), From: "terminal"}
	}
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil { // a socket, by which 'metarouter dashboard' comes
		from = "page"
	}
	return audit.Actor{Principal: clientauth.PrincipalOf(r.Context()).Name, From: from}
}

// record records an action. err is why it failed.
func (q *query) record(e audit.Event, err error) {
	who := actor(q.Request)
	e.Principal, e.From = who.Principal, who.From
	if err != nil {
		e.Outcome, e.Reason = audit.Failed, e.Reason+": "+err.Error()
	}
	q.router.Audit(e)
}
