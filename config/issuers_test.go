package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// loadHTTP reads a file with "http" that has the members, a public URL and two profiles.
func loadHTTP(t *testing.T, members string) Config {
	t.Helper()
	return anyText(t, `{"metarouter": {"profiles": {"work": {}, "ci": {}}, "http": {"publicUrl": "https://r.example/x", `+members+`}}}`)
}

func saidOf(c Config) string {
	var all []string
	for _, p := range c.Problems {
		all = append(all, p.Severity+": "+p.Message)
	}
	return strings.Join(all, "\n")
}

// says wants the problems of a text to begin so, and none for "".
func says(t *testing.T, c Config, text, want string) {
	t.Helper()
	if said := saidOf(c); !strings.HasPrefix(said, want) || want == "" && said != "" || strings.Contains(said, "sk-secret") {
		t.Errorf("%s: it says %q, want %q", text, said, want)
	}
}

func TestIssuers(t *testing.T) {
	const id = `"url": "https://id.example"`
	rules := []ProfileRule{{Claim{"groups", "a=b"}, "work"}, {Claim{"realm.roles", "x y"}, "ci"}, {Claim{Name: "*"}, "ci"}}
	for _, tt := range []struct {
		issuer string
		want   Issuer
		says   string // the begin; "" for no problem
	}{
		{id + `, "profiles": {"groups=a=b": "work", "realm.roles=x y": "ci", "*": "ci"}`, Issuer{URL: "https://id.example", User: "sub", Profiles: rules}, ""},
		{`"url": "HTTPS://ID.example/a/", "profiles": {"*": "ci"}, "audience": "api://${HOST}", "user": "email", "admins": ["https://x/groups=ops"],
			"scopeMap": {"api://1/mcp.call": "mcp:call", "t": ["mcp:read", "mcp:call"]}, "jwksUrl": "https://k.example/k?p=1", "clientId": "me", "clientSecret": "${TOKEN}", "introspect": true`,
			Issuer{URL: "HTTPS://ID.example/a/", Audience: "api://example.com", User: "email", Profiles: rules[2:], Admins: []Claim{{"https://x/groups", "ops"}},
				Scopes:  map[string][]string{"api://1/mcp.call": {"mcp:call"}, "t": {"mcp:read", "mcp:call"}},
				KeysURL: "https://k.example/k?p=1", ClientID: "me", ClientSecret: "sk-secret", Introspect: true}, ""},
		{`"url": "http://127.0.0.1:8080", "profiles": {"*": "ci"}, "scopeMap": {}`, Issuer{URL: "http://127.0.0.1:8080", User: "sub", Profiles: rules[2:], Scopes: map[string][]string{}}, ""},
		{`"url": "https://${HOST}", "profiles": {"*": "ci"}`, Issuer{URL: "https://example.com", User: "sub", Profiles: rules[2:]}, ""},

		{id, Issuer{URL: "https://id.example", User: "sub"}, `warning: this issuer has no "profiles", so it lets no user in but "admins"`},
		{id + `, "admins": ["g=o"]`, Issuer{URL: "https://id.example", User: "sub", Admins: []Claim{{"g", "o"}}}, `warning: this issuer has no "profiles", so it lets no user in but "admins"`},
		{id + `, "profiles": {"*": "ci"}, "admins": ["*"]`, Issuer{URL: "https://id.example", User: "sub", Profiles: rules[2:], Admins: []Claim{{Name: "*"}}}, `warning: every user of this issuer is an admin`},
		{id + `, "profiles": {"*": "gone"}`, Issuer{}, `error: there is no profile "gone", so this issuer lets no client in`},
		{id + `, "profiles": {"*": "wrok"}, "user": 1`, Issuer{}, `error: "user" must be a string`},
		{id + `, "profiles": {"*": "ci"}, "clientSecret": "${TOKEN}"`, Issuer{URL: "https://id.example", User: "sub", Profiles: rules[2:], ClientSecret: "sk-secret"}, `warning: "clientSecret" has no effect without`},
		{id + `, "profiles": {"*": "ci"}, "audiance": "x"`, Issuer{}, `error: the key "audiance" is not known, so this issuer lets no client in; did you mean "audience"?`},

		{``, Issuer{}, `error: it has no "url", so this issuer lets no client in`},
		{`"url": ""`, Issuer{}, `error: "url" must be the issuer's URL`},
		{`"url": "id.example"`, Issuer{}, `error: "url" must be a whole URL`},
		{`"url": "https://u:p@id.example"`, Issuer{}, `error: "url" must be a whole URL`},
		{`"url": "https://id.example#"`, Issuer{}, `error: "url" must be a whole URL`},
		{`"url": "https://id.example?x"`, Issuer{}, `error: "url" must be the issuer's URL without a query`},
		{`"url": "https://id.example/?"`, Issuer{}, `error: "url" must be the issuer's URL without a query`},
		{`"url": "https://id.example/.well-known/openid-configuration"`, Issuer{}, `error: "url" must be the issuer itself`},
		{`"url": "http://id.example"`, Issuer{}, `error: "url" must begin with "https:"`},
		{`"url": "http://localhost.evil.example"`, Issuer{}, `error: "url" must begin with "https:"`},
		{`"url": "file:///x"`, Issuer{}, `error: "url" must be a whole URL`},
		{`"url": "https://:80"`, Issuer{}, `error: "url" must be a whole URL`},
		{`"url": "https://id.example/` + strings.Repeat("a", 1024) + `"`, Issuer{}, `error: "url" must have at most 1024 bytes`},
		{`"url": "https://${NOPE}"`, Issuer{}, `error: "url" has no value: the variable NOPE is not set`},
		{`"url": "${TOKEN}"`, Issuer{}, `error: "url" must be a whole URL`},
		{id + `, "clientSecret": "${NOPE}"`, Issuer{}, `error: "clientSecret" has no value: the variable NOPE is not set`},
		{id + `, "jwksUrl": "${keyring:X}"`, Issuer{}, `error: "jwksUrl" has no value: a reference to a secret such as`},
		{id + `, "jwksUrl": "http://id.example/k"`, Issuer{}, `error: "jwksUrl" must begin with "https:"`},
		{id + `, "user": ""`, Issuer{}, `error: "user" must be the name of a claim`},
		{id + `, "user": " sub"`, Issuer{}, `error: "user" must be the name of a claim`},
		{id + `, "profiles": ["work"]`, Issuer{}, `error: "profiles" must be an object`},
		{id + `, "profiles": {"devs": "work"}`, Issuer{}, `error: "profiles.devs" must be NAME=VALUE`},
		{id + `, "profiles": {"=devs": "work"}`, Issuer{}, `error: "profiles.=devs" must be NAME=VALUE`},
		{id + `, "profiles": {"groups=": "work"}`, Issuer{}, `error: "profiles.groups=" must be NAME=VALUE`},
		{id + `, "profiles": {"*=devs": "work"}`, Issuer{}, `error: "profiles.*=devs" must be NAME=VALUE`},
		{id + `, "profiles": {"groups = devs": "work"}`, Issuer{}, `error: "profiles.groups = devs" must be NAME=VALUE`},
		{id + `, "profiles": {"g=d": "Work"}`, Issuer{}, `error: "profiles.g=d" must be the name of a profile`},
		{id + `, "profiles": {"g=d": ["work"]}`, Issuer{}, `error: "profiles.g=d" must be a string`},
		{id + `, "profiles": {"g=d": "work", "g=d": "ci"}`, Issuer{}, `error: "profiles.g=d" is here twice`},
		{id + `, "profiles": {"g=d": "work"}, "profiles": {"*": "ci"}`, Issuer{}, `error: "profiles" is here twice`},
		{id + `, "profiles": {"` + strings.Repeat("g", 257) + `=d": "work"}`, Issuer{}, `error: "profiles.ggg`},
		{id + `, "profiles": {` + repeat(1001, func(i int) string { return fmt.Sprintf(`"g=%d": "work",`, i) }) + `}`, Issuer{}, `error: "profiles" must have at most 1000 keys`},
		{id + `, "profiles": {"devs": "work", "g=d": "Work", "g=e": "ci", "g=e": "ci", "h=": 1}`, Issuer{}, `error: "profiles.devs" must be NAME=VALUE, a claim and its value without spaces around them, or "*" for every user, so this issuer lets no client in; write it like "groups=devs"
error: "profiles.g=d" must be the name of a profile: 1 to 32 lower case letters, digits and -, so this issuer lets no client in; write it like "work"
error: "profiles.g=e" is here twice, so this issuer lets no client in; remove one
error: "profiles.h=" must be NAME=VALUE`},
		{id + `, "admins": "groups=ops"`, Issuer{}, `error: "admins" must be an array of claims`},
		{id + `, "admins": ["ops"]`, Issuer{}, `error: "admins[0]" must be NAME=VALUE`},
		{id + `, "scopeMap": {"x": "mcp:reads"}`, Issuer{}, `error: "scopeMap.x" must be "mcp:read", "mcp:call" or "mcp:admin", so this issuer lets no client in; did you mean "mcp:read"?`},
		{id + `, "scopeMap": {"x": ["mcp:read", "admin"]}`, Issuer{}, `error: "scopeMap.x[1]" must be`},
		{id + `, "scopeMap": {"x": ["mcp:read", "mcp:read", "mcp:read", "mcp:read"]}`, Issuer{}, `error: "scopeMap.x" must have at most 3 elements`},
		{id + `, "scopeMap": {"x y": "mcp:read"}`, Issuer{}, `error: "scopeMap.x y" must be one scope`},
		{id + `, "introspect": true`, Issuer{}, `error: "introspect" needs a client`},
		{id + `, "introspect": true, "clientId": "x"`, Issuer{}, `error: "introspect" needs a client`},
		{id + `, "introspect": "yes"`, Issuer{}, `error: "introspect" must be true or false`},
	} {
		c := loadHTTP(t, `"oauth": {"issuers": [{`+tt.issuer+`}]}`)
		if got := c.Router.HTTP.Issuers; len(got) != 1 || !reflect.DeepEqual(got[0], tt.want) {
			t.Errorf("%s: got %+v, want %+v", tt.issuer, got, tt.want)
		}
		says(t, c, tt.issuer, tt.says)
	}
}

