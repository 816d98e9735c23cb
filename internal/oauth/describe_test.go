package oauth

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func describe(t *testing.T, id string) (*Issuer, error) {
	t.Helper()
	return Describe(t.Context(), NewHTTPClient(Server{Name: "issuer", URL: id}), id)
}

// An issuer is found where TestDiscover finds it.
func TestDescribe(t *testing.T) {
	for _, tt := range []struct {
		path  string // of the issuer
		at    string // where it describes itself
		asked []string
	}{
		{"/tenant", "/tenant" + openID, []string{rfc8414 + "/tenant", openID + "/tenant", "/tenant" + openID}},
		{"/", openID, []string{rfc8414, openID}},
	} {
		t.Run(tt.path+" "+tt.at, func(t *testing.T) {
			s := newSite(t)
			id := s.URL + tt.path
			s.docs[tt.at] = issuerDoc(id, object{
				"authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token", "registration_endpoint": nil,
				"device_authorization_endpoint": nil, "revocation_endpoint": nil,
				"code_challenge_methods_supported": nil, // no PKCE is needed
				"jwks_uri":                         s.URL + "/keys",
				"introspection_endpoint":           s.URL + "/introspect",
				"scopes_supported":                 []string{"mcp:read"},
			})
			got, err := describe(t, id)
			expect.OK(t, err)
			if got.ID != id || got.KeysURL != s.URL+"/keys" || got.IntrospectionEndpoint != s.URL+"/introspect" ||
				got.TokenEndpoint != s.URL+"/token" || got.AuthorizationEndpoint != s.URL+"/authorize" || !slices.Equal(got.Scopes, []string{"mcp:read"}) {
				t.Errorf("it is %+v", got)
			}
			if asked := s.paths(); !slices.Equal(asked, tt.asked) {
				t.Errorf("it asked for %q, not %q", asked, tt.asked)
			}
		})
	}
}

func TestDescribeRefuses(t *testing.T) {
	s := newSite(t)
	tests := []struct {
		name, id string
		doc      any
		want     string
	}{
		{"other issuer", s.URL, issuerDoc("https://evil.example.com", nil), "describes itself as https://evil.example.com"},
		{"a slash at the end", s.URL, issuerDoc(s.URL+"/", nil), "write exactly that into its url"},
		{"keys without https", s.URL, issuerDoc(s.URL, object{"jwks_uri": "http://keys.example.com"}), "jwks_uri is wrong"},
		{"keys at an address of clouds", s.URL, issuerDoc(s.URL, object{"jwks_uri": "https://169.254.169.254/keys"}), "jwks_uri is wrong"},
		{"questions without https", s.URL, issuerDoc(s.URL, object{"introspection_endpoint": "http://id.example.com"}), "introspection_endpoint is wrong"},
		{"url with a query", s.URL + "?x", nil, "no url without query"},
		{"no url", "id.example.com", nil, "no https url"},
		{"not https", "http://id.example.com", nil, "is not https"},
		{"not there", s.URL, nil, "404"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s.docs[rfc8414] = tt.doc
			_, err := describe(t, tt.id)
			expect.Error(t, err, tt.want, "the error")
		})
	}
	s.docs[rfc8414] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	if _, err := describe(t, s.URL); !errors.Is(err, ErrUnreachable) {
		t.Errorf("the error of an issuer that fails is %v", err)
	}
}

// A public issuer does not lead into a private network.
func TestDescribePublicIssuer(t *testing.T) {
	const id = "https://192.88.100.1" // public, and never asked
	s := newSite(t)
	s.docs[rfc8414] = issuerDoc(id, object{"jwks_uri": "https://10.0.0.1/keys"})
	c := &http.Client{Transport: inMemory{s}}
	_, err := Describe(t.Context(), c, id)
	expect.Error(t, err, "jwks_uri", "the error")
}

// inMemory sends all requests to a handler.
type inMemory struct{ http.Handler }

func (h inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), nil
}
