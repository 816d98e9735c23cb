package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/bearer"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

const idURL = "https://id.example.com"

// tokenOfClaims returns a verified token with the claims, JSON, and the scopes.
func tokenOfClaims(t testing.TB, claims string, scopes ...string) *bearer.Token {
	t.Helper()
	token := &bearer.Token{Issuer: idURL, Scopes: scopes, Expires: time.Now().Add(time.Hour)}
	expect.OK(t, json.Unmarshal([]byte(claims), &token.Claims))
	return token
}

// ruled returns an issuer with rules, of which "gone" is no profile that exists.
func ruled(change func(*config.Issuer)) config.Issuer {
	i := config.Issuer{
		URL: idURL, User: "sub",
		Profiles: []config.ProfileRule{{Claim: config.Claim{Name: "groups", Value: "devs"}, Profile: "work"}, {Claim: config.Claim{Name: "groups", Value: "sre"}, Profile: "ops"}, {Claim: config.Claim{Name: "groups", Value: "old"}, Profile: "gone"}},
		Admins:   []config.Claim{{Name: "groups", Value: "root"}},
	}
	if change != nil {
		change(&i)
	}
	return i
}

func rule(name, value, profile string) config.ProfileRule {
	return config.ProfileRule{Claim: config.Claim{Name: name, Value: value}, Profile: profile}
}

