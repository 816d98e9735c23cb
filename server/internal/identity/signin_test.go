package identity

import (
	"context"
	"crypto/x509"
	"errors"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/rate"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeissuer"
)

// A signInTest is a router below /router of a proxy with TLS, and an issuer.
type signInTest struct {
	t       *testing.T
	issuer  *fakeissuer.Issuer
	who     *Identifier
	options allowed
	rules   atomic.Pointer[Rules]

	mu     sync.Mutex       // guards what follows
	proof  clientauth.Proof // of each token
	err    error            // for each token; nil for none
	judged []string         // the tokens that were judged
	from   string           // the network of the last one
	events []audit.Event
}

const publicOrigin = "https://tools.example"

func (s *signInTest) Token(ctx context.Context, token, resource string) (clientauth.Proof, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.judged, s.from = append(s.judged, token), clientauth.NetworkOf(ctx)
	if resource != publicOrigin+"/router/mcp" {
		return clientauth.Proof{}, &clientauth.Refusal{Status: 401, Reason: "the resource is " + resource}
	}
	return s.proof, s.err
}

func (s *signInTest) Certificate(*x509.Certificate) (string, bool) { return "", false }

// change changes what tokens prove.
func (s *signInTest) change(f func(*clientauth.Proof) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = f(&s.proof)
}

// allowed are the options of rules.
type allowed struct {
	Tokens    []clientauth.Principal
	Issuers   []clientauth.Issuer
	PublicURL string
}

// edit changes the rules that are in force.
func (s *signInTest) edit(f func(*allowed)) {
	s.options.Issuers = append([]clientauth.Issuer{}, s.options.Issuers...)
	f(&s.options)
	before := s.rules.Load()
	next := NewRules(s.options.Tokens, s.options.Issuers, s, s.options.PublicURL, before)
	if before != nil {
		s.who.Revoke(before, next, func(func(conversation.Identity) bool) {})
	}
	s.rules.Store(next)
}

// ServeHTTP serves the pages /, /router/ and /stream to administrators.
func (s *signInTest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rules := s.rules.Load()
	if below, ok := rules.Below(r.URL.Path); ok {
		r.URL.Path = below
	}
	c := &Sender{Rules: rules, Resource: "/mcp", Admin: !IsLogin(r.URL.Path), Browser: r.URL.Path != "/mcp"}
	s.who.Identify(r, c)
	r.Body = http.MaxBytesReader(w, r.Body, MaxForm)
	served, d := s.who.Browse(w, r, c, true)
	switch {
	case served && d == nil:
		return
	case d != nil:
	case !c.IsIn():
		d = c.Unknown(r)
	default:
		d = c.Forbidden()
	}
	if d != nil {
		d.Write(w.Header())
		s.who.Refused(r, c, d.Why)
		http.Error(w, d.Err.Error(), d.Status)
		return
	}
	ctx, stop := s.who.During(r, c, true)
	defer stop()
	if r.URL.Path == "/stream" {
		<-ctx.Done()
		return
	}
	io.WriteString(w, "the page of "+c.Principal.Name)
}

func newSignInTest(t *testing.T, o fakeissuer.Options) *signInTest {
	o.Clients = map[string]string{"router": "client-secret"}
	s := &signInTest{t: t, issuer: fakeissuer.New(t, o)}
	s.proof = clientauth.Proof{
		Principal: clientauth.Principal{Hash: strings.Repeat("a", 64), Name: "ann (" + s.issuer.URL + ")", Admin: true},
		Issuer:    s.issuer.URL, Scopes: []string{"mcp:admin"}, Expires: time.Now().Add(time.Hour),
	}
	s.options = allowed{
		Tokens: []clientauth.Principal{{}, {Hash: "x"}}, PublicURL: publicOrigin + "/router", // tokens: a mistake, and one of the role use
		Issuers: []clientauth.Issuer{{
			URL: s.issuer.URL, Read: []string{"mcp:read"}, Call: []string{"mcp:call"}, Admin: []string{"mcp:admin"},
			ClientID: "router", ClientSecret: "client-secret", Admins: []string{"groups=ops"},
		}},
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.who = New(ctx, Options{
		Port: "8787", Pages: true, Log: zap.NewNop(),
		Audit: func(e audit.Event) {
			s.who.login.sessions.get("") // requests do not wait for the log
			s.mu.Lock()
			defer s.mu.Unlock()
			s.events = append(s.events, e)
		},
	})
	s.edit(func(*allowed) {})
	t.Cleanup(func() {
		cancel()
		s.who.Close()
	})
	return s
}

// request returns a request of a browser; headers are pairs.
func (s *signInTest) request(method, path, body string, headers ...string) *http.Request {
	r := httptest.NewRequestWithContext(s.t.Context(), method, publicOrigin+path, strings.NewReader(body))
	r.TLS, r.RemoteAddr = nil, "192.0.2.7:1234"
	r.Header.Set("Accept", "text/html")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	if method == http.MethodPost && r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return r
}

// do sends a request and returns the answer with its text.
func (s *signInTest) do(method, path, body string, headers ...string) (*http.Response, string) {
	s.t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, s.request(method, path, body, headers...))
	return w.Result(), w.Body.String()
}

