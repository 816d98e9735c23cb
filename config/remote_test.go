package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/reference"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestRemoteKeysOfClaudeCode(t *testing.T) {
	c := loadText(t, `{"mcpServers": {
		"remote": {"type": "http", "url": "https://a.example/mcp", "headersHelper": "./print ${HOST}",
			"oauth": {"clientId": "c", "callbackPort": 8080, "authServerMetadataUrl": "https://b.example/x", "scopes": "a b", "enabled": true}},
		"switch": {"url": "https://a.example/mcp", "oauth": true},
		"local": {"command": "x", "headersHelper": "./print", "oauth": {"clientId": "c"}},
		"wrong": {"url": "https://a.example/mcp", "headersHelper": ["./print"], "oauth": {"callbackPort": 70000, "authServerMetadataUrl": "b.example", "scopes": [1]}}}}`)
	byName := make(map[string]Server)
	for _, s := range c.Servers {
		byName[s.Name] = s
	}
	remote := byName["remote"]
	if len(remote.References) != 1 || remote.References[0].Kind != reference.Headers || remote.References[0].Body != "./print example.com" || remote.References[0].Dir == "" {
		t.Errorf("references %+v", remote.References)
	}
	expect.Deep(t, remote.OAuth, &OAuth{ClientID: "c", CallbackPort: 8080, AuthServerMetadataURL: "https://b.example/x", Scopes: []string{"a", "b"}}, "oauth")
	if s := byName["switch"]; s.Misconfigured != "" || s.OAuth != nil {
		t.Errorf("a switch: %+v", s)
	}
	if s := byName["local"]; s.Misconfigured != "" || s.References != nil || s.OAuth != nil {
		t.Errorf("a stdio server: %+v", s)
	}
	var said []string
	for _, p := range c.Problems {
		said = append(said, p.Server+": "+p.Message)
	}
	all := strings.Join(said, "\n")
	for _, want := range []string{
		`local: "headersHelper" has no effect`, `wrong: "headersHelper" must be a string`, `wrong: "callbackPort" must be a port`,
		`wrong: "authServerMetadataUrl" must be a whole URL`, `wrong: "scopes`,
	} {
		expect.Contains(t, all, want)
	}
}

func TestOAuthKeys(t *testing.T) {
	c := loadText(t, `{"mcpServers": {
		"all": {"url": "https://a.example/mcp", "credentials": "shared", "oauth": {
			"clientId": "c", "clientSecret": "${keyring:SECRET}", "keyId": "k", "algorithm": "ES256", "callbackUrl": "http://localhost:7/in",
			"clientMetadataUrl": "https://me.example/client.json", "resource": "api://x", "grant": "device_code"}},
		"key": {"url": "https://a.example/mcp", "oauth": {"clientId": "c", "privateKey": "${file:/k.pem}", "grant": "client_credentials", "resource": false}},
		"defaults": {"url": "https://a.example/mcp", "oauth": {"clientId": "", "callbackPort": 0, "callbackUrl": "", "clientMetadataUrl": "",
			"authServerMetadataUrl": "", "resource": "", "algorithm": "", "scopes": [], "grant": null}},
		"others": {"url": "https://a.example/mcp", "oauth": {"scope": "a b", "redirectUri": "http://127.0.0.1:9/cb", "enabled": true, "authorizationUrl": "https://i.example/a", "tokenUrl": "https://i.example/t"}},
		"kiro": {"url": "https://a.example/mcp", "oauth": {"redirectUri": "127.0.0.1:9"}}}}`)
	expect.List(t, c.Problems, nil, "problems")
	want := map[string]OAuth{
		"all": {ClientID: "c", ClientSecret: "${keyring:SECRET}", KeyID: "k", Algorithm: "ES256", CallbackURL: "http://localhost:7/in", CallbackPort: 7,
			ClientMetadataURL: "https://me.example/client.json", Resource: "api://x", Grant: "device_code"},
		"key":      {ClientID: "c", PrivateKey: "${file:/k.pem}", Grant: "client_credentials", NoResource: true},
		"defaults": {Scopes: []string{}},
		"others":   {Scopes: []string{"a", "b"}, CallbackURL: "http://127.0.0.1:9/cb", CallbackPort: 9},
		"kiro":     {},
	}
	for _, s := range c.Servers {
		got := *s.OAuth
		if len(got.Scopes) == 0 {
			got.Scopes = want[s.Name].Scopes
		}
		expect.Deep(t, got, want[s.Name], "%s", s.Name)
		if n := len(s.References); (s.Name == "all" || s.Name == "key") != (n == 1) {
			t.Errorf("%s has %d references", s.Name, n)
		}
	}
	if got := c.Servers[0].Launch().Secrets(); !slices.Contains(got, "${keyring:SECRET}") {
		t.Errorf("its secrets are %q", got)
	}
}

