package login

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeissuer"
)

func TestConcurrent(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{}, fakeissuer.Protection{})
	all := make([]*Pending, 40)
	var begins sync.WaitGroup
	for i := range all {
		begins.Go(func() {
			var err error
			if all[i], err = f.logins.Begin(t.Context(), Request{Server: f.server}); err != nil {
				t.Error(err)
			}
		})
	}
	begins.Wait()
	for _, p := range all {
		if p != all[0] {
			t.Fatal("there are several logins")
		}
	}
	expect.Equal(t, f.issuer.Counts().Registrations, 1, "registrations")
	if other := f.begin(Request{By: "ann"}); other == all[0] {
		t.Error("two principals share a login")
	}
}

// A caller that gives up does not end the login of those that wait for the same one.
// TestJoinsWhatEnds begins a login just when the same one is done.
func TestJoinsWhatEnds(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{}, fakeissuer.Protection{})
	p := f.logIn(Request{})
	f.logins.pending[p.key] = p
	for range 50 { // which a select would pass by chance
		expect.Equal(t, f.begin(Request{}), p, "the login")
	}
}

func TestFirstGivesUp(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{}, fakeissuer.Protection{})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.logins.Begin(gone, Request{Server: f.server}); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	f.logIn(Request{})
}

func TestMoreScopes(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{}, fakeissuer.Protection{Scopes: []string{"read"}})
	f.logIn(Request{})
	first := f.begin(Request{Scopes: []string{"write"}})
	expect.Equal(t, f.begin(Request{}), first, "fewer scopes begin another login")
	second := f.begin(Request{Scopes: []string{"delete"}})
	if err := first.Wait(t.Context()); !errors.Is(err, errReplaced) {
		t.Errorf("the first login: %v", err)
	}
	f.browse(second.URL)
	expect.OK(t, second.Wait(t.Context()))
	f.logIn(Request{Scopes: []string{"admin"}}) // besides those that are granted
	state, err := f.logins.State(t.Context(), f.server)
	slices.Sort(state.Scopes)
	if err != nil || !slices.Equal(state.Scopes, []string{"admin", "delete", "read", "write"}) {
		t.Errorf("%+v, %v", state, err)
	}
}

// Scopes of the settings are the most that is asked for.
func TestFixedScopes(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{}, fakeissuer.Protection{Scopes: []string{"read", "delete"}})
	f.server.Settings.Scopes = []string{"read", "write"}
	_, err := f.logins.Begin(t.Context(), Request{Server: f.server, Scopes: []string{"delete"}})
	expect.Error(t, err, "oauth.scopes")
	u, _ := url.Parse(f.begin(Request{Scopes: []string{"write"}}).URL)
	expect.Equal(t, u.Query().Get("scope"), "read write", "scope")
}

// Another issuer knows nothing of the registration at the first one.
func TestOtherIssuer(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{}, fakeissuer.Protection{})
	f.logIn(Request{})
	second := fakeissuer.New(t, fakeissuer.Options{})
	f.resource.Move(second)
	f.logIn(Request{})
	if first, other := f.issuer.Counts().Registrations, second.Counts().Registrations; first != 1 || other != 1 {
		t.Errorf("%d and %d registrations", first, other)
	}
	if state, err := f.logins.State(t.Context(), f.server); err != nil || state.Issuer != second.URL {
		t.Errorf("%+v, %v", state, err)
	}
}

// A person who consented to a login at one server is asked again for another one, though both name
// the same issuer: each has a client of its own.
func TestOtherServerOfIssuer(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{}, fakeissuer.Protection{})
	clientOf := func() string {
		u, err := url.Parse(f.logIn(Request{}).URL)
		expect.OK(t, err)
		return u.Query().Get("client_id")
	}
	first := clientOf()
	expect.Equal(t, clientOf(), first, "the second login at a server registers again")
	home := f.server
	f.server.URL = f.issuer.Protect(t, fakeissuer.Protection{}).URL
	if other := clientOf(); other == first {
		t.Error("two servers share a client")
	}
	if f.server = home; clientOf() != first {
		t.Error("the login at another server replaces the client of the first one")
	}
}

