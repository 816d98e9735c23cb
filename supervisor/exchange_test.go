//go:build unix

package supervisor

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/resolve"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// An exchanger is an issuer that exchanges each token.
type exchanger struct {
	*httptest.Server

	mu      sync.Mutex // guards the fields below
	asked   []string   // forms, without the subjects, of which each has its own
	life    int        // of tokens, in seconds; 0 does not say
	refuses string     // the code of a refusal; "" grants
	names   string     // the issuer of its server; "" is itself
}

func newExchanger(t *testing.T) *exchanger {
	i := new(exchanger)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		i.mu.Lock()
		defer i.mu.Unlock()
		if r.Method == http.MethodGet {
			fmt.Fprintf(w, `{"issuer":%q,"token_endpoint":"%s/token","resource":"%s/mcp","authorization_servers":[%q]}`, i.URL, i.URL, i.URL, cmp.Or(i.names, i.URL))
			return
		}
		expect.OK(t, r.ParseForm())
		grant := r.PostForm.Get("assertion")
		if grant != "" {
			r.PostForm.Set("subject_token", strings.TrimPrefix(grant, "jag-"))
		}
		subject := r.PostForm.Get("subject_token")
		r.PostForm.Del("subject_token")
		id, secret, _ := r.BasicAuth()
		i.asked = append(i.asked, id+":"+secret+" "+r.PostForm.Encode())
		if i.refuses != "" && (i.refuses != "unauthorized_client" || r.PostForm.Has("assertion")) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":%q,"error_description":"not %s"}`, i.refuses, cmp.Or(grant, subject))
			return
		}
		answer := map[string]any{"access_token": fmt.Sprintf("%s-%d", subject, len(i.asked)), "token_type": "Bearer", "issued_token_type": "x", "expires_in": i.life}
		if kind := r.PostForm.Get("requested_token_type"); kind != "" && i.life == 0 {
			answer["access_token"], answer["token_type"], answer["issued_token_type"] = "jag-"+subject, "N_A", kind
		}
		expect.OK(t, json.NewEncoder(w).Encode(answer))
	}))
	t.Cleanup(i.Close)
	return i
}

// of returns an exchange of ann's token.
func (i *exchanger) of() *exchange {
	return newExchange(config.Exchange{Audience: "files", Scopes: []string{"a", "b"}}, session.Subject{Token: "ann", Issuer: i.URL, ClientID: "us", ClientSecret: "hunter2"})
}

func TestExchangeTokens(t *testing.T) {
	ctx := t.Context()
	i := newExchanger(t)
	e := i.of()
	token := func(want string) {
		t.Helper()
		got, err := e.Token(ctx)
		expect.OK(t, err)
		expect.Equal(t, got, want)
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { token("ann-1") })
	}
	all.Wait()
	expect.List(t, i.asked, []string{"us:hunter2 audience=files&grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&scope=a+b&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token"}, "requests")
	unauthorized, forbidden := &http.Response{StatusCode: http.StatusUnauthorized}, &http.Response{StatusCode: http.StatusForbidden}
	expect.OK(t, e.Refused(ctx, "ann-1", unauthorized))
	token("ann-2")
	expect.OK(t, e.Refused(ctx, "ann-1", unauthorized)) // of a request that was sent before
	token("ann-2")
	expect.Error(t, e.Refused(ctx, "ann-2", unauthorized), `an administrator must correct "exchange"`)
	expect.Error(t, e.Refused(ctx, "ann-2", forbidden), "does not permit it")
	token("ann-2")

	e, i.life = i.of(), 3600
	token("ann-3")
	e.token.Obtained, e.token.Expires = time.Now().Add(-time.Hour), time.Now().Add(exchangeSoon-time.Second)
	i.refuses = "server_error"
	token("ann-3") // is still valid
	i.refuses, e.failed = "", nil
	token("ann-5")
	e.token.Expires = time.Now().Add(-time.Second)
	i.refuses = "invalid_grant"
	_, err := e.Token(ctx)
	expect.Error(t, err, "in exchange for yours: it refuses with invalid_grant \"not …\"; log in to the issuer again")
	_, again := e.Token(ctx)
	expect.Equal(t, again, err, "an issuer that was just asked")
	no := func(context.Context) bool { return false }
	e.proves.Store(&no)
	e.failed, i.refuses = nil, ""
	_, err = e.Token(ctx)
	expect.Equal(t, err, errTokenOver, "an access token that is over")
	expect.Equal(t, len(i.asked), 6, "requests")
	shown := fmt.Sprintf("%v %+v %v", e.ask, &e.ask, session.Subject{Token: "ann"})
	expect.Equal(t, strings.Contains(shown, "ann") || strings.Contains(shown, "hunter2"), false, "secrets are in %s", shown)
}