// A verified token becomes a principal by the rules of its issuer, or is refused.
func TestProof(t *testing.T) {
	everyone := func(i *config.Issuer) { i.Profiles = []config.ProfileRule{rule("*", "", "work")} }
	only := func(name, value string) func(*config.Issuer) {
		return func(i *config.Issuer) { i.Profiles = []config.ProfileRule{rule(name, value, "work")} }
	}
	user := func(claim string) func(*config.Issuer) {
		return func(i *config.Issuer) { everyone(i); i.User = claim }
	}
	const call = "mcp:call"
	for _, tt := range []struct {
		what   string
		change func(*config.Issuer)
		claims string
		scopes string
		want   string // "profile", with "reads" and "admin", or the status with the scopes and the reason
	}{
		// Profiles.
		{"a group", nil, `{"sub":"u","groups":["devs"]}`, call, "work"},
		{"a group that is a text", nil, `{"sub":"u","groups":"devs"}`, call, "work"},
		{"two groups", nil, `{"sub":"u","groups":["sre","devs"]}`, call, "ops|work"},
		{"the same profile twice", func(i *config.Issuer) { i.Profiles = append(i.Profiles, rule("sub", "u", "work")) }, `{"sub":"u","groups":["devs"]}`, call, "work"},
		{"no group", nil, `{"sub":"u"}`, call, "403 no rule"},
		{"another group", nil, `{"sub":"u","groups":["dev","devs2","DEVS"," devs"]}`, call, "403 no rule"},
		{"groups joined by a space", nil, `{"sub":"u","groups":"devs sre"}`, call, "403 no rule"},
		{"a profile that does not exist", nil, `{"sub":"u","groups":["old"]}`, call, "403 no profile"},
		{"one that does not exist, and one that does", nil, `{"sub":"u","groups":["old","devs"]}`, call, "work"},
		{"no rules", func(i *config.Issuer) { i.Profiles = nil }, `{"sub":"u","groups":["devs"]}`, call, "403 no rule"},
		{"every user", everyone, `{"sub":"u"}`, call, "work"},
		{"every user, without a profile", func(i *config.Issuer) { i.Profiles = []config.ProfileRule{rule("*", "", "gone")} }, `{"sub":"u"}`, call, "403 no profile"},
		{"a rule that is a mistake", func(i *config.Issuer) { i.Profiles = []config.ProfileRule{{}} }, `{"sub":"u","":""}`, call, "403 no rule"},
		{"a rule without a claim", func(i *config.Issuer) { i.Profiles = []config.ProfileRule{{Profile: "work"}} }, `{"sub":"u","":""}`, call, "403 no rule"},
		{"a claim that is named *", only("*", "x"), `{"sub":"u"}`, call, "403 no rule"},
		{"nested", only("realm_access.roles", "devs"), `{"sub":"u","realm_access":{"roles":["devs"]}}`, call, "work"},
		{"a number", only("level", "3"), `{"sub":"u","level":3}`, call, "work"},
		{"an object is no text", only("groups", `{"a":"devs"}`), `{"sub":"u","groups":{"a":"devs"}}`, call, "403 no rule"},

		// Users.
		{"no user", everyone, `{}`, call, `403 the claim "sub" must name the user`},
		{"an empty user", everyone, `{"sub":""}`, call, "403 the claim"},
		{"null", everyone, `{"sub":null}`, call, "403 the claim"},
		{"an object", everyone, `{"sub":{"a":1}}`, call, "403 the claim"},
		{"no claim is configured", user(""), `{"sub":"u","":"u"}`, call, "403 the claim"},
		{"two users", everyone, `{"sub":["u","v"]}`, call, "403 the claim"},
		{"a list of one user", everyone, `{"sub":["u"]}`, call, `403 the claim "sub" must name the user`},
		{"a user that is a number", everyone, `{"sub":7}`, call, `403 the claim "sub" must name the user`},
		{"a list of one in another claim", user("emails"), `{"sub":"u","emails":["u"]}`, call, "work"},
		{"a number", user("uid"), `{"sub":"u","uid":7}`, call, "work"},
		{"another claim", user("email"), `{"sub":"u"}`, call, `403 the claim "email"`},
		{"a long user", everyone, `{"sub":"` + strings.Repeat("u", 256) + `"}`, call, "work"},
		{"a longer one", everyone, `{"sub":"` + strings.Repeat("u", 257) + `"}`, call, "403 the claim"},
		{"letters of other languages", everyone, `{"sub":"Ægir Ωmega 山"}`, call, "work"},
		{"a line end", everyone, `{"sub":"u\nv"}`, call, "403 the claim"},
		{"a zero", everyone, `{"sub":"u\u0000v"}`, call, "403 the claim"},
		{"an escape sequence", everyone, `{"sub":"u\u001b[31m"}`, call, "403 the claim"},
		{"a hidden character", everyone, `{"sub":"u\u200b"}`, call, "403 the claim"},
		{"text from right to left", everyone, `{"sub":"u\u202ev"}`, call, "403 the claim"},
		{"a space around it", everyone, `{"sub":"u "}`, call, "403 the claim"},

		// Scopes.
		{"no scope", everyone, `{"sub":"u"}`, "", "403 [mcp:call] the token has no scope"},
		{"other scopes", everyone, `{"sub":"u"}`, "openid mcp mcp:calls MCP:CALL mcp:", "403 [openid mcp mcp:calls MCP:CALL mcp: mcp:call] the token has no scope"},
		{"reading", everyone, `{"sub":"u"}`, "openid mcp:read", "work reads"},
		{"reading and calls", everyone, `{"sub":"u"}`, "mcp:call mcp:read", "work"},
		{"administration", everyone, `{"sub":"u"}`, "mcp:admin", "work"},
		{"no scope and no profile", nil, `{"sub":"u"}`, "", "403 [mcp:call] the token has no scope"},

		// Administrators.
		{"an admin", nil, `{"sub":"u","groups":["root"]}`, "mcp:admin", " admin"},
		{"an admin with a profile", nil, `{"sub":"u","groups":["root","devs"]}`, "mcp:admin", "work admin"},
		{"an admin without the scope", nil, `{"sub":"u","groups":["root","devs"]}`, call, "work"},
		{"an admin who reads", nil, `{"sub":"u","groups":["root","devs"]}`, "mcp:read", "work reads"},
		{"an admin without scope and profile", nil, `{"sub":"u","groups":["root"]}`, call, "403 [mcp:call mcp:admin] this user has no profile"},
		{"the scope alone", nil, `{"sub":"u"}`, "mcp:admin", "403 no rule"},
		{"an admin with a profile that does not exist", nil, `{"sub":"u","groups":["root","old"]}`, "mcp:admin", "403 no profile"},
		{"every user is an admin", func(i *config.Issuer) { i.Admins = []config.Claim{{Name: "*"}} }, `{"sub":"u"}`, "mcp:admin", " admin"},
		{"an admin rule that is a mistake", func(i *config.Issuer) { everyone(i); i.Admins = []config.Claim{{}} }, `{"sub":"u","":""}`, "mcp:admin", "work"},
	} {
		r := routerWith(ruled(tt.change))
		got, err := issuersOf(config.Config{Router: r})[0].proof(tokenOfClaims(t, tt.claims, strings.Fields(tt.scopes)...))
		text := shortOf(got, err)
		if text != tt.want && (err == nil || !strings.HasPrefix(text, tt.want)) {
			t.Errorf("%s: %q, want %q", tt.what, text, tt.want)
		}
		if err != nil && !reflect.DeepEqual(got, clientauth.Proof{}) {
			t.Errorf("%s: refused, with %+v", tt.what, got)
		}
		if refusal, is := errors.AsType[*clientauth.Refusal](err); is && !strings.Contains(refusal.Reason, "the claim") && refusal.Name != "u (https://id.example.com)" {
			t.Errorf("%s: the refusal is of %q", tt.what, refusal.Name)
		}
	}
}

// shortOf describes what a token proves.
func shortOf(p clientauth.Proof, err error) string {
	if refusal, ok := errors.AsType[*clientauth.Refusal](err); ok {
		if refusal.Scopes != nil {
			return fmt.Sprintf("%d %v %s", refusal.Status, refusal.Scopes, refusal.Reason)
		}
		return fmt.Sprintf("%d %s", refusal.Status, refusal.Reason)
	}
	text := p.Principal.Profile
	if p.Principal.Reads {
		text += " reads"
	}
	if p.Principal.Admin {
		text += " admin"
	}
	return text
}