// No mistake in "oauth" lets clients in that prove nothing.
func TestOAuthFailsClosed(t *testing.T) {
	const good = `{"url": "https://id.example", "profiles": {"*": "ci"}}`
	for text, want := range map[string]struct {
		urls string // of the issuers
		says string
	}{
		`"oauth": {"issuers": [` + good + `]}`:                           {"https://id.example,", ""},
		`"oauth": null`:                                                  {",", `error: "oauth" must not be null`},
		`"oauth": {"issuers": []}`:                                       {"", ""},
		`"oauth": {"issuers": [` + good + `], "issuers": []}`:            {",", `error: "issuers" is here twice`},
		`"oauth": {"issuers": [` + good + `]}, "oauth": {"issuers": []}`: {",", `error: "oauth" is here twice`},
		`"oauth": {}`:                                               {",", `error: "oauth" has no issuers; write`},
		`"oauth": {"issuers": null}`:                                {",", `error: "issuers" must not be null`},
		`"oauth": {"isuers": [` + good + `]}`:                       {",", `error: the key "isuers" is not known`},
		`"oauth": true`:                                             {",", `error: "oauth" must be an object`},
		`"oauth": [` + good + `]`:                                   {",", `error: "oauth" must be an object`},
		`"oauth": {"issuers": ` + good + `}`:                        {",", `error: "issuers" must be an array`},
		`"oauth": {"issuers": [` + good + `, "https://b.example"]}`: {"https://id.example,,", `error: an issuer must be an object, so this issuer`},
		`"oauth": {"issuers": [` + good + `, {"url": 1}]}`:          {"https://id.example,,", `error: "url" must be a string, so this issuer`},
		`"oauth": {"issuers": [` + good + `, {"url": "https://b.example", "profiles": {"*": "ci"}}, ` + good + `]}`: {",", `error: this issuer is here twice`},
		`"oauth": {"issuers": [` + strings.Repeat(good+",", 21) + `]}`:                                              {",", `error: "issuers" must have at most 20 elements`},
		`"publicUrl": "", "oauth": {"issuers": [` + good + `]}`:                                                     {",", `error: "publicUrl" is here twice`},
	} {
		c := loadHTTP(t, text)
		urls := ""
		for _, i := range c.Router.HTTP.Issuers {
			urls += i.URL + ","
		}
		if isRefused(c) {
			urls = ","
		}
		if said := saidOf(c); urls != want.urls || !strings.HasPrefix(said, want.says) || want.says == "" && said != "" {
			t.Errorf("%s: issuers %q, it says %q", text, urls, said)
		}
	}
}

