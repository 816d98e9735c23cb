package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A site is an HTTP server whose documents a test sets before it is asked.
type site struct {
	*httptest.Server
	docs map[string]any // by path: what is sent as JSON, or an http.HandlerFunc

	mu    sync.Mutex
	asked []string // guarded by mu: paths with their queries
}

func newSite(t *testing.T) *site {
	s := &site{docs: map[string]any{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.URL.RequestURI())
	s.mu.Unlock()
	switch doc := s.docs[r.URL.Path].(type) {
	case nil:
		http.NotFound(w, r)
	case http.HandlerFunc:
		doc(w, r)
	default:
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(doc)
	}
}

func (s *site) paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

type object = map[string]any

// issuerDoc describes an issuer whose endpoints are below it. changes replaces members, or leaves
// out those that are nil.
func issuerDoc(id string, changes object) object {
	doc := object{
		"issuer":                           id,
		"authorization_endpoint":           id + "/authorize",
		"token_endpoint":                   id + "/token",
		"registration_endpoint":            id + "/register",
		"device_authorization_endpoint":    id + "/device",
		"revocation_endpoint":              id + "/revoke",
		"code_challenge_methods_supported": []string{"S256"},
	}
	for name, value := range changes {
		if doc[name] = value; value == nil {
			delete(doc, name)
		}
	}
	return doc
}

func answer(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

const (
	pathResource = "/.well-known/oauth-protected-resource/mcp"
	rootResource = "/.well-known/oauth-protected-resource"
	rfc8414      = "/.well-known/oauth-authorization-server"
	openID       = "/.well-known/openid-configuration"
)

// discover runs Discover for the server at mcp's /mcp.
func discover(t *testing.T, mcp *site, settings Settings, c Challenge) (*Found, error) {
	t.Helper()
	s := Server{Name: "test", URL: mcp.URL + "/mcp", Settings: settings}
	return Discover(t.Context(), NewHTTPClient(s), s, c)
}

func TestDiscover(t *testing.T) {
	tests := []struct {
		name     string
		settings Settings
		set      func(mcp, issuer *site) Challenge
		resource string // below the server's origin
		issuer   string // below the issuer's origin
		scopes   []string
		asked    []string // of the server, after "issuer:" of the issuer
	}{
		{name: "challenge, RFC 8414", set: func(mcp, issuer *site) Challenge { // metadata-default
			mcp.docs[pathResource] = object{"resource": mcp.URL + "/mcp", "authorization_servers": []string{issuer.URL}, "scopes_supported": []string{"a", "b", "a", "not\ta"}}
			issuer.docs[rfc8414] = issuerDoc(issuer.URL, nil)
			return Challenge{MetadataURL: mcp.URL + pathResource}
		}, resource: "/mcp", scopes: []string{"a", "b"}, asked: []string{pathResource, "issuer:", rfc8414}},
		{name: "well-known path, OpenID", set: func(mcp, issuer *site) Challenge { // metadata-var1
			mcp.docs[pathResource] = object{"resource": mcp.URL + "/mcp", "authorization_servers": []string{issuer.URL}}
			issuer.docs[openID] = issuerDoc(issuer.URL, nil)
			return Challenge{}
		}, resource: "/mcp", asked: []string{pathResource, "issuer:", rfc8414, openID}},
		{name: "well-known root, tenant inserted", set: func(mcp, issuer *site) Challenge { // metadata-var2
			mcp.docs[rootResource] = object{"resource": mcp.URL, "authorization_servers": []string{issuer.URL + "/tenant1"}}
			issuer.docs[rfc8414+"/tenant1"] = issuerDoc(issuer.URL+"/tenant1", nil)
			return Challenge{}
		}, issuer: "/tenant1", asked: []string{pathResource, rootResource, "issuer:", rfc8414 + "/tenant1"}},
		{name: "other place, tenant appended", set: func(mcp, issuer *site) Challenge { // metadata-var3
			mcp.docs["/custom/metadata.json"] = object{"resource": mcp.URL + "/", "authorization_servers": []string{issuer.URL + "/tenant1/"}}
			issuer.docs["/tenant1"+openID] = issuerDoc(issuer.URL+"/tenant1", nil)
			return Challenge{MetadataURL: mcp.URL + "/custom/metadata.json?x=1"}
		}, resource: "/", issuer: "/tenant1", asked: []string{"/custom/metadata.json?x=1", "issuer:", rfc8414 + "/tenant1", openID + "/tenant1", "/tenant1" + openID}},
		{name: "challenge names nothing, page for people", set: func(mcp, issuer *site) Challenge {
			mcp.docs["/gone"] = answer(200, "text/html", "<html>")
			mcp.docs[pathResource] = object{"resource": mcp.URL + "/mcp", "authorization_servers": []string{issuer.URL}}
			issuer.docs[rfc8414] = answer(200, "application/json; charset=utf-8", `{"error":"not found"}`)
			issuer.docs[openID] = issuerDoc(issuer.URL, nil)
			return Challenge{MetadataURL: mcp.URL + "/gone"}
		}, resource: "/mcp", asked: []string{"/gone", pathResource, "issuer:", rfc8414, openID}},
		{name: "second issuer", set: func(mcp, issuer *site) Challenge {
			mcp.docs[pathResource] = object{"resource": mcp.URL + "/mcp", "authorization_servers": []string{"http://10.1.2.3", issuer.URL + "/no", issuer.URL + "/lies", issuer.URL + "/plain", issuer.URL + "/good"}}
			issuer.docs[rfc8414+"/lies"] = issuerDoc("https://other.example", nil)
			issuer.docs[rfc8414+"/plain"] = issuerDoc(issuer.URL+"/plain", object{"code_challenge_methods_supported": []string{"plain"}})
			issuer.docs[rfc8414+"/good"] = issuerDoc(issuer.URL+"/good", nil)
			return Challenge{}
		}, resource: "/mcp", issuer: "/good", asked: []string{pathResource, "issuer:", rfc8414 + "/no", openID + "/no", "/no" + openID, rfc8414 + "/lies", rfc8414 + "/plain", rfc8414 + "/good"}},
		{name: "fails once, but answers at the next place", set: func(mcp, issuer *site) Challenge {
			mcp.docs[pathResource] = answer(500, "text/plain", "")
			mcp.docs[rootResource] = object{"resource": mcp.URL, "authorization_servers": []string{issuer.URL}}
			issuer.docs[rfc8414] = answer(502, "text/plain", "")
			issuer.docs[openID] = issuerDoc(issuer.URL, nil)
			return Challenge{}
		}, asked: []string{pathResource, rootResource, "issuer:", rfc8414, openID}},
		{name: "no PKCE, but no browser", settings: Settings{Grant: ClientCredentials}, set: func(mcp, issuer *site) Challenge {
			mcp.docs[pathResource] = object{"resource": mcp.URL + "/mcp", "authorization_servers": []string{issuer.URL}}
			issuer.docs[rfc8414] = issuerDoc(issuer.URL, object{"code_challenge_methods_supported": nil, "authorization_endpoint": nil})
			return Challenge{}
		}, resource: "/mcp", asked: []string{pathResource, "issuer:", rfc8414}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			mcp, issuer := newSite(t), newSite(t)
			c := test.set(mcp, issuer)
			found, err := discover(t, mcp, test.settings, c)
			expect.OK(t, err)
			id := issuer.URL + test.issuer
			if found.Resource != mcp.URL+test.resource || found.Issuer.ID != id || !found.Asserted {
				t.Errorf("found %+v", found)
			}
			if i := found.Issuer; i.TokenEndpoint != id+"/token" || i.DeviceEndpoint != id+"/device" || i.RevocationEndpoint != id+"/revoke" || i.RegistrationEndpoint != id+"/register" {
				t.Errorf("found the endpoints %+v", i)
			}
			expect.List(t, found.Scopes, test.scopes, "found the scopes")
			if asked := append(append(mcp.paths(), "issuer:"), issuer.paths()...); !slices.Equal(asked, test.asked) {
				t.Errorf("asked %q\nwant  %q", asked, test.asked)
			}
		})
	}
}

func TestDiscoverOrigin(t *testing.T) {
	t.Run("metadata at the root", func(t *testing.T) { // auth/2025-03-26-oauth-metadata-backcompat
		mcp := newSite(t)
		mcp.docs[rfc8414] = issuerDoc(mcp.URL, object{"token_endpoint": mcp.URL + "/oauth/token"})
		found, err := discover(t, mcp, Settings{}, Challenge{})
		expect.OK(t, err)
		if i := found.Issuer; i.ID != mcp.URL || i.TokenEndpoint != mcp.URL+"/oauth/token" || !found.Asserted || found.Resource != mcp.URL+"/mcp" {
			t.Errorf("found %+v", found)
		}
	})
	t.Run("nothing but endpoints", func(t *testing.T) { // auth/2025-03-26-oauth-endpoint-fallback
		mcp := newSite(t)
		mcp.docs["/authorize"] = answer(500, "text/html", "no parameters")
		found, err := discover(t, mcp, Settings{}, Challenge{})
		expect.OK(t, err)
		want := Issuer{ID: mcp.URL, AuthorizationEndpoint: mcp.URL + "/authorize", TokenEndpoint: mcp.URL + "/token", RegistrationEndpoint: mcp.URL + "/register"}
		expect.Deep(t, found.Issuer, want, "found")
		if found.Asserted {
			t.Errorf("found %+v", found)
		}
	})
	for _, status := range []int{401, 403, 404, 405} {
		t.Run(fmt.Sprint("nothing but ", status), func(t *testing.T) {
			mcp := newSite(t)
			for _, path := range []string{pathResource, rootResource, rfc8414, openID, "/authorize"} {
				mcp.docs[path] = answer(status, "application/json", `{"error":"unauthorized"}`)
			}
			found, err := discover(t, mcp, Settings{}, Challenge{})
			if err != nil || found.Asserted || found.Issuer.ID != "" || found.Issuer.TokenEndpoint != "" {
				t.Errorf("found %+v, %v", found, err)
			}
		})
	}
	t.Run("another issuer", func(t *testing.T) {
		mcp := newSite(t)
		mcp.docs[rfc8414] = issuerDoc("https://issuer.example", nil)
		if found, err := discover(t, mcp, Settings{}, Challenge{}); err == nil {
			t.Errorf("found %+v", found)
		}
	})
	t.Run("http", func(t *testing.T) {
		s := Server{URL: "http://mcp.example/mcp?key=secret"}
		found, err := Discover(t.Context(), NewHTTPClient(s), s, Challenge{})
		if err != nil || found.Asserted || found.Issuer.TokenEndpoint != "" || found.Resource != "http://mcp.example/mcp" {
			t.Errorf("found %+v, %v", found, err)
		}
		_, err = Discover(t.Context(), NewHTTPClient(s), s, Challenge{MetadataURL: "https://mcp.example/x"})
		expect.Error(t, err, "use https")
		s.Settings.AuthServerMetadataURL = "https://issuer.example/meta"
		if _, err = Discover(t.Context(), NewHTTPClient(s), s, Challenge{}); err == nil || !strings.Contains(err.Error(), "use https") {
			t.Errorf("with an issuer by hand: %v", err)
		}
	})
}

func TestDiscoverByHand(t *testing.T) {
	mcp, issuer := newSite(t), newSite(t)
	issuer.docs["/meta"] = issuerDoc(issuer.URL, object{"code_challenge_methods_supported": nil})
	settings := Settings{AuthServerMetadataURL: issuer.URL + "/meta"}
	found, err := discover(t, mcp, settings, Challenge{})
	expect.OK(t, err)
	if found.Issuer.ID != issuer.URL || !found.Asserted || found.Resource != mcp.URL+"/mcp" || found.Scopes != nil {
		t.Errorf("found %+v", found)
	}
	mcp.docs[pathResource] = object{"resource": mcp.URL, "authorization_servers": []string{"https://other.example"}, "scopes_supported": []string{"a"}}
	if found, err = discover(t, mcp, settings, Challenge{}); err != nil || found.Resource != mcp.URL || found.Issuer.ID != issuer.URL || !slices.Equal(found.Scopes, []string{"a"}) {
		t.Errorf("with metadata of the server: found %+v, %v", found, err)
	}
	issuer.docs["/meta"] = issuerDoc(issuer.URL, object{"code_challenge_methods_supported": []string{"plain"}})
	if _, err = discover(t, mcp, settings, Challenge{}); err == nil {
		t.Error("an issuer that supports only plain PKCE is accepted")
	}
	issuer.docs["/meta"] = issuerDoc(mcp.URL, object{"token_endpoint": mcp.URL + "/token"})
	if _, err = discover(t, mcp, settings, Challenge{}); err != nil {
		t.Errorf("an issuer that describes itself nowhere else: %v", err)
	}
	mcp.docs[openID] = issuerDoc(mcp.URL, nil)
	if _, err = discover(t, mcp, settings, Challenge{}); err != nil {
		t.Errorf("an issuer that describes itself in the same way: %v", err)
	}
	issuer.docs["/meta"] = issuerDoc(mcp.URL, object{"token_endpoint": issuer.URL + "/token"})
	_, err = discover(t, mcp, settings, Challenge{})
	expect.Error(t, err, "the issuer itself with")
	settings.AuthServerMetadataURL = issuer.URL + "/gone"
	_, err = discover(t, mcp, settings, Challenge{})
	expect.Error(t, err, "check authServerMetadataUrl")
	settings.AuthServerMetadataURL = "http://issuer.example/meta"
	_, err = discover(t, mcp, settings, Challenge{})
	expect.Error(t, err, "is not https")
}

// TestDiscoverRefuses has servers and issuers that are broken or lie. None of them may end in a
// guess.
func TestDiscoverRefuses(t *testing.T) {
	const lies = "https://evil.example"
	redirect := func(to string) http.HandlerFunc { return http.RedirectHandler(to, http.StatusFound).ServeHTTP }
	tests := []struct {
		name        string
		about       func(mcp, issuer *site) object // what the server says of itself; nil is the usual
		docs        map[string]any                 // of the server, in place of all else that it says
		changes     object                         // in what the issuer says of itself
		doc         any                            // what it says instead
		set         func(mcp, issuer *site)
		unreachable bool
		text        string
		asked       []string // of the issuer, nil for any
	}{
		{name: "other resource", about: func(_, issuer *site) object { // auth/resource-mismatch
			return object{"resource": lies + "/mcp", "authorization_servers": []string{issuer.URL}}
		}, text: "it describes the resource https://evil.example/mcp, not this server", asked: []string{}},
		{name: "other issuer", doc: issuerDoc(lies, nil), set: func(_, issuer *site) { // auth/metadata-issuer-mismatch
			issuer.docs[openID] = issuerDoc(issuer.URL, nil) // must not mask it
		}, text: "describes itself as https://evil.example", asked: []string{rfc8414}},
		{name: "no PKCE", changes: object{"code_challenge_methods_supported": nil}, text: "PKCE with S256"},
		{name: "only plain PKCE", changes: object{"code_challenge_methods_supported": []string{"plain"}}, text: "PKCE with S256"},
		{name: "no token endpoint", changes: object{"token_endpoint": nil}, text: "token_endpoint is missing"},
		{name: "endpoint without https", changes: object{"token_endpoint": "http://evil.example/token"}, text: "is not https"},
		{name: "script as device endpoint", changes: object{"device_authorization_endpoint": "javascript:alert(1)"}, text: "is no https url"},
		{name: "cloud metadata as endpoint", changes: object{"revocation_endpoint": "https://169.254.169.254/"}, text: "link-local"},
		{name: "password in endpoint", changes: object{"token_endpoint": "https://me:hunter2@issuer.example/"}, text: "has a name or a password"},
		{name: "fragment in endpoint", changes: object{"authorization_endpoint": "https://issuer.example/#x"}, text: "fragment"},
		{name: "issuer with query", about: func(mcp, issuer *site) object {
			return object{"resource": mcp.URL + "/mcp", "authorization_servers": []string{issuer.URL + "?x=1"}}
		}, text: "without query"},
		{name: "issuer describes nothing", doc: http.HandlerFunc(http.NotFound), text: "describes itself nowhere"},
		{name: "no issuer named", about: func(mcp, _ *site) object { return object{"resource": mcp.URL + "/mcp"} }, text: "describes itself nowhere"},
		{name: "server fails", docs: object{pathResource: answer(503, "text/plain", "secret words")}, unreachable: true, text: "it answers 503 Service Unavailable"},
		{name: "server fails for the second document", docs: object{rootResource: answer(503, "text/plain", "")}, unreachable: true, text: "it answers 503"},
		{name: "issuer fails", doc: answer(500, "text/plain", "secret words"), unreachable: true, text: "it answers 500"},
		{name: "issuer down", set: func(_, issuer *site) { issuer.Server.Close() }, unreachable: true, text: "no answer"},
		{name: "broken JSON", doc: answer(200, "application/json", "<html> secret words"), text: "its JSON can't be used"},
		{name: "deep JSON", doc: answer(200, "application/json", `{"issuer":`+strings.Repeat("[", 100_000)), text: "its JSON can't be used"},
		{name: "endless body", doc: endless, text: "longer than"},
		{name: "endless redirects", doc: redirect(rfc8414), text: "redirects more than 5 times", asked: slices.Repeat([]string{rfc8414}, 6)},
		{name: "redirect to cloud metadata", doc: redirect("https://169.254.169.254/latest/meta-data"), text: "link-local"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			mcp, issuer := newSite(t), newSite(t)
			mcp.docs[pathResource] = object{"resource": mcp.URL + "/mcp", "authorization_servers": []string{issuer.URL}}
			if test.about != nil {
				mcp.docs[pathResource] = test.about(mcp, issuer)
			}
			if test.docs != nil {
				mcp.docs = test.docs
			}
			if issuer.docs[rfc8414] = test.doc; test.doc == nil {
				issuer.docs[rfc8414] = issuerDoc(issuer.URL, test.changes)
			}
			if test.set != nil {
				test.set(mcp, issuer)
			}
			found, err := discover(t, mcp, Settings{}, Challenge{})
			if err == nil {
				t.Fatalf("found %+v", found)
			}
			if !strings.Contains(err.Error(), test.text) || errors.Is(err, ErrUnreachable) != test.unreachable {
				t.Errorf("error %v, unreachable %v", err, errors.Is(err, ErrUnreachable))
			}
			if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "hunter2") || len(err.Error()) > 1000 {
				t.Errorf("error %v", err)
			}
			if test.asked != nil && !slices.Equal(issuer.paths(), test.asked) {
				t.Errorf("asked the issuer %q, want %q", issuer.paths(), test.asked)
			}
		})
	}
}

