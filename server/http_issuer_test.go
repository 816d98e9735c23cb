package server

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A fakeIssuer is an Authenticator that knows some tokens, and an identity provider.
type fakeIssuer struct {
	mu        sync.Mutex
	issuer    clientauth.Issuer
	proofs    map[string]clientauth.Proof
	errs      map[string]error
	resources []string // that were asked for
	certified string   // the hash that certificates stand for; "" for none
}

func newFakeIssuer() *fakeIssuer {
	f := &fakeIssuer{
		issuer: clientauth.Issuer{URL: "https://id.example.com", Read: []string{"tools.read"}, Call: []string{"tools.call"}, Admin: []string{"tools.admin"}},
		errs: map[string]error{
			"expired":     &clientauth.Refusal{Status: 401, Reason: `it has "expired"`},
			"nowhere":     &clientauth.Refusal{Status: 403, Reason: "no rule of profiles matches its user", Name: "cid (https://id.example.com)"},
			"no-scope":    &clientauth.Refusal{Status: 403, Scopes: []string{"openid", "tools.read"}, Reason: "it has none of the scopes"},
			"unavailable": errors.New("dial tcp: the secret"),
		},
	}
	f.proofs = map[string]clientauth.Proof{
		"ann":   f.proof("ann", clientauth.Principal{}, "openid", "tools.read", "tools.call"),
		"ann2":  f.proof("ann", clientauth.Principal{}, "openid", "tools.read", "tools.call"),
		"bob":   f.proof("bob", clientauth.Principal{Profile: "work"}, "tools.call"),
		"rita":  f.proof("rita", clientauth.Principal{Reads: true}, "openid", "tools.read"),
		"admin": f.proof("admin", clientauth.Principal{Admin: true}, "tools.admin"),
		"fake":  f.proof("fake", clientauth.Principal{}, "tools.call", "tools.admin"),
	}
	return f
}

// proof returns what a token of the user proves.
func (f *fakeIssuer) proof(user string, who clientauth.Principal, scopes ...string) clientauth.Proof {
	who.Hash, who.Name = strings.Repeat("0", 63-len(user))+"-"+user, user+" (https://id.example.com)"
	return clientauth.Proof{Principal: who, Issuer: f.issuer.URL, Scopes: scopes, MayAdminister: slices.Contains(scopes, "tools.admin"), Expires: time.Now().Add(time.Hour)}
}

func (f *fakeIssuer) Token(_ context.Context, token, resource string) (clientauth.Proof, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resources = append(f.resources, resource)
	if p, ok := f.proofs[token]; ok {
		return p, nil
	}
	if err := f.errs[token]; err != nil {
		return clientauth.Proof{}, err
	}
	return clientauth.Proof{}, &clientauth.Refusal{Status: 401, Reason: "no key has signed it"}
}

func (f *fakeIssuer) Certificate(*x509.Certificate) (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.certified, f.certified != ""
}

// judge replaces what a token proves.
func (f *fakeIssuer) judge(token string, p clientauth.Proof, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.proofs, token)
	if f.errs[token] = err; err == nil {
		f.proofs[token] = p
	}
}

// asked returns the resources that were asked for, and forgets them.
func (f *fakeIssuer) asked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.resources
	f.resources = nil
	return all
}

const publicURL = "https://tools.example.com/router"

// options returns the options of a router that the issuer lets clients in to.
func (f *fakeIssuer) options() HTTPOptions {
	return HTTPOptions{PublicURL: publicURL, Issuers: []clientauth.Issuer{f.issuer}, Authenticator: f}
}

// serveIssued serves a router with the tools a__read and a__write, and the profile work.
func serveIssued(t *testing.T, o HTTPOptions) *web {
	return serveIssuedWith(t, o, func(Router) Options { return Options{Mode: exposure.Direct} })
}

// serveIssuedWith is serveIssued with options for each set of profiles.
func serveIssuedWith(t *testing.T, o HTTPOptions, options func(Router) Options) *web {
	read, write := tool("a", "read"), tool("a", "write")
	profiles := Profiles{
		Open: func(_ View, chosen []string) (Router, Options) {
			offered := []registry.NormalizedTool{read, write}
			if slices.Contains(chosen, "@read") {
				offered = offered[:1]
			}
			r := newFake(offered...)
			r.servers = append(r.servers, info("a", status.Ready, len(offered)))
			return r, options(r)
		},
		Exists:   func(name string) bool { return name == "work" || name == "@read" },
		ReadOnly: "@read", Whole: newFake(read, write),
	}
	s := NewServers(profiles)
	return serveHandler(t, s.Handler(o), s.Run)
}

func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