// A misspelled or misplaced key by which clients were to prove themselves makes no router public.
func TestMisspelledProofs(t *testing.T) {
	for text, want := range map[string]struct {
		public bool
		says   string
	}{
		`"http": {"token": ["0123456789abcdef"]}`:                                       {false, `error: the key "token" is not known; did you mean "tokens"?`},
		`"http": {"oath": {"issuers": []}}`:                                             {false, `error: the key "oath" is not known; did you mean "oauth"?`},
		`"http": {"oauth2": {}}`:                                                        {false, `error: the key "oauth2" is not known`},
		`"http": {"clientCa": "ca.pem"}`:                                                {false, `error: the key "clientCa" is not known`},
		`"http": {"certficates": {"CN=a": "ci"}}`:                                       {false, `error: the key "certficates" is not known`},
		`"htp": {"tokens": ["0123456789abcdef"]}`:                                       {false, `error: the key "htp" is not known`},
		`"htp": {"addr": "127.0.0.1:1"}`:                                                {false, `error: the key "htp" is not known; did`},
		`"oauth": {"issuers": []}`:                                                      {false, `error: the key "oauth" has no effect here; write it in metarouter.http`},
		`"http": {"adr": "127.0.0.1:1"}`:                                                {false, `error: the key "adr" is not known; did`},
		`"http": {"colour": 1}`:                                                         {true, `warning: the key "colour" is not known`},
		`"http": {"token": [], "tokens": [{"token": "0123456789abcdef", "name": "a"}]}`: {false, `error: the key "token"`},
	} {
		c := anyText(t, `{"metarouter": {`+text+`}}`)
		public := !isRefused(c) && c.Router.HTTP.isPublic()
		if said := saidOf(c); !strings.HasPrefix(said, want.says) || public != want.public {
			t.Errorf("%s: public is %v, it says %q", text, public, said)
		}
		if strings.Contains(want.says, "did you mean \"tokens") && c.Problems[0].Fix != `write "tokens" instead` {
			t.Errorf("%s: %s", text, c.Problems[0].Fix)
		}
	}
	if said := saidOf(anyText(t, `{"http": {"tokens": ["0123456789abcdef"]}}`)); !strings.HasPrefix(said, `error: the key "http" has no effect here; write it in metarouter`) {
		t.Errorf("outside of the router's settings: %q", said)
	}
	many := `{"metarouter": {"http": {` + repeat(maxStrange, func(i int) string { return fmt.Sprintf(`"k%d": 1, `, i) }) + `"token": ["0123456789abcdef"]}}}`
	if c := anyText(t, many); !isRefused(c) {
		t.Error("public after many unknown keys")
	}
}