var refreshTo = regexp.MustCompile(`<meta http-equiv="refresh" content="0; url=([^"]*)">`)

// begin presses the button, and returns the issuer's page and the browser's cookie.
func (s *signInTest) begin() (at string, cookie []string) {
	s.t.Helper()
	r, text := s.do(http.MethodPost, "/login/with", "issuer="+url.QueryEscape(s.issuer.URL), "Origin", publicOrigin)
	next := refreshTo.FindStringSubmatch(text)
	if r.StatusCode != 200 || next == nil || len(r.Cookies()) != 1 {
		s.t.Fatalf("begin: %d %s", r.StatusCode, text)
	}
	c := r.Cookies()[0]
	if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode || c.MaxAge != 600 || c.Path != "/" {
		s.t.Errorf("the cookie of a login under way: %+v", c)
	}
	return html.UnescapeString(next[1]), []string{"Cookie", c.Name + "=" + c.Value}
}

// redirected logs in at the issuer, and returns the path and query to which it redirects.
func (s *signInTest) redirected(at string) string {
	s.t.Helper()
	back, err := fakeissuer.Redirected(s.t.Context(), at)
	expect.OK(s.t, err)
	path, ok := strings.CutPrefix(back, publicOrigin)
	if !ok || !strings.HasPrefix(path, "/router/login/callback?") {
		s.t.Fatalf("the issuer redirects to %s", back)
	}
	return path
}

// logIn logs a browser in, and returns its cookie.
func (s *signInTest) logIn() []string {
	s.t.Helper()
	at, cookie := s.begin()
	r, text := s.do(http.MethodGet, s.redirected(at), "", cookie...)
	return s.in(r, text)
}

// in returns the cookie of a browser that is logged in by the answer.
func (s *signInTest) in(r *http.Response, text string) []string {
	s.t.Helper()
	if next := refreshTo.FindStringSubmatch(text); r.StatusCode != 200 || next == nil || next[1] != "/router/" {
		s.t.Fatalf("not logged in: %d %s", r.StatusCode, text)
	}
	for _, c := range r.Cookies() {
		if c.MaxAge > 0 {
			if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || c.Path != "/" {
				s.t.Errorf("the cookie of a login: %+v", c)
			}
			return []string{"Cookie", c.Name + "=" + c.Value}
		}
	}
	s.t.Fatal("no cookie")
	return nil
}

// page asks for the page and returns the status.
func (s *signInTest) page(cookie []string) int {
	s.t.Helper()
	r, text := s.do(http.MethodGet, "/", "", cookie...)
	if r.StatusCode == 200 && text != "the page of "+s.proof.Principal.Name {
		s.t.Errorf("the page is %s", text)
	}
	return r.StatusCode
}

func (s *signInTest) taken() []audit.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.events
	s.events = nil
	return all
}

