package oauth

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestChallengeOf(t *testing.T) {
	full := Challenge{MetadataURL: "https://h/meta", Scopes: []string{"a", "b:c"}, Error: "insufficient_scope"}
	tests := []struct {
		name    string
		headers []string
		want    Challenge
	}{
		{"none", nil, Challenge{}},
		{"bare", []string{"Bearer"}, Challenge{}},
		{"full", []string{`Bearer realm="x", resource_metadata="https://h/meta", scope="a  b:c a", error="insufficient_scope"`}, full},
		{"case", []string{`BEARER RESOURCE_METADATA=https://h/meta, Scope="a b:c", ERROR=insufficient_scope`}, full},
		{"after another scheme", []string{`Basic realm="a, b", DPoP algs="ES256", Bearer resource_metadata="https://h/meta", scope="a b:c", error="insufficient_scope"`}, full},
		{"in several headers", []string{`Negotiate abc==`, `Bearer scope="a b:c"`, `Bearer resource_metadata="https://h/meta", scope="z", error="insufficient_scope"`}, full},
		{"other scheme", []string{`DPoP resource_metadata="https://evil/meta", scope="z", error="use_dpop_nonce"`}, Challenge{}},
		{"malformed header before", []string{`Bearer realm="open`, `Bearer resource_metadata="https://h/meta", scope="a b:c", error=insufficient_scope`}, full},
		{"escaped quote", []string{`Bearer realm="a\", scope=\"z", scope="a"`}, Challenge{Scopes: []string{"a"}}},
		{"relative URL", []string{`Bearer resource_metadata="/meta"`}, Challenge{}},
		{"URL of a script", []string{`Bearer resource_metadata="javascript://h/%0aalert(1)"`}, Challenge{}},
		{"long URL", []string{`Bearer resource_metadata="https://h/` + strings.Repeat("x", maxURL) + `"`}, Challenge{}},
		{"long header", []string{`Bearer scope="` + strings.Repeat("a ", maxChallengeHeader) + `"`, `Bearer error="x"`}, Challenge{Error: "x"}},
		{"long scope", []string{`Bearer scope="a ` + strings.Repeat("x", maxScope+1) + `"`}, Challenge{Scopes: []string{"a"}}},
		{"characters that no scope has", []string{"Bearer scope=\"a b\\\\c \x80 d\te\", error=\"a\\\"b\""}, Challenge{Scopes: []string{"a", "d", "e"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := ChallengeOf(&http.Response{Header: http.Header{"Www-Authenticate": test.headers}})
			expect.Deep(t, got, test.want, "%q", test.headers)
		})
	}
}

func TestChallengeBounds(t *testing.T) {
	var scopes []string
	for i := range 500 {
		scopes = append(scopes, fmt.Sprintf("scope%d", i))
	}
	c := ChallengeOf(&http.Response{Header: http.Header{"Www-Authenticate": {`Bearer scope="` + strings.Join(scopes, " ") + `"`}}})
	if len(c.Scopes) != maxNamedScopes || c.Scopes[0] != "scope0" {
		t.Errorf("got %d scopes", len(c.Scopes))
	}
	headers := make([]string, maxChallenges+1)
	headers[maxChallenges] = `Bearer error="x"`
	if c = ChallengeOf(&http.Response{Header: http.Header{"Www-Authenticate": headers}}); c.Error != "" {
		t.Errorf("read %d headers", len(headers))
	}
}

func FuzzChallengeOf(f *testing.F) {
	f.Add(`Bearer realm="x", resource_metadata="https://h/meta", scope="a b", error="invalid_token"`, `Basic`)
	f.Add(`Bearer realm="open`, `DPoP algs="ES256" Bearer scope="a\"b"`)
	f.Add(`Negotiate abc==, bearer error=x,,=,"`, "\x00 =\"\\")
	f.Fuzz(func(t *testing.T, a, b string) {
		good := `Bearer resource_metadata="https://good.example/meta"`
		c := ChallengeOf(&http.Response{Header: http.Header{"Www-Authenticate": {a, b, good}}})
		if c.MetadataURL == "" {
			t.Errorf("%q, %q: the good header is lost", a, b)
		}
		u, err := url.Parse(c.MetadataURL)
		if err != nil || len(c.MetadataURL) > maxURL || u.Host == "" {
			t.Errorf("%q, %q: URL %q", a, b, c.MetadataURL)
		}
		if len(c.Scopes) > maxNamedScopes || c.Error != "" && (len(c.Error) > 64 || !isScope(c.Error)) {
			t.Errorf("%q, %q: %+v", a, b, c)
		}
		for _, scope := range c.Scopes {
			if len(scope) > maxScope || !isScope(scope) {
				t.Errorf("%q, %q: scope %q", a, b, scope)
			}
		}
	})
}
