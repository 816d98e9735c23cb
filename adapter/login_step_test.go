package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeissuer"
)

// A caller is a client of the router's server.
type caller struct {
	sink
	who          session.Caller
	modern       bool
	capabilities string // "" is for a client that shows URLs
	ask          func(ctx context.Context, params json.RawMessage) (action string, err error)
	told         chan string // IDs of logins that are over
}

func (c *caller) Caller() session.Caller { return c.who }
func (c *caller) Home() session.Client   { return c }
func (c *caller) Modern() bool           { return c.modern }
func (c *caller) Capabilities() json.RawMessage {
	if c.capabilities == "" {
		return json.RawMessage(`{"elicitation":{"url":{}}}`)
	}
	return json.RawMessage(c.capabilities)
}

func (c *caller) Ask(ctx context.Context, _ string, m session.Message) (json.RawMessage, error) {
	action, err := c.ask(ctx, m.Params)
	return wire.Marshal(map[string]string{"action": action}), err
}

func (c *caller) Notify(_ string, m session.Message) {
	if m.Method == "notifications/elicitation/complete" {
		c.told <- wire.Text(m.Params, "elicitationId")
	}
}

var local = session.Caller{MayLogIn: true}

// protected runs a router of one server, "s", which needs a login at the issuer.
func protected(t *testing.T, edit ...func(*config.Config)) (*Router, *fakeissuer.Issuer, *fakeissuer.Resource) {
	t.Helper()
	r, _, issuer, resource := editable(t, edit...)
	return r, issuer, resource
}

// editable is protected, and edits the configuration.
func editable(t *testing.T, edit ...func(*config.Config)) (*Router, chan<- config.Config, *fakeissuer.Issuer, *fakeissuer.Resource) {
	t.Helper()
	own := t.TempDir()
	t.Setenv("HOME", own)
	t.Setenv("XDG_CONFIG_HOME", own)
	t.Setenv("METAROUTER_KEYRING", "off")
	issuer := fakeissuer.New(t, fakeissuer.Options{})
	resource := issuer.Protect(t, fakeissuer.Protection{Flags: []string{"-tools", "echo,headers"}})
	c := config.Config{Servers: []config.Server{{Name: "s", Transport: config.StreamableHTTP, URL: resource.URL, StartTimeout: 30 * time.Second}}}
	for _, f := range edit {
		f(&c)
	}
	r, edits := runningWith(t, c, Options{})
	settled(t, r)
	return r, edits, issuer, resource
}

// unlisted is a tool of the server as a catalog of before knows it.
var unlisted = &registry.NormalizedTool{ID: registry.ID("s", "echo"), Server: "s", Name: "echo", InputSchema: json.RawMessage(`{"type":"object"}`), Definition: json.RawMessage(`{"name":"echo","inputSchema":{"type":"object"}}`)}

func echo(ctx context.Context, r *Router, from session.Client) (selector.Result, error) {
	return r.View.Execute(ctx, selector.Call{Tool: unlisted, Arguments: json.RawMessage(`{"message":"hi"}`), From: from})
}

// opening plays a person who opens the URL.
func opening(t *testing.T) func(context.Context, json.RawMessage) (string, error) {
	return func(_ context.Context, params json.RawMessage) (string, error) {
		go fakeissuer.Follow(t.Context(), wire.Text(params, "url"))
		return "accept", nil
	}
}

// Calls of several clients wait for one login, and each is sent once.
func TestCallsShareLogin(t *testing.T) {
	r, issuer, resource := protected(t)
	var once sync.Once
	follow := opening(t)
	ask := func(ctx context.Context, params json.RawMessage) (string, error) {
		once.Do(func() { follow(ctx, params) }) // one of the persons logs in
		return "accept", nil
	}
	const calls = 8
	before, _ := resource.Requests()
	var running sync.WaitGroup
	for range calls {
		running.Go(func() {
			result, err := echo(t.Context(), r, &caller{who: local, modern: true, ask: ask})
			if err != nil || result.IsError || !strings.Contains(result.Text(), `"hi"`) {
				t.Errorf("%v %s", err, result.JSON)
			}
		})
	}
	running.Wait()
	expect.Equal(t, issuer.Counts().Authorizations, 1, "logins")
	if after, _ := resource.Requests(); after-before > calls+10 { // the rest is the handshake and the lists
		t.Errorf("%d requests for %d calls", after-before, calls)
	}
}

// Who may not log in for all clients learns no URL, and begins nothing.
func TestOnlyAdminsLogIn(t *testing.T) {
	r, issuer, _ := protected(t)
	for _, modern := range []bool{false, true} {
		result, err := echo(t.Context(), r, &caller{who: session.Caller{Principal: "x", OverHTTP: true}, modern: modern})
		if err != nil || !result.IsError || !strings.Contains(result.Text(), "Ask the administrator") || strings.Contains(result.Text(), "http") {
			t.Errorf("%v %s", err, result.JSON)
		}
	}
	expect.Equal(t, issuer.Counts().Registrations, 0, "registrations")
	// A command, or a program that has embedded the router, begins its logins itself.
	result, err := echo(t.Context(), r, nil)
	if err != nil || !result.IsError || !strings.Contains(result.Text(), "metarouter login s") || !errors.Is(result.Err, ErrNotSent) {
		t.Errorf("%v %s", err, result.JSON)
	}
}