// A person logs in at the issuer, sees the page, and logs out.
func TestSignIn(t *testing.T) {
	s := newSignInTest(t, fakeissuer.Options{})
	r, text := s.do(http.MethodGet, "/router/", "")
	if r.StatusCode != 401 || !strings.Contains(text, "Log in with 127.0.0.1:") || !strings.Contains(text, `action="/router/login/with"`) ||
		strings.Contains(text, `type="password"`) || !strings.Contains(r.Header.Get("WWW-Authenticate"), "resource_metadata=") {
		t.Fatalf("the login page: %d %v %s", r.StatusCode, r.Header, text)
	}
	at, begun := s.begin()
	asked, err := url.Parse(at)
	expect.OK(t, err)
	q := asked.Query()
	if q.Get("resource") != publicOrigin+"/router/mcp" || q.Get("redirect_uri") != publicOrigin+"/router/login/callback" || q.Get("code_challenge_method") != "S256" ||
		q.Get("scope") != "mcp:admin mcp:call mcp:read" || q.Has("audience") || strings.Contains(at, strings.Split(begun[1], "=")[1]) {
		t.Errorf("the issuer is asked %v", q)
	}
	back := s.redirected(at)
	r, text = s.do(http.MethodGet, strings.TrimPrefix(back, "/router"), "", begun...) // the proxy strips the prefix
	cookie := s.in(r, text)
	if r.Header.Get("Referrer-Policy") != "no-referrer" || r.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("the page with the code: %v", r.Header)
	}
	for _, path := range []string{"/", "/router/"} {
		if r, text := s.do(http.MethodGet, path, "", cookie...); r.StatusCode != 200 || !strings.HasPrefix(text, "the page of ann (") {
			t.Errorf("%s: %d %s", path, r.StatusCode, text)
		}
	}
	if r, _ := s.do(http.MethodPost, "/mcp", `{"id":1,"method":"ping"}`, append(cookie, "Content-Type", "application/json")...); r.StatusCode != 401 {
		t.Errorf("the cookie opens /mcp: %d", r.StatusCode)
	}
	forged := []string{cookie[0], cookie[1][:len(cookie[1])-1] + "x"}
	expect.Equal(t, s.page(forged), 401, "a forged cookie")
	if r, _ := s.do(http.MethodPost, "/logout", "{}", append(cookie, "Content-Type", "application/json", "Sec-Fetch-Site", "cross-site")...); r.StatusCode != 403 {
		t.Errorf("another site logs out: %d", r.StatusCode)
	}
	stream := make(chan struct{})
	go func() {
		defer close(stream)
		s.ServeHTTP(httptest.NewRecorder(), s.request(http.MethodGet, "/stream", "", cookie...))
	}()
	if r, _ := s.do(http.MethodPost, "/logout", "{}", append(cookie, "Content-Type", "application/json")...); r.StatusCode != 204 {
		t.Errorf("logout: %d", r.StatusCode)
	}
	<-stream
	if status, n := s.page(cookie), s.issuer.Counts().Revocations; status != 401 || n != 2 || len(s.who.login.sessions.byID) != 0 {
		t.Errorf("after the logout: %d, %d tokens revoked, %d sessions", status, n, len(s.who.login.sessions.byID))
	}
	want := []audit.Event{
		{Action: audit.LogIn, Outcome: audit.OK, Principal: s.proof.Principal.Name, From: "192.0.2.7", Target: s.issuer.URL},
		{Action: audit.LogOut, Outcome: audit.OK, Principal: s.proof.Principal.Name, From: "192.0.2.7", Target: s.issuer.URL},
	}
	got := loginsIn(s.taken())
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("audited %+v", got)
	}
}

// loginsIn returns the events about logins.
func loginsIn(all []audit.Event) (some []audit.Event) {
	for _, e := range all {
		if e.Action == audit.LogIn || e.Action == audit.LogOut {
			some = append(some, e)
		}
	}
	return some
}

// With an audience, the issuer is asked for that.
func TestSignInWithAudience(t *testing.T) {
	s := newSignInTest(t, fakeissuer.Options{RefuseResource: true})
	s.edit(func(o *allowed) { o.Issuers[0].Audience = "api://router" })
	at, cookie := s.begin()
	if asked, err := url.Parse(at); err != nil || asked.Query().Has("resource") || asked.Query().Get("audience") != "api://router" {
		t.Errorf("asked %s", at)
	}
	r, text := s.do(http.MethodGet, s.redirected(at), "", cookie...)
	s.in(r, text)
}