// A public URL brings clients of other machines, who must prove something.
func TestPublicURLNeedsProof(t *testing.T) {
	t.Setenv("METAROUTER_TOKEN", "")
	for text, wrong := range map[string]bool{
		`"publicUrl": "https://r.example"`:                                 true,
		`"publicUrl": "http://10.0.0.1/x"`:                                 true,
		`"publicUrl": "http://localhost:8787"`:                             false,
		`"publicUrl": "http://[::1]:8787/x"`:                               false,
		`"publicUrl": ""`:                                                  false,
		`"publicUrl": "https://r.example", "tokens": ["0123456789abcdef"]`: false,
	} {
		said := saidOf(loadText(t, `{"metarouter": {"http": {`+text+`}}}`).Examine())
		expect.Equal(t, strings.Contains(said, `error: clients of other machines come by this "publicUrl"`), wrong, "%s: %q", text, said)
	}
	t.Setenv("METAROUTER_TOKEN", "0123456789abcdef")
	t.Cleanup(func() { // the package keeps the token once it was read
		t.Setenv("METAROUTER_TOKEN", "")
		secret.Token()
	})
	expect.Equal(t, saidOf(loadText(t, `{"metarouter": {"http": {"publicUrl": "https://r.example"}}}`).Examine()), "", "with a token of the environment")
}