func TestOAuthMistakes(t *testing.T) {
	entry := func(oauth string) string { return `{"url": "https://a.example/mcp", "oauth": {` + oauth + `}}` }
	for text, want := range map[string]string{
		entry(`"grant": "client_credentials", "clientId": "c"`):          `error: "grant": "client_credentials" needs a client of its own`,
		entry(`"grant": "client_credentials", "clientSecret": "c"`):      `error: "grant": "client_credentials" needs a client of its own`,
		entry(`"grant": "password"`):                                     `error: "grant" must be`,
		entry(`"resource": true`):                                        `error: "resource" must be a URI, or false`,
		entry(`"resource": "x"`):                                         `error: "resource" must be a whole URI`,
		entry(`"clientMetadataUrl": "http://me.example/x"`):              `error: "clientMetadataUrl" must be an https URL`,
		entry(`"clientMetadataUrl": "https://me.example"`):               `error: "clientMetadataUrl" must be an https URL`,
		entry(`"callbackUrl": "localhost"`):                              `error: "callbackUrl" must be a whole URL`,
		entry(`"algorithm": "none"`):                                     `error: "algorithm" must be`,
		entry(`"callbackPort": 70000`):                                   `error: "callbackPort" must be a port from 1 to 65535`,
		entry(`"callbackPort": "80"`):                                    `error: "callbackPort" must be a port from 1 to 65535`,
		entry(`"clientID": "c"`):                                         `error: the key "clientID" is not known; did you mean "clientId"?`,
		entry(`"clientSecret": "s"`):                                     `warning: "clientSecret" and "privateKey" have no effect`,
		entry(`"clientId": "c", "clientSecret": "s", "privateKey": "k"`): `warning: "clientSecret" has no effect next to "privateKey"`,
		entry(`"clientSecret": "${NOT_SET}"`):                            "error: the variable NOT_SET is not set",
		entry(`"scopes": ["${keyring:X}"]`):                              "",
		entry(`"keyId": "${keyring:X}"`):                                 `error: a reference to a secret such as ${keyring:X} works only in`,
		`{"url": "https://a.example/mcp", "headers": {"authorization": "x"}, "oauth": {"clientId": "c"}}`:                                                            `warning: "oauth" has no effect, since "headers" has`,
		`{"url": "https://a.example/mcp", "credentials": "user"}`:                                                                                                    "",
		`{"url": "https://a.example/mcp", "credentials": "user", "headers": {"authorization": "x"}}`:                                                                 `error: "credentials": "user" has no effect next to an "Authorization"`,
		`{"url": "https://a.example/mcp", "credentials": "user", "headers": {"Authorization": "Bearer ${user:k}"}}`:                                                  `error: "credentials": "user" has no effect next to an "Authorization" in "headers"; remove one of them`,
		`{"url": "https://a.example/mcp", "credentials": "user", "headersHelper": "x"}`:                                                                              `error: "credentials": "user" and "headersHelper" exclude each other`,
		`{"url": "https://a.example/mcp", "credentials": "user", "service": "x"}`:                                                                                    `error: "credentials": "user" and "service" exclude each other`,
		`{"url": "https://a.example/mcp", "credentials": "user", "oauth": {"grant": "client_credentials", "clientId": "c", "clientSecret": "s"}}`:                    `error: "credentials": "user" needs a login of each user`,
		`{"url": "https://a.example/mcp", "credentials": "user", "oauth": {"grant": "device_code"}}`:                                                                 `error: "credentials": "user" and "grant": "device_code" exclude each other`,
		`{"url": "https://a.example/mcp", "credentials": "user", "oauth": {"grant": "device_code"}, "exchange": {"audience": "a", "resource": "b", "scope": "c d"}}`: "",
		`{"url": "https://a.example/mcp", "credentials": "user", "oauth": {"clientId": "a"}, "exchange": {"type": "id-jag"}}`:                                        "",
		`{"url": "https://a.example/mcp", "credentials": "user", "exchange": {"type": "id-jag"}}`:                                                                    `error: "type": "id-jag" needs the router's client at the server's issuer; write "oauth": {"clientId"`,
		`{"url": "https://a.example/mcp", "credentials": "user", "exchange": {"type": "idjag"}}`:                                                                     `error: "type" must be "access_token" or "id-jag"; did you mean "id-jag"?`,
		`{"url": "https://a.example/mcp", "exchange": {}}`:                                                                                                           `error: "exchange" gives each user a token of their own; write "credentials": "user"`,
		`{"command": "x", "exchange": {}}`:                                                                           `error: "exchange" gives each user a token of their own; write "credentials": "user"`,
		`{"url": "https://a.example/mcp", "credentials": "user", "exchange": "a"}`:                                   `error: "exchange" must be an object; write {"audience"`,
		`{"url": "https://a.example/mcp", "credentials": "user", "exchange": null}`:                                  `error: "exchange" must not be null`,
		`{"url": "https://a.example/mcp", "credentials": "user", "exchange": {"audiance": "a"}}`:                     `error: the key "audiance" is not known`,
		`{"url": "https://a.example/mcp", "credentials": "user", "exchange": {"scope": 1}}`:                          `error: "scope" must be`,
		`{"url": "https://a.example/mcp", "credentials": "user", "headers": {"authorization": "x"}, "exchange": {}}`: `error: "credentials": "user" has no effect next to an "Authorization"`,
		`{"command": "x", "env": {"A": "${user:k}"}}`:                                                                `error: ${user:k} works only for a remote server, since one process of a stdio server serves all users`,
		`{"url": "https://a.example/${user:k}"}`:                                                                     `error: ${user:k} works only in "headers"`,
		`{"url": "https://a.example/mcp", "headers": {"A": "${claim:k}"}, "service": "x"}`:                           `error: ${claim:k} and "service" exclude each other`,
		`{"url": "https://a.example/mcp", "headers": {"A": "${user:k:-x}"}}`:                                         `error: ${user:k:-x} has no valid name`,
		`{"url": "https://a.example/mcp", "headers": {"A": "${user:k}", "B": "x ${claim:c}"}}`:                       "",
		`{"command": "x", "credentials": "user"}`:                                                                    `error: "credentials": "user" works only for a remote server`,
		`{"url": "https://a.example/mcp", "credentials": "mine"}`:                                                    `error: "credentials" must be "shared"`,
	} {
		c := loadText(t, `{"mcpServers": {"s": `+text+`}}`)
		var said []string
		for _, p := range c.Problems {
			said = append(said, p.Severity+": "+p.Message)
		}
		if all := strings.Join(said, "\n"); !strings.HasPrefix(all, want) || want == "" && all != "" {
			t.Errorf("%s: %q, want %q", text, all, want)
		}
		expect.Equal(t, strings.HasPrefix(want, "error"), c.Servers[0].Misconfigured != "", "%s: misconfigured %q", text, c.Servers[0].Misconfigured)
	}
}

