package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/reference"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// secretsOf returns the values of references by their bodies; others have none.
func secretsOf(values map[string]string) func(string, []reference.Reference) (string, error) {
	return func(text string, references []reference.Reference) (string, error) {
		for _, one := range references {
			value, ok := values[one.Body]
			if !ok {
				return "", errors.New("it is not set")
			}
			text = strings.ReplaceAll(text, one.Text, value)
		}
		return text, nil
	}
}

func TestWithSecrets(t *testing.T) {
	digits := strings.Repeat("0a", 32)
	values := map[string]string{"CI": "sk-secret", "HASH": "sha256:" + digits, "WORDS": "a b", "EMPTY": "", "CUT": "sha256:abc"}
	full := func(t Token) Token { t.Name, t.Role = "ci", roleUse; return t }
	for _, tt := range []struct {
		token string
		want  Token
		says  string // "" for no problem
	}{
		{`"${keyring:CI}"`, Token{Hash: hashOfSecret, Role: roleAdmin, Plain: true, Text: "sk-secret"}, ""},
		{`{"token": "${keyring:CI}", "name": "ci"}`, full(Token{Hash: hashOfSecret, Text: "sk-secret"}), ""},
		{`{"token": "${keyring:HASH}", "name": "ci"}`, full(Token{Hash: digits}), ""},
		{`{"token": "x-${keyring:CI}", "name": "ci"}`, full(Token{Hash: plainToken("x-sk-secret").Hash, Text: "x-sk-secret"}), ""},
		{`"${keyring:WORDS}"`, Token{}, `the secret of the token "${keyring:WORDS}" can't be read`},
		{`{"token": "${keyring:NOPE}", "name": "ci"}`, Token{}, `this token lets no client in: the secret of the token "ci" can't be read: it is not set`},
		{`{"token": "${keyring:WORDS}"}`, Token{}, "must be one token"},
		{`{"token": "${keyring:EMPTY}"}`, Token{}, "must be one token"},
		{`{"token": "${keyring:CUT}"}`, Token{}, "must be one token"},
		{`"${user:CI}"`, Token{}, `works only in "headers" of a remote server`},
		{`"${claim:CI}"`, Token{}, `works only in "headers" of a remote server`},
		{`"${keyring:a b}"`, Token{}, "has no valid name"},
		{`"${cmd:}"`, Token{}, "has no command"},
		{`"${keyring:CI"`, Token{}, "has no end"},
	} {
		c := loadText(t, `{"metarouter": {"http": {"tokens": [`+tt.token+`]}}}`)
		if got := c.Router.HTTP.Tokens; len(got) != 1 || got[0].Hash+got[0].Text != "" {
			t.Errorf("%s: before its value is known, it is %+v", tt.token, got)
		}
		c = c.WithSecrets(secretsOf(values))
		if got := c.Router.HTTP.Tokens; len(got) != 1 || !reflect.DeepEqual(got[0], tt.want) {
			t.Errorf("%s: got %+v, want %+v", tt.token, got, tt.want)
		}
		if said := saidOf(c); !strings.Contains(said, tt.says) || tt.says == "" && said != "" || strings.Contains(said, "sk-secret") {
			t.Errorf("%s: it says %q, want %q", tt.token, said, tt.says)
		}
	}
}

// References in tokens and issuers are not mixed up with those of servers, and the same one may be in several.
func TestReferringTogether(t *testing.T) {
	const text = `{"mcpServers": {"s": {"command": "x", "env": {"A": "${keyring:CI}"}}, "z": {"command": "x", "env": {"A": "${keyring:CI}"}}}, "metarouter": {"profiles": {"work": {}}, "http": {
		"publicUrl": "https://r.example",
		"tokens": ["${keyring:CI}", {"token": "${keyring:CI}", "name": "twice"}, {"token": "${keyring:OPS}", "name": "ops", "profile": "gone"},
			{"token": "${keyring:AGAIN}", "name": "again"}],
		"oauth": {"issuers": [
			{"url": "https://a.example", "profiles": {"*": "work"}, "clientId": "me", "clientSecret": "${keyring:CI}", "introspect": true},
			{"url": "https://b.example", "profiles": {"*": "work"}, "clientId": "me", "clientSecret": "${file:gone}"},
			{"url": "https://d.example", "profiles": {"*": "work"}, "clientId": "me", "clientSecret": "${keyring:LINES}"},
			{"url": "https://c.example", "profiles": {"*": "work"}, "clientId": "me", "audience": "${keyring:CI}"}]}}}}`
	c := loadText(t, text)
	says := saidOf(c)
	for _, want := range []string{"it is here twice", `there is no profile "gone"`, `in "clientSecret" and "privateKey" of "oauth", and in "tokens" of "http"`} {
		expect.Contains(t, says, want)
	}
	for _, s := range c.Servers {
		expect.Equal(t, len(s.References), 1, "%s has the references %v", s.Name, s.References)
	}
	resolved := c.WithSecrets(secretsOf(map[string]string{"CI": "sk-secret", "AGAIN": "sk-secret", "OPS": "sk-ops", "LINES": "sk\nops"}))
	var hashes, issuers []string
	for _, token := range resolved.Router.HTTP.Tokens {
		hashes = append(hashes, token.Hash)
	}
	for _, i := range resolved.Router.HTTP.Issuers {
		issuers = append(issuers, i.URL+" "+i.ClientSecret)
	}
	if !slices.Equal(hashes, []string{hashOfSecret, "", "", ""}) || !slices.Equal(issuers, []string{"https://a.example sk-secret", " ", " ", " "}) {
		t.Errorf("the tokens are %q, the issuers %q", hashes, issuers)
	}
	said := saidOf(resolved)
	for _, want := range []string{"this issuer lets no client in: the secret of https://b.example can't be read", "https://d.example can't be read: its value must be one line", `"again" can't be read: its value is another token's, too`} {
		expect.Contains(t, said, want)
	}
	expect.Equal(t, strings.Contains(said, "sk-"), false, "it says %q", said)
	if shown := fmt.Sprintf("%+v", c.Router.HTTP); strings.Contains(shown, "sk-secret") {
		t.Errorf("the configuration before has a value: %s", shown)
	}
}