// The issuer's own scopes stand for ours.
func TestScopeMap(t *testing.T) {
	keycloak := map[string][]string{"tools.read": {"mcp:read"}, "tools": {"mcp:read", "mcp:call"}}
	entra := map[string][]string{"api://guid/mcp.call": {"mcp:call"}, "https://x.example/root": {"mcp:admin"}}
	for _, tt := range []struct {
		scopes map[string][]string
		token  string
		want   level
	}{
		{nil, "mcp:read", reads},
		{nil, "tools", nothing},
		{keycloak, "tools.read", reads},
		{keycloak, "tools", calls},
		{keycloak, "tools tools.read", calls},
		{keycloak, "tool Tools x/tools tools/", nothing},
		{keycloak, "mcp:call", calls}, // our own names count as well
		{entra, "mcp.call", calls},
		{entra, "api://guid/mcp.call", calls},
		{entra, "root", administers},
		{entra, "guid call x.example api: guid/mcp.call", nothing},
		{map[string][]string{}, "mcp:admin", administers},
		{map[string][]string{"api://guid": {"mcp:admin"}, "api://guid/": {"mcp:admin"}, "a/b": {"mcp:admin"}}, "guid b", nothing},
		{map[string][]string{"x": {"mcp:everything", ""}}, "x", nothing},
	} {
		i := issuer{Issuer: config.Issuer{Scopes: tt.scopes}}
		expect.Equal(t, i.levelOf(append(strings.Fields(tt.token), "")), tt.want, "%v, a token with %q", tt.scopes, tt.token)
	}
	for _, tt := range []struct {
		scopes             map[string][]string
		read, calls, admin string
	}{
		{nil, "mcp:read", "mcp:call", "mcp:admin"},
		{keycloak, "tools.read", "tools", ""},
		{entra, "api://guid/mcp.call", "api://guid/mcp.call", "https://x.example/root"},
		{map[string][]string{"b": {"mcp:read"}, "a": {"mcp:read"}}, "a b", "", ""},
		{map[string][]string{}, "", "", ""},
	} {
		got := issuer{Issuer: config.Issuer{Scopes: tt.scopes}}.public()
		expect.List(t, []string{strings.Join(got.Read, " "), strings.Join(got.Call, " "), strings.Join(got.Admin, " ")}, []string{tt.read, tt.calls, tt.admin}, "%v: clients ask for", tt.scopes)
	}
	expect.Equal(t, shortOf(issuer{Issuer: config.Issuer{User: "sub", Scopes: keycloak}}.proof(tokenOfClaims(t, `{"sub":"u"}`, "openid"))), "403 [openid tools] the token has no scope for this router, and scopeMap translates none of its scopes to one", "a refusal names")
}

// Principals of different issuers, users, certificates and tokens are never the same.
func TestPrincipalsDiffer(t *testing.T) {
	proof := func(url, user string) clientauth.Proof {
		i := ruled(func(i *config.Issuer) { i.URL, i.Profiles = url, []config.ProfileRule{rule("*", "", "work")} })
		p, err := issuersOf(config.Config{Router: routerWith(i)})[0].proof(tokenOfClaims(t, fmt.Sprintf(`{"sub":%q}`, user), "mcp:call"))
		expect.OK(t, err)
		return p
	}
	one := proof("https://a.example", "u")
	if one.Principal != proof("https://a.example", "u").Principal || one.Principal.Name != "u (https://a.example)" || one.Issuer != "https://a.example" || one.Expires.IsZero() || !slices.Equal(one.Scopes, []string{"mcp:call"}) {
		t.Errorf("%+v", one)
	}
	seen := map[string]bool{one.Principal.Hash: true, one.Principal.Name: true}
	for _, other := range []clientauth.Proof{proof("https://b.example", "u"), proof("https://a.example", "v"), proof("https://a.example", "U"), proof("https://b.example", "u (https://a.example)")} {
		if seen[other.Principal.Hash] || seen[other.Principal.Name] || len(other.Principal.Hash) != 64 {
			t.Errorf("the same principal: %+v", other.Principal)
		}
		seen[other.Principal.Hash], seen[other.Principal.Name] = true, true
	}
	const longest = 150 // bytes of a name of which logs show the end, where the issuer is
	long := "u (https://a.example)" + strings.Repeat(" ", 120) + strings.Repeat("ü", 50)
	for _, user := range []string{long, long + "x", long[:maxShownUser-1] + "üü"} {
		other := proof("https://b.example", user).Principal
		if seen[other.Name] || len(other.Name) > longest || !strings.HasSuffix(other.Name, " (https://b.example)") || !utf8.ValidString(other.Name) {
			t.Errorf("the name of a user with a long one is %q", other.Name)
		}
		seen[other.Name] = true
	}
	for _, text := range []string{"oauth\x00https://a.example\x00u", "oauthhttps://a.exampleu"} {
		if plainToken(text).Hash == one.Principal.Hash {
			t.Error("a text that everyone can write down is a token of the principal")
		}
	}
}