// A refusal of a person, or a client that can't ask, ends a call with a text.
func TestLoginNotMade(t *testing.T) {
	r, _, _ := protected(t)
	said := func(action string, err error) func(context.Context, json.RawMessage) (string, error) {
		return func(context.Context, json.RawMessage) (string, error) { return action, err }
	}
	for name, test := range map[string]struct {
		from *caller
		want string
	}{
		"decline":   {&caller{modern: true, ask: said("decline", nil)}, "did not agree"},
		"cancel":    {&caller{modern: true, ask: said("cancel", nil)}, "did not agree"},
		"fault":     {&caller{modern: true, ask: said("", errors.New("no signal"))}, "no signal"},
		"unable":    {&caller{modern: true, ask: said("", &session.Error{Code: -32601, Message: "no"})}, "/authorize?"},
		"no URLs":   {&caller{modern: true, capabilities: `{"elicitation":{}}`}, "/authorize?"},
		"old":       {&caller{capabilities: `{}`}, "metarouter login s"},
		"from afar": {&caller{who: session.Caller{Principal: "p", MayLogIn: true, OverHTTP: true}, capabilities: `{}`}, "/authorize?"},
	} {
		if test.from.who == (session.Caller{}) {
			test.from.who = local
		}
		result, err := echo(t.Context(), r, test.from)
		if err != nil || !result.IsError || !strings.Contains(result.Text(), test.want) || !errors.Is(result.Err, ErrNotSent) {
			t.Errorf("%s: %v %s", name, err, result.JSON)
		}
	}
}

// A legacy client is notified once when a login is over that it was asked for.
func TestLegacyClientIsNotified(t *testing.T) {
	r, _, _ := protected(t)
	from := &caller{who: local, told: make(chan string, 10)}
	var id, url string
	for range 3 {
		_, err := echo(t.Context(), r, from)
		e, ok := errors.AsType[*session.Error](err)
		if !ok || e.Code != codeURLNeeded {
			t.Fatal(err)
		}
		var data struct {
			Elicitations []struct{ Mode, ElicitationID, URL, Message string }
		}
		if json.Unmarshal(e.Data, &data) != nil || len(data.Elicitations) != 1 || data.Elicitations[0].Mode != "url" || data.Elicitations[0].Message == "" {
			t.Fatalf("%s", e.Data)
		}
		id, url = data.Elicitations[0].ElicitationID, data.Elicitations[0].URL
	}
	if _, _, err := fakeissuer.Follow(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if told := <-from.told; told != id || id == "" {
		t.Errorf("the login %q is over, not %q", told, id)
	}
	r.Close() // awaits the notices
	expect.Equal(t, len(from.told), 0, "notified again")
}

// A relayed request has a login as a call has.
func TestRelayLogsIn(t *testing.T) {
	r, _, _ := protected(t)
	scope := r.View
	request := func(from session.Client) error {
		_, err := scope.Relay(t.Context(), "s", session.Request{Method: "completion/complete", Params: json.RawMessage(`{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}`), From: from})
		return err
	}
	e, ok := errors.AsType[*session.Error](request(&caller{who: local, capabilities: `{}`}))
	if !ok || !strings.Contains(e.Message, "metarouter login s") || !strings.Contains(e.Message, "/authorize?") {
		t.Errorf("%v", e)
	}
	err := request(&caller{who: local, modern: true, ask: opening(t)})
	if needed := neededLogin(err); needed != nil {
		t.Errorf("after the login: %v", err)
	}
	if s, _ := statusOf(r.supervisor, "s"); s.State != status.Ready {
		t.Errorf("the server is %s", s.State)
	}
}

// A call that is cancelled while its person is asked ends at once.
func TestCancelledWhileLoggingIn(t *testing.T) {
	r, _, _ := protected(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("not wanted any more")
	_, err := echo(ctx, r, &caller{who: local, modern: true, ask: func(ctx context.Context, _ json.RawMessage) (string, error) {
		cancel(cause)
		<-ctx.Done()
		return "", context.Cause(ctx)
	}})
	expect.Equal(t, err, cause)
}

// A question is withdrawn when somebody else has logged in meanwhile.
func TestLoggedInElsewhere(t *testing.T) {
	r, _, _ := protected(t)
	result, err := echo(t.Context(), r, &caller{who: local, modern: true, ask: func(ctx context.Context, params json.RawMessage) (string, error) {
		if _, _, err := fakeissuer.Follow(t.Context(), wire.Text(params, "url")); err != nil {
			t.Error(err)
		}
		<-ctx.Done() // the person never answers
		return "", context.Cause(ctx)
	}})
	if err != nil || result.IsError {
		t.Errorf("%v %s", err, result.JSON)
	}
}

// While the issuer is not there, no login is possible either.
func TestNeededLogin(t *testing.T) {
	for why, want := range map[status.LoginReason]bool{status.NeverLoggedIn: true, status.ScopeMissing: true, status.TokenRejected: true, status.IssuerUnreachable: false, "": false} {
		expect.Equal(t, neededLogin(&status.UnavailableError{Server: "s", Login: why}) != nil, want, "%q", why)
	}
	missing := &login.NeededError{Server: "s", Why: status.ScopeMissing, Scopes: []string{"write"}}
	expect.Equal(t, neededLogin(errors.Join(&status.UnavailableError{Server: "s", Login: status.LoginExpired}, missing)), missing)
	if neededLogin(nil) != nil || neededLogin(errors.New("x")) != nil {
		t.Error("no login is needed")
	}
}
