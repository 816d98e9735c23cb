package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// A query is a request, the router as it is for the request, and the notes of the answer.
type query struct {
	*http.Request
	api   *API
	scope *adapter.View
	body  []byte
	notes []string
}

// A failed is an error with the status of its answer.
type failed struct {
	status int
	error
}

func (f *failed) Unwrap() error { return f.error }

// wrong is the error of a request that names or says something wrong.
func wrong(err error) error { return &failed{http.StatusBadRequest, err} }

// absent is the error of a request about something that does not exist.
func absent(err error) error { return &failed{http.StatusNotFound, err} }

// serve returns the handler of requests that answer answers. An edit in progress comes first.
func (a *API) serve(answer func(*query) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a.options.Edits.settle(r.Context(), a.options.DataDir, a.router)
		q := &query{Request: r, api: a}
		if fromCommand(r) {
			q.noteEdit()
		}
		v, err := q.answer(answer)
		status := http.StatusOK
		if err != nil {
			v, status = Refusal{err.Error()}, http.StatusInternalServerError
			if f, ok := errors.AsType[*failed](err); ok {
				status = f.status
			}
		}
		if len(q.notes) > 0 {
			v = json.RawMessage(wire.AddMember(wire.Marshal(v), "notes", wire.Marshal(q.notes)))
		}
		reply(w, status, v)
	}
}

// read decodes the body.
func (q *query) read(v any) error {
	if err := json.Unmarshal(q.body, v); err != nil {
		return wrong(fmt.Errorf("the body is not what %s takes: %w", q.URL.Path, err))
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
func (q *query) alone() bool { return q.api.mcp == nil }

// answer returns the answer for the router as clients of the profile in the parameter "profile" see
// it: as clients without one do if it is "", and all of it if the parameter is absent. All of the body
// is read first, or net/http would not notice that the client leaves.
func (q *query) answer(answer func(*query) (any, error)) (_ any, err error) {
	if q.Method == http.MethodPost {
		if q.body, err = io.ReadAll(q.Body); err != nil {
			return nil, wrong(err)
		}
	}
	chosen, ok := q.URL.Query()["profile"]
	switch {
	case !ok:
		q.scope = q.api.router.View
	case chosen[0] == "":
		q.scope = q.api.router.Scope()
	default:
		if err := configfile.CheckProfile(q.api.router.Config(), chosen[0]); err != nil {
			return nil, wrong(err)
		}
		q.scope = q.api.router.Scope(chosen[0])
	}
	return answer(q)
}

// visible returns the configuration with the servers of the scope alone.
func (q *query) visible() config.Config {
	c, seen := q.api.router.Config(), make(map[string]bool)
	for _, info := range q.scope.Servers() {
		seen[info.Name] = true
	}
	c.Servers = slices.DeleteFunc(slices.Clone(c.Servers), func(entry config.Server) bool { return !seen[entry.Name] })
	return c
}

const (
	maxReason = 120 // characters of an error that a note has
	maxFailed = 10  // servers that a note names
)

// awaitTools waits until the tools of all servers are known or their servers have failed, and notes
// which failed; see noteFailed for needed. Another note says if servers of other nodes may be missing.
func (q *query) awaitTools(needed bool) error {
	missing := q.scope.Settled(q.Context())
	if q.Context().Err() != nil {
		return q.Context().Err()
	}
	q.noteMissing(missing)
	q.noteFailed(q.scope.Servers(), needed)
	return nil
}

// noteFailed notes which servers have no tools because they failed. Unless that explains why the
// request fails, a router that serves clients repeats the note after an hour, or for other servers.
func (q *query) noteFailed(servers []adapter.ServerInfo, needed bool) {
	var without []adapter.ServerInfo
	for _, s := range servers {
		if s.LastError != "" && s.Tools == 0 && s.State != status.Disabled && s.State != status.Self {
			without = append(without, s)
		}
	}
	if repeated := q.api.notes(strings.Join(named(without), "\n")); repeated && !needed && !q.alone() {
		return
	}
	switch len(without) {
	case 0:
	case 1:
		s := without[0]
		q.note("metarouter: server %q %s: %s; 'metarouter servers %s' says more", s.Name, s.Verb(), terminal.Cut(plain.Line(s.LastError), maxReason), s.Name)
	default:
		var names []string
		for _, s := range without[:min(len(without), maxFailed)] {
			names = append(names, s.Name)
		}
		if more := len(without) - len(names); more > 0 {
			names = append(names, fmt.Sprintf("%d more", more))
		}
		q.note("metarouter: %d servers do not work, so their tools are missing: %s; 'metarouter doctor' says why and what to do", len(without), strings.Join(names, ", "))
	}
}

// notes reports whether a note about the same failed servers was made within the last hour.
func (a *API) notes(failed string) (repeated bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if failed == a.failed && time.Since(a.noted) < time.Hour {
		return true
	}
	a.failed, a.noted = failed, time.Now()
	return false
}

// noteMissing notes why servers of other nodes may be missing; nil if all are known.
func (q *query) noteMissing(why error) {
	if why != nil {
		q.note("metarouter: servers of other nodes may be missing: %s; 'metarouter doctor' says more", terminal.Cut(plain.Line(why.Error()), maxReason))
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

// actor returns who sends a request.
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

// record records what was done. err is why it failed.
func (a *API) record(q *query, e audit.Event, err error) {
	who := actor(q.Request)
	e.Principal, e.From = who.Principal, who.From
	if err != nil {
		e.Outcome, e.Reason = audit.Failed, e.Reason+": "+err.Error()
	}
	a.router.Audit(e)
}