// What is no answer to a login of this browser logs nobody in.
func TestSignInRefused(t *testing.T) {
	s := newSignInTest(t, fakeissuer.Options{})
	fresh := func() (back string, cookie []string) {
		s.who.login.begins = nil // as many as the test needs
		at, cookie := s.begin()
		return s.redirected(at), cookie
	}
	used, usedCookie := fresh()
	tried, triedCookie := fresh()
	with := func(set ...string) func(string, []string) (string, []string) {
		return func(path string, cookie []string) (string, []string) {
			path, query, _ := strings.Cut(path, "?")
			q, _ := url.ParseQuery(query)
			for i := 0; i < len(set); i += 2 {
				if q.Del(set[i]); set[i+1] != "" {
					q.Set(set[i], set[i+1])
				}
			}
			return path + "?" + q.Encode(), cookie
		}
	}
	and := func(more string) func(string, []string) (string, []string) {
		return func(path string, cookie []string) (string, []string) { return path + more, cookie }
	}
	at := func(path string, cookie []string) func(string, []string) (string, []string) {
		return func(string, []string) (string, []string) { return path, cookie }
	}
	refusal := &clientauth.Refusal{Status: 403, Reason: "no rule gives this user a profile", Scopes: []string{"mcp:call"}}
	const unknown = "has begun no such login"
	for _, tt := range []struct {
		name   string
		status int
		says   string
		change func(path string, cookie []string) (string, []string) // of what the browser sends; nil for nothing
		proof  func(*clientauth.Proof) error                         // what the token proves; nil is an administrator
	}{
		{"a forged state", 400, unknown, with("state", "x"), nil},
		{"no state", 400, unknown, with("state", ""), nil},
		{"a state twice", 400, "&#34;state&#34; 2 times", at(used+"&state=x", usedCookie), nil},
		{"a state that was used", 400, unknown, at(used, usedCookie), nil},
		{"no cookie", 400, unknown, at(tried, nil), nil},
		{"after another browser has tried", 400, unknown, at(tried, triedCookie), nil},
		{"the cookie of another browser", 400, unknown, func(path string, _ []string) (string, []string) { _, other := fresh(); return path, other }, nil},
		{"another issuer", 400, "another issuer", with("iss", "https://evil.example"), nil},
		{"no issuer", 400, "no iss", with("iss", ""), nil},
		{"an error", 400, "access_denied (&lt;b&gt;no&lt;/b&gt;)", with("code", "", "error", "access_denied", "error_description", "<b>no</b>"), nil},
		{"another code", 400, "invalid_grant", with("code", "code-x"), nil},
		{"no code", 400, "neither a code nor an error", with("code", ""), nil},
		{"a long query", 414, "too long", and("&x=" + strings.Repeat("x", maxCallback)), nil},
		{"a query that is none", 400, "be read", and("&%zz"), nil},
		{"no administrator", 403, "groups=ops", nil, func(p *clientauth.Proof) error { p.Principal.Admin = false; return nil }},
		{"no scope for it", 403, "mcp:admin", nil, func(p *clientauth.Proof) error { p.Principal.Admin, p.Scopes = false, []string{"mcp:call"}; return nil }},
		{"a token that lets no one in", 403, refusal.Reason + ". The issuer has to grant: mcp:call.", nil, func(*clientauth.Proof) error { return refusal }},
		{"an issuer without keys", 503, "be checked now", nil, func(*clientauth.Proof) error { return errors.New("no keys") }},
		{"a token of another issuer", 503, "be checked now", nil, func(p *clientauth.Proof) error { p.Issuer = "https://other.example"; return nil }},
	} {
		path, cookie := fresh()
		if tt.change != nil {
			path, cookie = tt.change(path, cookie)
		}
		good, before := s.proof, s.issuer.Counts().Revocations
		if tt.proof != nil {
			s.change(tt.proof)
		}
		s.refuses(tt.name, tt.status, tt.says, path, cookie)
		s.change(func(p *clientauth.Proof) error { *p = good; return nil })
		if n := s.issuer.Counts().Revocations - before; (n == 2) != (tt.proof != nil) {
			t.Errorf("%s: %d tokens revoked", tt.name, n)
		}
	}
	back, cookie := fresh()
	for _, method := range []string{http.MethodHead, http.MethodPost} {
		if r, _ := s.do(method, back, "", cookie...); r.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, r.StatusCode)
		}
	}
	s.issuer.Change(func(o *fakeissuer.Options) { o.Down = true })
	s.refuses("an issuer that is down", 400, "token endpoint", back, cookie)
}

