package identity

import (
	"regexp"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A challenge is what RFC 6750 allows, whatever issuers and tokens say.
var challengeForm = regexp.MustCompile(`^Bearer error="invalid_token", error_description="[\x20\x21\x23-\x5b\x5d-\x7e]{0,200}", resource_metadata="https://t\.example/r/\.well-known/oauth-protected-resource/mcp/p/work"(, scope="[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*")?$`)

func FuzzChallenge(f *testing.F) {
	f.Add("it has expired", "mcp:read", "mcp:call")
	f.Add("\"quoted\"\r\nX: y \\", "a b", "")
	f.Add("ünï", "\"", "api://guid/mcp.call")
	f.Add(strings.Repeat("ä", 500), "\x00", "mcp:read")
	f.Fuzz(func(t *testing.T, why, one, two string) {
		c := &Sender{Rules: NewRules(nil, []clientauth.Issuer{{}, {URL: "https://id.example"}}, nil, "https://t.example/r/", nil), Resource: ResourceOf("work")}
		if got := c.challenge("invalid_token", why, []string{one, two, one}); !challengeForm.MatchString(got) {
			t.Errorf("%q", got)
		}
	})
}

func TestScopes(t *testing.T) {
	for want, scopes := range map[string][]string{
		"": nil, "a b": {"a", "", "b", "a"}, "api://x/mcp.call": {"api://x/mcp.call", `a"b`, "a b", "ä"},
	} {
		expect.Equal(t, scopeOf(scopes), want, "%q", scopes)
	}
}

// The public URL's path is the prefix, unless it could lead browsers elsewhere.
func TestPrefixOf(t *testing.T) {
	for public, want := range map[string]string{
		"": "", "https://h": "", "https://h/": "", "https://h/a": "/a", "https://h/a/b": "/a/b", "https://h/a%20b": "/a b",
		"https://h//evil.example": "", "https://h/a/../b": "", "https://h/a//b": "", "://": "", "https://h/a?x=1": "/a",
	} {
		expect.Equal(t, prefixOf(public), want, "%s", public)
	}
	expect.Equal(t, (&Rules{Prefix: "/a b"}).At("/login"), "/a%20b/login")
}