// Each way to be let in or refused, with what a client learns from it.
func TestIssuersLetIn(t *testing.T) {
	const metadata = `resource_metadata="https://tools.example.com/router/.well-known/oauth-protected-resource/mcp`
	const asks = `, scope="tools.read tools.call"`
	f := newFakeIssuer()
	o := f.options()
	o.Tokens = tokens("fixed")
	w := serveIssued(t, o)
	for _, tt := range []struct {
		name, path string
		header     []string
		status     int
		challenge  string
		resource   string // that the issuer was asked for; "" if it was not
	}{
		{"no token", "/mcp", nil, 401, `Bearer ` + metadata + `"` + asks, ""},
		{"no token, a profile", "/mcp/p/work", nil, 401, `Bearer ` + metadata + `/p/work"` + asks, ""},
		{"no token, no such profile", "/mcp/p/none", nil, 401, `Bearer ` + metadata + `/p/none"` + asks, ""},
		{"no token, no name of a profile", "/mcp/p/A B", nil, 401, `Bearer ` + metadata + `"` + asks, ""},
		{"no token, REST", "/mcp/p/work/tools/list", nil, 401, `Bearer ` + metadata + `/p/work"` + asks, ""},
		{"another scheme", "/mcp", []string{"Authorization", "Basic ann"}, 401, `Bearer ` + metadata + `"` + asks, ""},
		{"a fixed token", "/mcp", bearer("fixed"), 200, "", ""},
		{"a token", "/mcp", bearer("ann"), 200, "", publicURL + "/mcp"},
		{"a token, lower case", "/mcp", []string{"Authorization", "bearer ann"}, 200, "", publicURL + "/mcp"},
		{"a token for a profile", "/mcp/p/work", bearer("ann"), 200, "", publicURL + "/mcp/p/work"},
		{"a token, REST", "/mcp/p/work/ping", bearer("ann"), 200, "", publicURL + "/mcp/p/work"},
		{"a token, no such profile", "/mcp/p/none", bearer("ann"), 404, "", publicURL + "/mcp/p/none"},
		{"a token of a profile", "/mcp", bearer("bob"), 200, "", publicURL + "/mcp"},
		{"below the prefix", "/router/mcp", bearer("ann"), 200, "", publicURL + "/mcp"},
		{"not below it", "/routers/mcp", bearer("ann"), 404, "", publicURL + "/mcp"},
		{"mesh", "/v1/mesh_scan", bearer("ann"), 405, "", publicURL + "/mcp"},
		{"bad", "/mcp", bearer("x"), 401, `Bearer error="invalid_token", error_description="no key has signed it", ` + metadata + `"` + asks, publicURL + "/mcp"},
		{"expired", "/mcp", bearer("expired"), 401, `Bearer error="invalid_token", error_description="it has 'expired'", ` + metadata + `"` + asks, publicURL + "/mcp"},
		{"no profile", "/mcp", bearer("nowhere"), 403, ``, publicURL + "/mcp"},
		{"no scope", "/mcp", bearer("no-scope"), 403, `Bearer error="insufficient_scope", error_description="it has none of the scopes", ` + metadata + `", scope="openid tools.read"`, publicURL + "/mcp"},
		{"issuer down", "/mcp", bearer("unavailable"), 503, ``, publicURL + "/mcp"},
		{"nothing there, no token", "/.well-known/openid-configuration", nil, 404, ``, ""},
		{"else, no token", "/nothing", nil, 401, `Bearer ` + metadata + `"` + asks, ""},
	} {
		response := w.do(http.MethodPost, tt.path, `{"id":1,"method":"ping"}`, append(slices.Clone(tt.header), "Host", "tools.example.com")...)
		response.Body.Close()
		if got := response.Header.Get("WWW-Authenticate"); response.StatusCode != tt.status || got != tt.challenge {
			t.Errorf("%s: %d %s\nwant %d %s", tt.name, response.StatusCode, got, tt.status, tt.challenge)
		}
		expect.Equal(t, tt.status == 503, response.Header.Get("Retry-After") != "", "%s: Retry-After is %q", tt.name, response.Header.Get("Retry-After"))
		if asked := f.asked(); strings.Join(asked, " ") != tt.resource {
			t.Errorf("%s: the issuer was asked for %q, want %q", tt.name, asked, tt.resource)
		}
	}
	if _, answer := w.text(http.MethodPost, "/mcp", "{}", bearer("unavailable")...); strings.Contains(answer, "secret") {
		t.Errorf("an internal error is shown: %s", answer)
	}
}

// With an issuer, also one that stands for a mistake, requests need a token.
func TestIssuersAreNeverPublic(t *testing.T) {
	f := newFakeIssuer()
	for name, o := range map[string]HTTPOptions{
		"an issuer":           f.options(),
		"a mistake":           {Issuers: []clientauth.Issuer{{}}},
		"a mistake, public":   {PublicURL: publicURL, Issuers: []clientauth.Issuer{{}}, Authenticator: f},
		"no public URL":       {Issuers: []clientauth.Issuer{f.issuer}, Authenticator: f},
		"no authenticator":    {PublicURL: publicURL, Issuers: []clientauth.Issuer{f.issuer}},
		"another issuer":      {PublicURL: publicURL, Issuers: []clientauth.Issuer{{URL: "https://other.example.com"}}, Authenticator: f},
		"a mistake and fixed": {PublicURL: publicURL, Issuers: []clientauth.Issuer{{}}, Authenticator: f, Tokens: tokens("fixed")},
	} {
		w := serveIssued(t, o)
		if status, answer := w.text(http.MethodPost, "/mcp", `{"id":1,"method":"ping"}`); status != 401 {
			t.Errorf("%s: %d %s", name, status, answer)
		}
		if _, answer := w.text(http.MethodGet, "/health", ""); strings.Contains(answer, "tools") {
			t.Errorf("%s: health says %s", name, answer)
		}
		status, answer := w.text(http.MethodPost, "/mcp", `{"id":1,"method":"ping"}`, bearer("ann")...)
		expect.Equal(t, status == 200, name == "an issuer", "%s, with a token: %d %s", name, status, answer)
	}
}