// refuses checks that a callback is refused, which is recorded, and logs no browser in.
func (s *signInTest) refuses(name string, status int, says, path string, cookie []string) {
	s.t.Helper()
	s.taken()
	r, text := s.do(http.MethodGet, path, "", cookie...)
	if r.StatusCode != status || !strings.Contains(text, says) || !strings.Contains(text, `href="/router/">Log in again`) || refreshTo.MatchString(text) {
		s.t.Errorf("%s: %d %s", name, r.StatusCode, text)
	}
	for _, c := range r.Cookies() {
		if c.MaxAge > 0 {
			s.t.Errorf("%s: the cookie %v", name, c)
		}
	}
	if e := loginsIn(s.taken()); len(e) != 1 || e[0].Outcome == audit.OK || strings.Contains(e[0].Reason, "code-") {
		s.t.Errorf("%s: audited %+v", name, e)
	}
	expect.Equal(s.t, len(s.who.login.sessions.byID), 0, "%s: … sessions", name)
}

// A login begins at the public URL, by a click there.
func TestSignInBegins(t *testing.T) {
	s := newSignInTest(t, fakeissuer.Options{})
	issuer := "issuer=" + url.QueryEscape(s.issuer.URL)
	for name, tt := range map[string]struct {
		status int
		body   string
		header []string
	}{
		"no origin":         {403, issuer, nil},
		"another site":      {403, issuer, []string{"Origin", publicOrigin, "Sec-Fetch-Site", "cross-site"}},
		"a sibling":         {403, issuer, []string{"Origin", publicOrigin, "Sec-Fetch-Site", "same-site"}},
		"this machine":      {403, issuer, []string{"Origin", "http://localhost:8787"}},
		"without TLS":       {403, issuer, []string{"Origin", "http://tools.example"}},
		"no issuer":         {400, "", []string{"Origin", publicOrigin}},
		"another issuer":    {400, "issuer=https://evil.example", []string{"Origin", publicOrigin}},
		"a body that is no": {400, strings.Repeat("x", 2*MaxForm), []string{"Origin", publicOrigin}},
	} {
		if r, text := s.do(http.MethodPost, "/login/with", tt.body, tt.header...); r.StatusCode != tt.status || len(r.Cookies()) > 0 || !strings.Contains(text, "Log in with") {
			t.Errorf("%s: %d %s", name, r.StatusCode, text)
		}
	}
	if r, _ := s.do(http.MethodGet, "/login/with", ""); r.StatusCode != 401 {
		t.Errorf("GET: %d", r.StatusCode)
	}
	s.who.login.begins = rate.New(1./3600, beginsPerMinute) // else it may let one begin again
	for s.who.login.begins.Take("192.0.2.7", 1, 1) == 0 {
	}
	if r, text := s.do(http.MethodPost, "/login/with", issuer, "Origin", publicOrigin); r.StatusCode != 429 || r.Header.Get("Retry-After") == "" || !strings.Contains(text, "too many tries") {
		t.Errorf("too many: %d %v", r.StatusCode, r.Header)
	}
	s.who.login.begins = nil
	s.issuer.Change(func(o *fakeissuer.Options) { o.NoMetadata = true })
	if r, text := s.do(http.MethodPost, "/login/with", issuer, "Origin", publicOrigin); r.StatusCode != 502 || !strings.Contains(text, "The login can&#39;t begin") {
		t.Errorf("no metadata: %d %s", r.StatusCode, text)
	}
	s.edit(func(o *allowed) { o.Issuers[0].ClientID = "" })
	if r, text := s.do(http.MethodPost, "/login/with", issuer, "Origin", publicOrigin); r.StatusCode != 404 || strings.Contains(text, "Log in with") || !strings.Contains(text, `type="password"`) {
		t.Errorf("without a client: %d %s", r.StatusCode, text)
	}
	if r, _ := s.do(http.MethodGet, "/login/callback?code=1&state=2", ""); r.StatusCode != 401 {
		t.Errorf("the callback without a client: %d", r.StatusCode)
	}
}