func TestPorts(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{StrictRedirect: true}, fakeissuer.Protection{})
	p := f.logIn(Request{})
	port := p.listener.port
	other, err := listen(f.logins.life, port, nil)
	expect.OK(t, err)
	again := f.logIn(Request{})
	if n := f.issuer.Counts().Registrations; again.listener.port == port || n != 2 {
		t.Errorf("port %d, %d registrations", again.listener.port, n)
	}

	f.server.Settings.CallbackPort = port
	_, err = f.logins.Begin(t.Context(), Request{Server: f.server})
	if err == nil {
		t.Fatal("a port in use is used")
	}
	contains(t, err.Error(), strconv.Itoa(port), "oauth.callbackPort", "end the program", "another port")
	other.close(f.logins.life)
	f.server.Settings.CallbackURL = "https://dev.example.com/back/here"
	fixed := f.begin(Request{})
	back := f.redirected(fixed)
	if back.Host != "dev.example.com" {
		t.Fatalf("it comes back to %s", back)
	}
	here := *back
	here.Scheme, here.Host = "http", "localhost:"+strconv.Itoa(port)
	if _, page := f.get(&here, nil); !strings.Contains(page, "You are logged in") {
		t.Error(page)
	}
}

func TestNoResource(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{RefuseResource: true}, fakeissuer.Protection{AnyToken: true})
	f.server.Settings.NoResource = true
	f.logIn(Request{})
	f.server.Settings = oauth.Settings{Resource: "api://other"}
	u, _ := url.Parse(f.begin(Request{}).URL)
	expect.Equal(t, u.Query().Get("resource"), "api://other", "resource")
}

func TestLimits(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{}, fakeissuer.Protection{})
	for i := range perMinute {
		f.begin(Request{By: strconv.Itoa(i)})
	}
	_, err := f.logins.Begin(t.Context(), Request{Server: f.server})
	expect.Error(t, err, "last minute")
	f.server.Name = "other"
	f.begin(Request{})

	// As many others as may wait.
	f.logins.mu.Lock()
	for i := range maxPending - perMinute - 1 {
		f.logins.pending["other "+strconv.Itoa(i)] = &Pending{}
	}
	f.logins.mu.Unlock()
	_, err = f.logins.Begin(t.Context(), Request{Server: f.server, By: "ann"})
	expect.Error(t, err, "200 logins wait")
}

func TestBeginErrors(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{NoRegistration: true}, fakeissuer.Protection{})
	_, err := f.logins.Begin(t.Context(), Request{Server: f.server})
	if err == nil {
		t.Fatal("a login begins without a client")
	}
	contains(t, err.Error(), "far", f.issuer.URL, "clientId")
	f.logins.mu.Lock()
	expect.Equal(t, len(f.logins.pending), 0, "a failed login is left: %v", f.logins.pending)
	f.logins.mu.Unlock()
	f.server.Settings.Grant = oauth.ClientCredentials
	_, err = f.logins.Begin(t.Context(), Request{Server: f.server})
	expect.Error(t, err, "no login of a person")
}

// How a server answers requests without a token, and whether a login begins there. ISSUER stands
// for the issuer.
func TestProbe(t *testing.T) {
	about := `{"resource": "SERVER/mcp", "authorization_servers": ["ISSUER"]}`
	for name, test := range map[string]struct {
		answer   int // to a POST and a GET; 0 closes the connection
		metadata string
		says     string // the error; "" for none
	}{
		"refuses":          {answer: 401, metadata: about},
		"redirects":        {answer: 307, metadata: about},
		"answers":          {answer: 200, metadata: about},
		"silent":           {answer: 0, metadata: about},
		"needs no login":   {answer: 200, says: "needs no login"},
		"describes nobody": {answer: 401, says: "far: "},
		"down":             {answer: 0, says: "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newSetting(t, fakeissuer.Options{}, fakeissuer.Protection{})
			var own string
			mux := http.NewServeMux()
			mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
				if test.answer == 0 {
					panic(http.ErrAbortHandler)
				}
				if w.Header().Set("Location", own+"/mcp"); test.answer != http.StatusTemporaryRedirect {
					w.Header().Del("Location")
				}
				w.WriteHeader(test.answer)
			})
			if test.metadata != "" {
				mux.HandleFunc("/.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(w, strings.NewReplacer("SERVER", own, "ISSUER", f.issuer.URL).Replace(test.metadata))
				})
			}
			server := httptest.NewServer(mux)
			defer server.Close()
			own = server.URL
			f.server.URL = own + "/mcp"
			_, err := f.logins.Begin(t.Context(), Request{Server: f.server})
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v", err)
			}
		})
	}
}
