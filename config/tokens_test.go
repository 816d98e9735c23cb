package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// hashOfSecret is the SHA-256 of sk-secret, the value of TOKEN in the tests.
var hashOfSecret = plainToken("sk-secret").Hash

func TestTokens(t *testing.T) {
	digits := strings.Repeat("0aB1", 16)
	for _, tt := range []struct {
		token string
		want  Token
		says  string // "" for no problem
	}{
		{`"${TOKEN}"`, Token{Hash: hashOfSecret, Role: roleAdmin, Plain: true, Text: "sk-secret"}, ""},
		{`"sha256:` + digits + `"`, Token{Hash: strings.ToLower(digits), Role: roleAdmin, Plain: true}, ""},
		{`{"token": "${TOKEN}"}`, Token{Hash: hashOfSecret, Role: roleUse, Text: "sk-secret"}, ""},
		{`{"token": "sha256:` + digits + `", "name": "ci", "profile": "work", "role": "admin"}`, Token{Hash: strings.ToLower(digits), Name: "ci", Profile: "work", Role: roleAdmin}, ""},
		{`{"token": "${TOKEN}", "rate": "30/m burst 5"}`, Token{Hash: hashOfSecret, Role: roleUse, Rate: Rate{PerSecond: 0.5, Burst: 5}, Text: "sk-secret"}, ""},
		{`{"token": "${TOKEN}", "rate": "fast"}`, Token{}, `"rate" must be a rate`},
		{`{"token": "${TOKEN}", "role": null}`, Token{}, `"role" must not be null`},

		{`{"token": "${NOPE}"}`, Token{}, "the variable NOPE is not set, so this token lets no client in; set it"},
		{`{"token": ""}`, Token{}, "an empty token proves nothing"},
		{`{"token": 5}`, Token{}, `"token" must be a string`},
		{`{"name": "ci"}`, Token{}, `it has no "token"`},
		{`{}`, Token{}, `it has no "token"`},
		{`"sha256:abc"`, Token{}, "needs 64 hexadecimal digits"},
		{`{"token": "sha256:` + digits[1:] + `"}`, Token{}, "needs 64 hexadecimal digits"},
		{`{"token": "${TOKEN}", "role": "root"}`, Token{}, `"role" must be "use" or "admin"`},
		{`{"token": "${TOKEN}", "role": "Admin"}`, Token{}, `"role" must be "use" or "admin"`},
		{`{"token": "${TOKEN}", "name": "c i"}`, Token{}, `"name" must have 1 to 64`},
		{`{"token": "${TOKEN}", "profil": "work"}`, Token{}, `did you mean "profile"`},
		{`{"token": "${TOKEN}", "colour": "red"}`, Token{}, `"colour" is not known`},
		{`{"token": "${TOKEN}", "profile": "Work"}`, Token{}, `"profile" must be the name of a profile`},
	} {
		c := loadText(t, `{"metarouter": {"http": {"tokens": [`+tt.token+`]}, "profiles": {"work": {}}}}`)
		expect.Deep(t, c.Router.HTTP.Tokens, []Token{tt.want}, "%s", tt.token)
		said := saidOf(c)
		if tt.says == "" && strings.Contains(said, "token") || !strings.Contains(said, tt.says) || strings.Contains(said, "sk-secret") {
			t.Errorf("%s: it says %q, want %q", tt.token, said, tt.says)
		}
	}
}

// A mistake in one token lets no client in, and keeps no other token out.
func TestTokensTogether(t *testing.T) {
	for _, tt := range []struct{ tokens, says string }{
		{`"${TOKEN}", {"token": "${TOKEN}"}`, "1:49: it is here twice"},
		{`{"token": "a", "name": "ci"}, {"token": "b", "name": "ci"}`, `two tokens are named "ci"`},
		{`{"token": "a", "name": "ci", "profile": "gone"}`, `there is no profile "gone", so this token lets no client in; write`},
	} {
		c := loadText(t, `{"metarouter": {"http": {"tokens": [`+tt.tokens+`]}}, "mcpServers": {"s": {"command": "x"}}}`)
		if len(c.Problems) != 1 || c.Problems[0].Server != "" || !strings.Contains(c.Problems[0].Error(), tt.says) {
			t.Errorf("%s: %v, want %q", tt.tokens, c.Problems, tt.says)
		}
		if all := c.Router.HTTP.Tokens; !reflect.DeepEqual(all[len(all)-1], Token{}) || len(all) > 1 && all[0].Hash == "" {
			t.Errorf("%s: %+v", tt.tokens, all)
		}
	}
}

func TestRate(t *testing.T) {
	for said, want := range map[string]Rate{
		`""`:                               {},
		`"100/s"`:                          {PerSecond: 100, Burst: 100},
		`"600/m"`:                          {PerSecond: 10, Burst: 10},
		`"30 / minute"`:                    {PerSecond: 0.5, Burst: 1},
		`"36/h"`:                           {PerSecond: 0.01, Burst: 1},
		`"2.5/s"`:                          {PerSecond: 2.5, Burst: 3},
		`"100/s burst 200"`:                {PerSecond: 100, Burst: 200},
		`" 1 / Sec  Burst 1 "`:             {PerSecond: 1, Burst: 1},
		`"100"`:                            {PerSecond: -1, Burst: 0},
		`100`:                              {PerSecond: -1, Burst: 0},
		`"0/s"`:                            {PerSecond: -1, Burst: 0},
		`"-1/s"`:                           {PerSecond: -1, Burst: 0},
		`"NaN/s"`:                          {PerSecond: -1, Burst: 0},
		`"Inf/s"`:                          {PerSecond: -1, Burst: 0},
		`"1/day"`:                          {PerSecond: -1, Burst: 0},
		`"1/s burst"`:                      {PerSecond: -1, Burst: 0},
		`"1/s burst 0"`:                    {PerSecond: -1, Burst: 0},
		`"1/s burst 1 burst 2"`:            {PerSecond: -1, Burst: 0},
		`"1/s burst 99999999999999999999"`: {PerSecond: -1, Burst: 0},
	} {
		c := anyText(t, fmt.Sprintf(`{"metarouter": {"http": {"rate": %s}}}`, said))
		if want.PerSecond < 0 {
			if len(c.Problems) != 1 || !isRefused(c) {
				t.Errorf("%s: %+v, %v", said, c.Router.HTTP.Rate, c.Problems)
			}
			continue
		}
		if len(c.Problems) > 0 || c.Router.HTTP.Rate != want {
			t.Errorf("%s: %+v, want %+v; %v", said, c.Router.HTTP.Rate, want, c.Problems)
		}
	}
}

// A mistake about TLS must not have us serve without.
func TestTLSFiles(t *testing.T) {
	for said, want := range map[string]string{
		`"tlsCert": "a"`:                         "need each other",
		`"tlsKey": "a"`:                          "need each other",
		`"tlsCert": "${NOT_SET}", "tlsKey": "a"`: "NOT_SET",
		`"tlsCert": 1, "tlsKey": 2`:              "must be a string",
	} {
		c := anyText(t, "{\"metarouter\": {\n\"http\": {"+said+"}}}")
		if !isRefused(c) || len(c.Problems) == 0 || c.Problems[0].Line != 2 || !strings.Contains(c.Problems[0].Message, want) {
			t.Errorf("%s: it is refused: %v, %v", said, isRefused(c), c.Problems)
		}
	}
}