// A token for an ID-JAG is the server's issuer's, for the client of the entry.
func TestExchangeForIDJAG(t *testing.T) {
	i := newExchanger(t)
	claims := func(text string) string { return "e." + base64.RawURLEncoding.EncodeToString([]byte(text)) + ".s" }
	of := func(subject string) *exchange {
		e := i.of()
		e.ask.Audience, e.ask.Subject, e.ask.Scopes = "", subject, nil
		e.ask.Server = func(context.Context) (oauth.Server, error) {
			return oauth.Server{URL: i.URL + "/mcp", Settings: oauth.Settings{ClientID: "there", ClientSecret: "hunter3"}}, nil
		}
		return e
	}
	at := url.QueryEscape(i.URL)
	for subject, kind := range map[string]string{claims(`{"sub":"ann"}`): "id_token", claims(`{"sub":"ann","scope":"a"}`): "access_token", claims(`{"client_id":"a"}`): "access_token", "opaque": "access_token"} {
		i.asked = nil
		got, err := of(subject).Token(t.Context())
		expect.OK(t, err)
		expect.Equal(t, got, subject+"-2")
		const urn = "urn%3Aietf%3Aparams%3Aoauth%3A"
		expect.List(t, i.asked, []string{
			"us:hunter2 audience=" + at + "&grant_type=" + urn + "grant-type%3Atoken-exchange&requested_token_type=" + urn + "token-type%3Aid-jag&resource=" + at + "%2Fmcp&subject_token_type=" + urn + "token-type%3A" + kind,
			"there:hunter3 assertion=jag-" + subject + "&grant_type=" + urn + "grant-type%3Ajwt-bearer",
		}, "requests")
	}
	for code, want := range map[string]string{"invalid_target": `an administrator must correct "exchange"`, "unauthorized_client": `redeem its ID-JAG at ` + i.URL + `: the issuer refuses: unauthorized_client (not …); an administrator must correct "oauth"`} {
		i.refuses = code
		_, err := of("ann").Token(t.Context())
		expect.Error(t, err, want)
	}
	i.refuses, i.life = "", 60
	_, err := of("ann").Token(t.Context())
	expect.Error(t, err, `it issues no ID-JAG, but a token of the type "x"`)
	e := of("ann")
	e.ask.Server = func(context.Context) (oauth.Server, error) { return oauth.Server{}, errors.New("no secret") }
	_, err = e.Token(t.Context())
	expect.Error(t, err, "no secret")
}

// The client of the entry is shown to the issuer that the server named first alone, and so are ID-JAGs.
func TestIDJAGIssuerIsPinned(t *testing.T) {
	i, stranger := newExchanger(t), newExchanger(t)
	logins := login.New(login.Options{Store: login.NewStore(t.TempDir())})
	defer logins.Close()
	o := &opener{common: &common{sources: sources(logins)}, secrets: resolve.New(nil, nil).Server(nil, nil)}
	entry := config.Server{Name: "s", URL: i.URL + "/mcp", OAuth: &config.OAuth{ClientID: "there", ClientSecret: "hunter3"}, Exchange: &config.Exchange{Type: "id-jag", Audience: i.URL}}
	token := func() error {
		ctx := session.WithSubject(t.Context(), session.Subject{Principal: "ann", Token: "ann", Issuer: i.URL, ClientID: "us", ClientSecret: "hunter2"})
		e, _, err := exchangeFor(ctx, o, entry, session.Caller{Principal: "ann"})
		expect.OK(t, err)
		_, err = e.Token(t.Context())
		return err
	}
	expect.OK(t, token())
	i.names = stranger.URL
	expect.Error(t, token(), "the server now names the issuer "+stranger.URL+" instead of "+i.URL)
	expect.Equal(t, len(stranger.asked), 0, "requests to the stranger")
	i.names = ""
	expect.OK(t, token())
}

func TestExchangeRefusals(t *testing.T) {
	i := newExchanger(t)
	for code, want := range map[string]string{
		"invalid_target":         `an administrator must correct "exchange" in the server's entry`,
		"invalid_scope":          `an administrator must correct "exchange" in the server's entry`,
		"access_denied":          `add the router's "clientId" to the audience`,
		"invalid_request":        "log in to the issuer again",
		"unsupported_grant_type": `permit this client token exchange there`,
		"invalid_client":         `or "clientId" and "clientSecret" of this issuer`,
	} {
		i.refuses = code
		_, err := i.of().Token(t.Context())
		expect.Error(t, err, want)
	}
	e := i.of()
	e.ask.ClientID = ""
	_, err := e.Token(t.Context())
	expect.Error(t, err, "the router has no client there")
	i.Close()
	_, err = i.of().Token(t.Context())
	expect.Error(t, err, "get a token from "+i.URL)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the client has left"))
	_, err = i.of().Token(ctx)
	expect.Error(t, err, "the client has left")
}

