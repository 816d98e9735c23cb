package login

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeissuer"
)

// The client of the settings is not shown to an issuer that the server names later.
func TestOtherIssuerOfClient(t *testing.T) {
	o := fakeissuer.Options{Clients: map[string]string{"us": "hunter2"}}
	f := newSetting(t, o, fakeissuer.Protection{})
	f.server.Settings.ClientID, f.server.Settings.ClientSecret = "us", "hunter2"
	first, second := f.issuer, fakeissuer.New(t, o)
	f.resource.Move(second)
	given := f.redirected(f.begin(Request{})) // nobody goes on: the client's secret is shown to nobody
	f.resource.Move(first)
	f.logins = f.router()
	f.logIn(Request{})

	f.resource.Move(second)
	for _, l := range []*Logins{f.logins, f.router()} {
		_, err := l.Begin(t.Context(), Request{Server: f.server})
		if err == nil {
			t.Fatal("the client is used at another issuer")
		}
		contains(t, err.Error(), "far", "the server now names", first.URL, second.URL, "oauth.clientId", "metarouter logout far", "oauth.authServerMetadataUrl")
	}
	expect.Equal(t, second.Counts().TokenRequests, 0, "requests to the other issuer; the login %s", given)
	f.logins = f.router()
	f.resource.Move(first)
	f.logIn(Request{})
	f.resource.Move(second)
	if was, err := f.logins.Logout(t.Context(), f.server); err != nil || !was {
		t.Fatal(was, err)
	}
	f.logIn(Request{})
	expect.Equal(t, second.Counts().TokenRequests, 1, "requests to the second issuer")
}

// A login that has begun before another one finished at another issuer shows the secret to nobody.
func TestOtherIssuerMeanwhile(t *testing.T) {
	o := fakeissuer.Options{Clients: map[string]string{"us": "hunter2"}}
	f := newSetting(t, o, fakeissuer.Protection{})
	f.server.Settings.ClientID, f.server.Settings.ClientSecret = "us", "hunter2"
	second := fakeissuer.New(t, o)
	f.resource.Move(second)
	late := f.begin(Request{})
	f.resource.Move(f.issuer)
	f.logins = f.router()
	f.logIn(Request{})
	f.browse(late.URL)
	err := late.Wait(t.Context())
	if err == nil || second.Counts().TokenRequests != 0 {
		t.Fatalf("the other issuer got %d requests; the login: %v", second.Counts().TokenRequests, err)
	}
	contains(t, err.Error(), "the server now names", f.issuer.URL, second.URL)
}

// The credentials of a client without a person are not shown to an issuer that the server names later.
func TestOtherIssuerOfMachine(t *testing.T) {
	o := fakeissuer.Options{Clients: map[string]string{"us": "hunter2"}}
	f := newSetting(t, o, fakeissuer.Protection{})
	f.server.Settings = oauth.Settings{ClientID: "us", ClientSecret: "hunter2", Grant: oauth.ClientCredentials}
	first, second := f.issuer, fakeissuer.New(t, o)
	f.mustWork(f.logins.Source(f.server))

	f.resource.Move(second)
	for range 2 {
		for _, l := range []*Logins{f.logins, f.router()} {
			status, err := f.request(l.Source(f.server))
			if err == nil {
				t.Fatalf("status %d, though the server names another issuer", status)
			}
			contains(t, err.Error(), "the server now names", first.URL, second.URL, "metarouter logout far", "oauth.authServerMetadataUrl")
		}
	}
	expect.Equal(t, second.Counts().TokenRequests, 0, "requests to the other issuer")
	named := f.server
	named.Settings.AuthServerMetadataURL = second.URL + "/.well-known/oauth-authorization-server"
	f.mustWork(f.logins.Source(named))

	fresh := f.router().Source(f.server)
	if _, err := f.request(fresh); err == nil {
		t.Fatal("a named issuer is one for all settings")
	}
	f.resource.Move(first)
	f.mustWork(fresh) // the server names the first one again
	f.resource.Move(second)
	if was, err := f.router().Logout(t.Context(), f.server); err != nil || !was {
		t.Fatal(was, err)
	}
	f.mustWork(f.router().Source(f.server))
}

func TestPinOf(t *testing.T) {
	pin := pinOf(oauth.Server{URL: "https://far.example/mcp", Settings: oauth.Settings{ClientID: "us", ClientSecret: "hunter2"}})
	for name, test := range map[string]struct {
		url      string
		settings oauth.Settings
		pinned   bool
	}{
		"no client":    {"https://far.example/mcp", oauth.Settings{}, false},
		"named issuer": {"https://far.example/mcp", oauth.Settings{ClientID: "us", AuthServerMetadataURL: "https://issuer.example"}, false},
		"key":          {"https://far.example/mcp", oauth.Settings{ClientID: "us", PrivateKey: "PEM"}, false},
		"client":       {"https://far.example/mcp", oauth.Settings{ClientID: "them", ClientSecret: "hunter2"}, true},
		"server":       {"https://far.example/other", oauth.Settings{ClientID: "us", ClientSecret: "hunter2"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := pinOf(oauth.Server{URL: test.url, Settings: test.settings}); (got != "") != test.pinned || got == pin {
				t.Errorf("%q beside %q, want one: %t", got, pin, test.pinned)
			}
		})
	}
}