// Clients find the issuer from nothing but the URL, and learn no profiles by that.
func TestProtectedResourceMetadata(t *testing.T) {
	f := newFakeIssuer()
	other := clientauth.Issuer{URL: "https://other.example.com", Read: []string{"tools.read", "r"}, Call: []string{"c"}, Admin: []string{"a"}}
	o := f.options()
	o.Issuers = append(o.Issuers, clientauth.Issuer{}, other)
	w := serveIssued(t, o)
	const path = "/.well-known/oauth-protected-resource"
	for at, resource := range map[string]string{
		path: "/mcp", path + "/mcp": "/mcp", path + "/mcp/p/work": "/mcp/p/work", path + "/mcp/p/none": "/mcp/p/none",
		"/router" + path: "/mcp", "/router" + path + "/mcp/p/x": "/mcp/p/x", path + "/router/mcp/p/x": "/mcp/p/x", path + "/router": "/mcp",
		path + "/mcp/": "/mcp", path + "/mcp/p/A": "", path + "/mcp/p": "", path + "/mcp/p/": "", path + "/mcp/p/x/y": "", path + "/mcp/x": "", path + "/x": "", path + "x": "",
		path + "/mcp/p/" + strings.Repeat("x", 33): "", "/router/router" + path: "-",
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			response := w.do(method, at, "", "Origin", "https://inspector.example", "Host", "tools.example.com")
			var said any
			json.NewDecoder(response.Body).Decode(&said)
			response.Body.Close()
			if resource == "" || resource == "-" {
				if want := map[string]int{"": 404, "-": 403}[resource]; response.StatusCode != want && !(resource == "" && at == path+"x") {
					t.Errorf("%s: %d %v", at, response.StatusCode, said)
				}
				continue
			}
			want := map[string]any{
				"resource": publicURL + resource, "authorization_servers": []any{f.issuer.URL, other.URL}, "scopes_supported": []any{"tools.read", "tools.call", "r", "c"},
				"bearer_methods_supported": []any{"header"}, "resource_name": "metarouter",
			}
			if method == http.MethodHead {
				said = any(want)
			}
			if response.StatusCode != 200 || !reflect.DeepEqual(said, any(want)) || response.Header.Get("Access-Control-Allow-Origin") != "*" || response.Header.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%s %s: %d %v %v", method, at, response.StatusCode, response.Header, said)
			}
		}
	}
	if status, _ := w.text(http.MethodPost, path, "{}"); status != 405 {
		t.Errorf("POST: %d", status)
	}
	if status, _ := w.text(http.MethodGet, path, "", "Host", "evil.example"); status != 403 {
		t.Errorf("another host: %d", status)
	}
	response := w.do(http.MethodOptions, path+"/mcp", "", "Origin", "https://inspector.example", "Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "mcp-protocol-version")
	response.Body.Close()
	if response.StatusCode != 204 || response.Header.Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(response.Header.Get("Access-Control-Allow-Headers"), "Mcp-Protocol-Version") {
		t.Errorf("preflight: %d %v", response.StatusCode, response.Header)
	}
	bare := serveIssued(t, HTTPOptions{PublicURL: publicURL, Tokens: tokens("fixed")})
	for _, header := range [][]string{nil, bearer("fixed")} {
		if status, _ := bare.text(http.MethodGet, path, "", header...); status != 404 {
			t.Errorf("without issuers: %d", status)
		}
	}
	response = bare.do(http.MethodPost, "/mcp", "{}", bearer("ann")...)
	response.Body.Close()
	if response.StatusCode != 401 || response.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("without issuers: %d %v", response.StatusCode, response.Header)
	}
}

// One address reads metadata 60 times a minute.
func TestMetadataRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serveIssued(t, newFakeIssuer().options())
		for range 60 {
			if status, answer := w.text(http.MethodGet, "/.well-known/oauth-protected-resource", ""); status != 200 {
				t.Fatal(status, answer)
			}
		}
		response := w.do(http.MethodGet, "/.well-known/oauth-protected-resource/mcp", "")
		response.Body.Close()
		if response.StatusCode != 429 || response.Header.Get("Retry-After") != "1" || response.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%d %v", response.StatusCode, response.Header)
		}
		time.Sleep(time.Second)
		if status, _ := w.text(http.MethodGet, "/.well-known/oauth-protected-resource", ""); status != 200 {
			t.Errorf("after the wait: %d", status)
		}
	})
}