// Metadata and audience come from "publicUrl".
func TestOAuthNeedsPublicURL(t *testing.T) {
	const oauth = `"oauth": {"issuers": [{"url": "https://id.example", "profiles": {"*": "default"}}]}`
	for url, want := range map[string]string{
		``:                                    `error: "oauth" lets no client in without "publicUrl"`,
		`"publicUrl": "http://r.example", `:   `warning: "publicUrl" is not encrypted`,
		`"publicUrl": "http://127.0.0.1:8", `: "",
		`"publicUrl": "https://r.example", `:  "",
	} {
		c := anyText(t, `{"metarouter": {"profiles": {"default": {}}, "http": {`+url+oauth+`}}}`)
		if said := saidOf(c); !strings.HasPrefix(said, want) || want == "" && said != "" {
			t.Errorf("%s: %q", url, said)
		}
	}
}

// A later file replaces the issuers of an earlier one, and mistakes are shown where they are.
func TestIssuersOfTwoFiles(t *testing.T) {
	c, err := load([]string{"/a", "/b"}, fakeWorld(map[string]string{
		"/a": `{"metarouter": {"http": {"oauth": {"issuers": [{"url": 1}]}}}}`,
		"/b": `{"metarouter": {"http": {"publicUrl": "https://r.example", "oauth": {"issuers": [{"url": "https://id.example", "profiles": {"g=d": "gone"}}]}}}}`,
	}, nil))
	if err != nil || len(c.Router.HTTP.Issuers) != 1 || c.Router.HTTP.Issuers[0].URL != "" {
		t.Fatalf("%v, %+v", err, c.Router.HTTP.Issuers)
	}
	if len(c.Problems) != 2 || c.Problems[0].File != "/a" || c.Problems[1].File != "/b" || c.Problems[1].Column != 125 {
		t.Errorf("%+v", c.Problems)
	}
}

// A text that is not trusted yet is not expanded.
func TestIssuersAsWritten(t *testing.T) {
	c, err := ReadText("/x", []byte(`{"metarouter": {"profiles": {"ci": {}}, "http": {"publicUrl": "${P}", "clientCA": "${CA}", "tlsCert": "c", "tlsKey": "k", "certificates": {"CN=a": "ci"},
		"oauth": {"issuers": [{"url": "${U}", "clientId": "${I}", "clientSecret": "${S}", "introspect": true, "jwksUrl": "${K}", "profiles": {"*": "ci"}}]}}, "audit": "${A}"}}`))
	if err != nil || len(c.Problems) > 0 {
		t.Fatalf("%v %v", err, c.Problems)
	}
	if i := c.Router.HTTP.Issuers[0]; i.URL != "${U}" || i.ClientSecret != "${S}" || i.KeysURL != "${K}" || c.Router.Audit.File != "${A}" {
		t.Errorf("%+v %+v", i, c.Router.Audit)
	}
}