// endless answers with JSON that does not end.
var endless http.HandlerFunc = func(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, `{"issuer":"`)
	for more := strings.Repeat("x", 64<<10); r.Context().Err() == nil; {
		if _, err := io.WriteString(w, more); err != nil {
			return
		}
	}
}

func TestDiscoverCancelled(t *testing.T) {
	mcp := newSite(t)
	ctx, cancel := context.WithCancel(t.Context())
	mcp.docs[pathResource] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done() // a server that never answers
	})
	s := Server{URL: mcp.URL + "/mcp"}
	if found, err := Discover(ctx, NewHTTPClient(s), s, Challenge{}); !errors.Is(err, context.Canceled) {
		t.Errorf("found %+v, %v", found, err)
	}
}

func TestOfServer(t *testing.T) {
	tests := []struct {
		server, resource string
		want             bool
	}{
		{"https://h/mcp", "https://h/mcp", true},
		{"https://h/mcp", "https://h/", true},
		{"https://h/mcp", "https://h", true},
		{"https://h", "https://h/", true},
		{"https://h/mcp", "https://H:443/mcp/", true},
		{"https://h/a/mcp", "https://h/a", true},
		{"https://h/a/mcp", "https://h/a/", true},
		{"https://h/mcp?tenant=a", "https://h/mcp?tenant=a", true},
		{"https://h/mcp?tenant=a", "https://h/mcp", true},
		{"https://h/mcp?tenant=a", "https://h/mcp?tenant=b", false},
		{"https://h/mcp", "https://h/mcp?tenant=b", false},
		{"https://h/mcp", "https://h/mc", false},
		{"https://h/mcp", "https://h/mcp/more", false},
		{"https://h/mcp", "https://h/other", false},
		{"https://h/mcp", "https://h/mcp/../", false},
		{"https://h/mcp", "https://h/%6dcp", false},
		{"https://h/mcp", "https://h:8443/mcp", false},
		{"https://h/mcp", "http://h/mcp", false},
		{"https://h/mcp", "https://other/mcp", false},
		{"https://h/mcp", "https://h.evil.example/mcp", false},
		{"https://h/mcp", "https://h@evil.example/mcp", false},
		{"https://h/mcp", "https://me@h/mcp", false},
		{"https://h/mcp", "https://h/mcp#x", false},
		{"https://h/mcp", "/mcp", false},
		{"https://h/mcp", "", false},
		{"https://h/mcp", "https:h/mcp", false},
		{"https://h/mcp", "https://h/" + strings.Repeat("x", maxURL), false},
	}
	for _, test := range tests {
		server, err := url.Parse(test.server)
		expect.OK(t, err)
		expect.Equal(t, ofServer(server, test.resource), test.want, "%s of the server %s", test.resource, test.server)
	}
}

// TestDiscoverBounds checks that an issuer's lists stay small in memory.
func TestDiscoverBounds(t *testing.T) {
	mcp := newSite(t)
	var many []string
	for i := range 5000 {
		many = append(many, fmt.Sprintf("scope%d", i))
	}
	mcp.docs[pathResource] = object{"resource": mcp.URL + "/mcp", "authorization_servers": []string{mcp.URL}, "scopes_supported": many}
	mcp.docs[rfc8414] = issuerDoc(mcp.URL, object{"scopes_supported": many})
	found, err := discover(t, mcp, Settings{}, Challenge{})
	expect.OK(t, err)
	if len(found.Scopes) != maxNamedScopes || len(found.Issuer.Scopes) != maxNamedScopes {
		t.Errorf("found %d and %d scopes", len(found.Scopes), len(found.Issuer.Scopes))
	}
	mcp.docs[rfc8414] = issuerDoc(mcp.URL, object{"grant_types_supported": []string{strings.Repeat("x", maxDocument)}})
	_, err = discover(t, mcp, Settings{}, Challenge{})
	expect.Error(t, err, "longer than")
}
