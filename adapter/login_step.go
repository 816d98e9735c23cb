package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter/internal/scope"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/selector"
)

const (
	// codeURLNeeded is the error by which revision 2025-11-25 has a client show its person a URL.
	codeURLNeeded = -32042

	// beginTime bounds how long a login takes to begin: the issuer is found, and perhaps asked to
	// register the router.
	beginTime = 30 * time.Second

	// restartTime is how long a call waits after a login until its server is tried again.
	restartTime = 15 * time.Second
)

// loggingIn returns the call, which v allows, so that its client's person is asked to log in if its
// server needs that.
func (c calls) loggingIn(v *scope.Visible, call selector.Call) selector.Call {
	if _, ok := session.CallerOf(call.From); !ok {
		return call
	}
	from, tool := call.From, call.Tool // so that the function does not keep a copy of the call
	call.LogIn = func(ctx context.Context, err error) (bool, error) {
		helps, why := c.LogIn(ctx, from, err)
		if !helps || why != nil {
			return helps, why
		}
		now := c.scope.Visible() // the tool and the profile may be others after the login
		if now.Rules != v.Rules {
			return true, fmt.Errorf("%s was not run: the profile was edited while a person logged in; send the call again", tool.ID)
		}
		return true, now.Callable(tool)
	}
	return call
}

// LogIn begins a login if a request of the client has failed with err because of one, and has the
// client show its person the URL. It reports false if the client is the program itself, or if no
// login helps. If why is nil, a person has logged in, and the request may be sent again; else why
// says why it was not carried out, and how to go on.
//
// A client of the modern era waits for the login. One of the legacy era gets a [*session.Error],
// and a notification when the login is over. Clients that show no URLs get both in the text. Other
// errors wrap [ErrNotSent], or are the cause of ctx's end.
func (c calls) LogIn(ctx context.Context, from Client, err error) (helps bool, why error) {
	helps, why = c.router.accounts.logIn(ctx, from, err)
	if why == nil || ctx.Err() != nil || errors.As(why, new(*session.Error)) {
		return helps, why
	}
	return helps, notLoggedIn{why}
}

// notLoggedIn is why a request was not carried out that needs a login.
type notLoggedIn struct{ error }

func (e notLoggedIn) Unwrap() []error { return []error{e.error, session.ErrNotSent} }

// notListed is why the lists of a server whose users have sessions of their own can't be read. Only the login of the router's own user,
// with which they are read, would help.
type notListed struct{ error }

func (e notListed) Unwrap() error { return e.error }

// logIn is LogIn, but its errors need not wrap ErrNotSent.
func (a *accounts) logIn(ctx context.Context, from Client, err error) (helps bool, why error) {
	who, ok := session.CallerOf(from)
	needed := neededLogin(err)
	if !ok || needed == nil {
		return false, nil
	}
	if errors.As(err, new(notListed)) && who.Principal != "" {
		return true, fmt.Errorf("the tools of server %q are not known yet, and a login of yours does not help: ask the administrator of this router to run 'metarouter login %s' on its machine, then send the request again", needed.Server, commandline.Quote(needed.Server))
	}
	if !who.MayLogIn && !a.current.load().entry(needed.Server).PerUser {
		return true, fmt.Errorf("server %q needs a login: %s. Ask the administrator of this router to log in to it, then send the request again", needed.Server, needed.Why.Text())
	}
	r := login.Request{By: who.Principal, Who: who.Name, Way: login.Loopback, Own: !who.MayLogIn, Scopes: needed.Scopes}
	switch {
	case who.OverHTTP && a.current.load().config.Router.HTTP.PublicURL != "":
		r.Way = login.Public
	case !who.MayLogIn: // whoever opened the URL on the router's machine would log in for this principal
		return true, fmt.Errorf("server %q needs a login of your own: %s. It can't come back to you, since the router has no public URL: ask its administrator to set \"publicUrl\" in \"http\"", needed.Server, needed.Why.Text())
	}
	beginning, cancel := context.WithTimeout(ctx, beginTime)
	defer cancel()
	pending, failed := a.BeginLogin(audit.By(beginning, actorOf(from)), needed.Server, r)
	switch {
	case ctx.Err() != nil:
		return true, context.Cause(ctx)
	case beginning.Err() != nil && errors.Is(failed, context.DeadlineExceeded):
		return true, fmt.Errorf("server %q needs a login: %s. No login could be begun, since its issuer did not answer within %v. Send the request again later%s", needed.Server, needed.Why.Text(), beginTime, a.orRun(from, needed))
	case failed != nil:
		return true, fmt.Errorf("server %q needs a login: %s. No login could be begun: %w. Send the request again later%s", needed.Server, needed.Why.Text(), failed, a.orRun(from, needed))
	}
	return true, a.askToLogIn(ctx, from, needed, pending)
}