// with returns a context of ann's request with an access token.
func with(ctx context.Context, token string, proves func(context.Context) bool) context.Context {
	return session.WithSubject(ctx, session.Subject{Principal: "ann", Token: token, Issuer: "https://a.example", Proves: proves})
}

// The session of an access token ends with the token, also if it has subscriptions, and cuts no call.
func TestExchangeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := fake("s", "-tools", "echo,sleep", "-resources", "1")
		entry.Exchange, entry.IdleTimeout = new(config.Exchange), time.Hour
		f := supervise(t, entry)
		f.await("s", status.Ready)
		checks := 0
		ann := person{clientOf("a"), "ann", ""}
		open := func(token string) *instance {
			s, err := f.Session(with(t.Context(), token, func(context.Context) bool { checks++; return checks < 3 }), "s", ann)
			expect.OK(t, err)
			return s.(*instance)
		}
		in := open("one")
		expect.Equal(t, open("one"), in, "the session of the same token")
		_, err := in.Subscribe(t.Context(), "fake://text")
		expect.OK(t, err)
		expect.Equal(t, len(in.Subscriptions.Wanted()), 1, "subscriptions")
		_, err = in.Call(t.Context(), session.Request{Method: "tools/call", Params: json.RawMessage(`{"name":"sleep","arguments":{"ms":210000}}`), From: ann})
		expect.OK(t, err, "a call that the token does not outlive")
		<-in.done
		expect.Equal(t, checks, 4, "checks")
		expect.Equal(t, in.Cause(), errTokenOver)
		checks = 0
		if open("two") == open("three") {
			t.Error("two tokens have one session")
		}
		_, err = f.Session(with(t.Context(), "two", nil), "s", person{clientOf("b"), "bob", ""})
		expect.Error(t, err, "and you have none")
	})
}

// A session goes on with the proof of its latest request: those of requests before an edit of the issuer prove nothing any more.
func TestExchangeAfterEditOfIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := fake("s", "-tools", "echo")
		entry.Exchange = new(config.Exchange)
		f := supervise(t, entry)
		f.await("s", status.Ready)
		edited := false
		open := func(proven bool) *instance {
			s, err := f.Session(with(t.Context(), "one", func(context.Context) bool { return proven || !edited }), "s", person{clientOf("a"), "ann", ""})
			expect.OK(t, err)
			return s.(*instance)
		}
		in := open(false)
		edited = true
		expect.Equal(t, in.user.exchange.isProven(t.Context()), false, "the token is proven by the rules before the edit")
		expect.Equal(t, open(true), in, "the session")
		expect.Equal(t, in.user.exchange.isProven(t.Context()), true, "the token is proven")
	})
}

// A session that could not be opened is opened again after a rest, and at once for another token or after an edit.
func TestExchangeRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := fake("s", "-tools", "echo")
		entry.Exchange = new(config.Exchange)
		f := supervise(t, entry)
		f.await("s", status.Ready)
		entry.Command = "/not/there"
		f.apply(entry)
		f.await("s", status.Failed)
		p := f.servers.get("s").pool
		of := func(token string) *clientSession {
			_, err := f.Session(with(t.Context(), token, nil), "s", person{clientOf("a"), "ann", ""})
			expect.Error(t, err, "")
			p.mu.Lock()
			defer p.mu.Unlock()
			for of, c := range p.byUse {
				if _, key, _ := exchangeFor(with(t.Context(), token, nil), p.opener, entry, session.Caller{Principal: "ann"}); strings.HasSuffix(of.user, key) {
					return c
				}
			}
			return nil
		}
		first := of("one")
		if first == nil || of("one") != first || of("two") == first {
			t.Errorf("the failed session of one token is not kept for that token: %v", first)
		}
		<-time.After(exchangeRest)
		synctest.Wait()
		second := of("one")
		if second == nil || second == first {
			t.Error("it is not opened again after a rest")
		}
		p.renew(errEdited)
		if of("one") == second {
			t.Error("it is not opened again after an edit")
		}
	})
}

// An edit between the look at the entry and the begin of a user's session does not begin one by the entry as it was.
func TestEditBeforeUsersSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := fake("s", "-tools", "echo")
		entry.Exchange = new(config.Exchange)
		f := supervise(t, entry)
		f.await("s", status.Ready)
		edited := entry
		edited.Exchange = &config.Exchange{Audience: "new"}
		ann := editor{person{clientOf("a"), "ann", ""}, sync.OnceFunc(func() {
			before := f.servers.get("s").pool.now()
			f.apply(edited)
			<-before.Done()
		})}
		s, err := f.Session(with(t.Context(), "one", nil), "s", ann)
		expect.OK(t, err)
		expect.Equal(t, s.(*instance).entry().Exchange.Audience, "new")
	})
}

// An editor is a person who edits the entry when the router looks who it is.
type editor struct {
	person
	edit func()
}

func (e editor) Caller() session.Caller {
	e.edit()
	return e.person.Caller()
}