// A login, and its streams, end with an edit that forbids it.
func TestSignInEnds(t *testing.T) {
	edits := func(f func(*allowed)) func(*signInTest) { return func(s *signInTest) { s.edit(f) } }
	for name, tt := range map[string]struct {
		change func(*signInTest)
		ends   bool
		events int
	}{
		"the issuer was edited":      {edits(func(o *allowed) { o.Issuers[0].Rules = "2" }), true, 1},
		"the issuer was removed":     {edits(func(o *allowed) { o.Issuers, o.Tokens = nil, []clientauth.Principal{{Hash: "x"}} }), true, 1},
		"there is a new publicUrl":   {edits(func(o *allowed) { o.PublicURL = "https://other.example/router" }), true, 1},
		"there is another publicUrl": {edits(func(o *allowed) { o.PublicURL += "/" }), false, 0},
		"another user's rights end":  {edits(func(o *allowed) { o.Tokens = o.Tokens[:1] }), false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSignInTest(t, fakeissuer.Options{})
			cookie := s.logIn()
			s.taken()
			var one *browserSession // the only one
			for _, one = range s.who.login.sessions.byID {
			}
			tt.change(s)
			ctx, stop := s.who.During(s.request(http.MethodGet, "/stream", ""), &Sender{Grant: one.grant, session: one}, true)
			defer stop()
			if tt.ends {
				<-ctx.Done()
			}
			expect.Equal(t, ctx.Err() != nil, tt.ends, "the stream has ended")
			expect.Equal(t, s.page(cookie), map[bool]int{true: 401, false: 200}[tt.ends], "the page")
			events := loginsIn(s.taken())
			expect.Equal(t, len(events), tt.events, "events")
			for _, e := range events {
				expect.Equal(t, e, audit.Event{Action: audit.LogOut, Outcome: audit.OK, Principal: one.grant.Name, From: one.from, Target: s.issuer.URL, Reason: errEdited.Error()}, "the event")
			}
		})
	}
}

// Only so many browsers are logged in. One more ends the oldest login, not another principal's, and those of an hour ago end anyway.
func TestSignInsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &New(t.Context(), Options{}).login.sessions
		g := &Grant{right: newRight(t.Context())}
		begin := func() *browserSession {
			time.Sleep(time.Millisecond)
			return l.begin(g, "", nil)
		}
		check := func(s *browserSession, in bool, what string) {
			t.Helper()
			if (l.get(s.id) == s) != in || (s.grant.Context.Err() == nil) != in {
				t.Errorf("%s: logged in %v", what, !in)
			}
		}
		another := l.begin(&Grant{Principal: clientauth.Principal{Hash: "another"}, right: newRight(t.Context())}, "", nil)
		first := begin()
		for range maxLogins - 2 {
			begin()
		}
		check(first, true, "the first")
		last := begin()
		check(first, false, "the first, with one more")
		check(another, true, "another principal's, which is older")
		expect.Equal(t, len(l.byID), maxLogins, "sessions")
		time.Sleep(loginLife - time.Second)
		check(last, true, "the last")
		time.Sleep(time.Second)
		synctest.Wait()
		check(last, false, "the last, after an hour")
		check(begin(), true, "one more")
		expect.Equal(t, len(l.byID), 1, "sessions")
		g.revoke(ErrRevoked)
		check(begin(), false, "without the right")
	})
}

// What a request is sent with proves its principal until the issuer refuses it, to several goroutines at once.
func TestSubject(t *testing.T) {
	s := newSignInTest(t, fakeissuer.Options{})
	r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	c := &Sender{Rules: s.rules.Load(), Resource: "/mcp"}
	expect.Equal(t, session.SubjectOf(c.WithSubject(t.Context()), "").Token, "", "without a token")
	r.Header.Set("Authorization", "Bearer the-token")
	s.who.Identify(r, c)
	expect.Equal(t, s.from, "192.0.2.1", "the network")
	ctx := c.WithSubject(t.Context())
	subject := session.SubjectOf(ctx, s.proof.Principal.Hash)
	expect.Equal(t, subject.Token+" "+subject.Issuer+" "+subject.ClientID+" "+subject.ClientSecret, "the-token "+s.issuer.URL+" router client-secret")
	expect.Equal(t, session.SubjectOf(ctx, "x").Token, "", "for another principal")
	proves := func(want bool) {
		t.Helper()
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { expect.Equal(t, subject.Proves(t.Context()), want) })
		}
		all.Wait()
	}
	proves(true)
	s.change(func(*clientauth.Proof) error { return errors.New("the issuer does not answer") })
	proves(true)
	s.change(func(p *clientauth.Proof) error { p.Principal.Hash = "another"; return nil })
	proves(false)
	s.change(func(*clientauth.Proof) error { return &clientauth.Refusal{Status: 401} })
	proves(false)
	s.change(func(p *clientauth.Proof) error { p.Principal.Hash = c.Principal.Hash; return nil })
	proves(true)
	asked := len(s.judged)
	s.edit(func(o *allowed) { o.Issuers[0].ClientSecret = "another" })
	proves(false)
	expect.Equal(t, len(s.judged), asked, "tokens that were judged, the last by the issuer as it was before an edit")
}