func TestPublicURL(t *testing.T) {
	for text, want := range map[string]string{
		"https://router.example": "https://router.example", "http://router.example:80/": "http://router.example:80", "": "", "https://${HOST}": "https://example.com",
		"https://router.example/a/b.c/": "https://router.example/a/b.c", "https://router.example/tools-mcp": "https://router.example/tools-mcp",
		"https://router.example/mcp": "!", "https://router.example/mcp/": "!", "https://router.example/a/mcp": "!", "https://router.example/a/mcp/p/dev": "!", "https://router.example/mcp/p/": "!", "https://router.example/mcp/s/files": "!",
		"https://router.example//": "!", "https://router.example/a//b": "!", "https://router.example/a/../b": "!", "https://router.example/./": "!", "https://router.example/a%2fb": "!", "https://:80": "!",
		"https://router.example/a b": "!", "https://router.example/a;b": "!", "HTTPS://Router.example": "https://Router.example", "https://router.example/" + strings.Repeat("a", 512): "!",
		"router.example": "!", "https://a@router.example": "!", "https://router.example?x": "!", "https://router.example#": "!",
		"ftp://router.example": "!", "https://": "!", "https://${NOT_SET}": "!",
	} {
		c := anyText(t, `{"mcpServers": {}, "metarouter": {"http": {"publicUrl": "`+text+`", "allowedHosts": ["other"]}}}`)
		got := c.Router.HTTP.PublicURL
		if len(c.Problems) > 0 {
			got = "!"
		}
		expect.Equal(t, got, want, "%q: %v", text, c.Problems)
	}
	if keys := RestartKeys(Router{}, Router{HTTP: HTTP{PublicURL: "https://x"}}); keys != nil {
		t.Errorf("an edit waits for a start: %v", keys)
	}
}

func TestOAuthKeyTwice(t *testing.T) {
	c := loadText(t, `{"mcpServers": {"s": {"url": "https://a.example/mcp", "oauth": {"clientId": "c", "clientId": "d"}}}}`)
	if len(c.Problems) != 1 || !strings.Contains(c.Problems[0].Message, `"clientId" is here twice`) || c.Servers[0].OAuth.ClientID != "d" {
		t.Errorf("problems %v, oauth %+v", c.Problems, c.Servers[0].OAuth)
	}
}