// neededLogin returns the login that an error asks for; nil if no login would help.
func neededLogin(err error) *login.NeededError {
	needed, ok := errors.AsType[*login.NeededError](err)
	if !ok {
		unavailable, ok := errors.AsType[*status.UnavailableError](err)
		if !ok || unavailable.Login == "" {
			return nil
		}
		needed = &login.NeededError{Server: unavailable.Server, Why: unavailable.Login}
	}
	if needed.Why == status.IssuerUnreachable { // no login is possible either
		return nil
	}
	return needed
}

// askToLogIn has the client show its person the URL of a login, and waits for the login if the
// client can be asked while a request of it is under way. It returns nil after the login.
func (a *accounts) askToLogIn(ctx context.Context, from Client, needed *login.NeededError, pending *login.Pending) error {
	share := "All clients of this router share the login."
	if a.current.load().entry(needed.Server).PerUser {
		share = "The login is for you alone."
	}
	question := fmt.Sprintf("server %q needs a login: %s. %s", needed.Server, needed.Why.Text(), share)
	if pending.Device != nil {
		question += fmt.Sprintf(" The code to enter is %s.", pending.Device.UserCode)
	}
	url := pending.URL
	switch {
	case !session.OpensURLs(from.Capabilities()):
		return inWords(question, url, a.orRun(from, needed))
	case !from.Modern():
		a.notices.follow(from.Home(), pending)
		return &session.Error{Code: codeURLNeeded, Message: question, Data: wire.Marshal(map[string]any{"elicitations": []any{map[string]string{
			"mode": "url", "elicitationId": pending.ID, "url": url, "message": question,
		}}})}
	}
	asking, withdraw := context.WithCancelCause(ctx)
	defer withdraw(nil)
	defer context.AfterFunc(pending.Over, func() { withdraw(errLoginOver) })()
	result, err := from.Ask(asking, "metarouter", session.Message{Method: "elicitation/create", Params: wire.Marshal(map[string]string{
		"mode": "url", "url": url, "message": question,
	})})
	action := wire.Text(result, "action")
	_, unable := errors.AsType[*session.Error](err)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case unable:
		return inWords(question, url, a.orRun(from, needed))
	case err != nil && !errors.Is(err, errLoginOver):
		return fmt.Errorf("server %q needs a login, and the question to the person at the client failed: %w. Send the request again when a person can answer%s", needed.Server, err, a.orRun(from, needed))
	case err == nil && action != "accept":
		return fmt.Errorf("server %q needs a login, and the person at the client did not agree to one (%s). Do not send the request again unless that person wants it", needed.Server, action)
	}
	return a.awaitLogin(ctx, needed.Server, pending)
}

// inWords is the error for a client that shows no URLs.
func inWords(question, url, orRun string) error {
	return fmt.Errorf("%s Have the person log in within %v at %s%s before you send the request again", question, login.Lifetime, url, orRun)
}

// orRun names the command by which the client's person can log in, too; "" if the command logs in another user.
func (a *accounts) orRun(from Client, needed *login.NeededError) string {
	if who, _ := session.CallerOf(from); who.Principal != "" && a.current.load().entry(needed.Server).PerUser {
		return ""
	}
	return fmt.Sprintf(" or run \"%s\" on the router's machine", needed.Command())
}

// errLoginOver is why a question is withdrawn.
var errLoginOver = errors.New("the login is over")

// awaitLogin waits until a person has logged in, and the server is tried again.
func (a *accounts) awaitLogin(ctx context.Context, server string, pending *login.Pending) error {
	bounded, cancel := context.WithTimeout(ctx, login.Lifetime)
	defer cancel()
	err := pending.Wait(bounded)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case bounded.Err() != nil:
		return fmt.Errorf("server %q needs a login, and no one logged in within %v. Send the request again when a person can log in", server, login.Lifetime)
	case err != nil:
		return fmt.Errorf("server %q needs a login, and the login failed: %w. Send the request again to begin another one", server, err)
	}
	trying, stop := context.WithTimeout(ctx, restartTime)
	defer stop()
	until(trying, a.supervisor, func() bool {
		s, ok := statusOf(a.supervisor, server)
		return !ok || s.State != status.NeedsAuth || a.current.load().entry(server).PerUser // whose session is opened by the call
	}, nil)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// loginNotices notify legacy clients of the end of a login that they were asked for.
type loginNotices struct {
	life *signal.Life
	due  sync.Map // of loginNotice
}

// A loginNotice is a notification that a client is to get.
type loginNotice struct {
	home  Client
	login string // the ID of the Pending
}

// follow notifies the client when the login is over, once. home may be nil.
func (n *loginNotices) follow(home Client, pending *login.Pending) {
	if home == nil {
		return
	}
	notice := loginNotice{home, pending.ID}
	if _, followed := n.due.LoadOrStore(notice, nil); followed {
		return
	}
	n.life.Go(func() {
		<-pending.Over.Done()
		n.due.Delete(notice)
		home.Notify("metarouter", session.Message{Method: "notifications/elicitation/complete", Params: json.RawMessage(wire.Marshal(map[string]string{"elicitationId": pending.ID}))})
	})
}

// close takes no more logins, and waits until all are over.
func (n *loginNotices) close() {
	n.life.Close(nil)
	n.life.Wait()
}
