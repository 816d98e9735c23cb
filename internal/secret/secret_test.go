package secret

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestNamed(t *testing.T) {
	for name, want := range map[string]bool{
		"password": true, "Api_Key": true, "api-key": true, "x-auth": true, "X-Auth-Token": true, "oauth2": true, "dbPass": true, "DB_PASS": true, "pass": true,
		"clientSecret": true, "STRIPE_SECRET_KEY": true, "set-cookie": true, "PIN": true, "userPin": true, "DB_PWD": true, "pass word": true, "Password (again)": true,
		"passwort": true, "passkey": true, "-storepass": true, "token1": true, "access_token:": true, strings.Repeat("password", 100): true,

		"": false, "token_count": false, "tokenizer": false, "author": false, "authority": false, "keyboard": false, "monkey": false, "key": false, "spin": false,
		"email": false, "account": false, "session": false, "-u": false, "key_path": false, "compass": false, "bypass": false, "shipping": false, "name": false, "3": false, "é": false,
	} {
		expect.Equal(t, Named(name), want, "%q is the name of a secret", name)
	}
}

// In each pair the second is the shown text of the first.
func TestHide(t *testing.T) {
	for _, tt := range [][2]string{
		{"", ""},
		{"Bearer abcdefgh123", "***"},
		{"curl -H 'Authorization: Bearer abcdefgh123' https://x", "curl -H 'Authorization: ***' https://x"},
		{"Authorization: Basic dTpw\nHost: x", "Authorization: ***\nHost: x"},
		{"curl -H 'Cookie: a=b; c=d' x", "curl -H 'Cookie: ***' x"},
		{"sk-ant-api03-abcdefghijkl and ghp_abcdefghijklmnop1234", "*** and ***"},
		{"a -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- b", "a *** b"},
		{"-----BEGIN PRIVATE KEY-----\nMIIE cut", "***"},
		{"postgres://me:p@w@host/db and https://token@host", "postgres://***@host/db and https://***@host"},
		{"https://host/?a=1&api_key=xyz&b=2", "https://host/?a=1&api_key=***&b=2"},
		{"https://host/?key=xyz&X-Amz-Signature=ab&sig=cd&page=2", "https://host/?key=***&X-Amz-Signature=***&sig=***&page=2"},
		{`{"password": "hun\"ter2", "a": 1}`, `{"password": ***, "a": 1}`},
		{`{\"password\":\"hunter2\",\"a\":1}`, `{\"password\":***,\"a\":1}`},
		{"config: password=hunter2", "config: password=***"},
		{"export STRIPE_SECRET_KEY=abc DB_PASS=abc LANG=C", "export STRIPE_SECRET_KEY=*** DB_PASS=*** LANG=C"},
		{"mysql --password hunter2 --host x --port=1", "mysql --password *** --host x --port=1"},
		{"mysql --password -h x", "mysql --password -h x"},
		{"--password=-x", "--password=***"},
		{"token := 'a b'", "token := ***"},
		{"password=", "password="},
		{"run -y --password x", "run -y --password ***"},
		{`PW='' TOKEN='a b' TOKEN=""d"" TOKEN=\'e\'`, `PW=*** TOKEN=*** TOKEN=***"" TOKEN=***`},
		{"COOKIE=a TOKEN=\"b\"", "COOKIE=***"},
		{"COOKIE=a run --token \"b\"", "COOKIE=***"},
		{"run --secret TOKEN=\"a b\" x", "run --secret *** x"},
		{"X-Auth: token a", "X-Auth: ***"},
		{"token=${T} 'Authorization: Bearer ${T}' https://u:${P}@h", "token=${T} 'Authorization: Bearer ${T}' https://***@h"},
		{"--token ${T} https://${U}@h", "--token ${T} https://${U}@h"},

		{"mail@example.com", "mail@example.com"}, {"https://host/path@2x.png", "https://host/path@2x.png"}, {"risk-free", "risk-free"},
		{"Basic English", "Basic English"}, {"author: me, key: b", "author: me, key: b"}, {"token_count=3", "token_count=3"}, {"https://h/?q=x", "https://h/?q=x"},
	} {
		expect.Equal(t, Hide(tt[0], "***"), tt[1], "%s", tt[0])
		expect.Equal(t, Hide(tt[1], "***"), tt[1], "… is hidden again")
	}
	expect.Equal(t, Hide("https://a:b@c password=d", "$1"), "https://$1@c password=$1")
}

func TestWords(t *testing.T) {
	for _, tt := range [][2]string{
		{"npx -y pkg --api-key x --token=y z", "npx -y pkg --api-key … --token=… z"},
		{"--token --verbose", "--token --verbose"},
		{"API_KEY=x cmd postgres://u:p@h", "API_KEY=… cmd postgres://…@h"},
		{"0123456789abcdefghijklmnop", "…"},
		{"--id=0123456789abcdefghijklmnop", "--id=…"},
		{"@modelcontextprotocol/server-filesystem@2026.1.14 /a/long/path/that/is/0123456789/no/secret", "@modelcontextprotocol/server-filesystem@2026.1.14 /a/long/path/that/is/0123456789/no/secret"},
		{"--keyboard us --author me -", "--keyboard us --author me -"},
	} {
		expect.Equal(t, strings.Join(Words(strings.Fields(tt[0]), "…"), " "), tt[1], "%s", tt[0])
	}
}

func TestSecretsOfALaunch(t *testing.T) {
	got := Launch{
		Env:     map[string]string{"GITHUB_TOKEN": "one", "LANG": "C", "PWD": "/project", "KEY": "sk-proj-abcdefghijklmnop"},
		Headers: map[string]string{"Authorization": "Bearer two", "X-Custom": "three"},
		Args:    []string{"-y", "pkg", "--api-key", "four", "--token=five"},
		URL:     "https://u:six@host/0123456789abcdefghijklmnop/mcp?apiKey=seven&page=1",
	}.Secrets()
	want := []string{"one", "sk-proj-abcdefghijklmnop", "Bearer two", "two", "three", "four", "five", "six", "0123456789abcdefghijklmnop", "seven"}
	slices.Sort(got)
	got = slices.Compact(got)
	slices.Sort(want)
	expect.List(t, got, want)
}

func TestMaybe(t *testing.T) {
	for name, want := range map[string]bool{
		"password": true, "email": true, "accountId": true, "author": true, "token_count": true, "session-name": true, "key": true, "x-key-1": true, "sshKeys": true, "GITHUB_PAT": true, "pass.x": true, "-u": true, "--user": true, "sig": true,
		"": false, "-": false, "u": false, "user": false, "--username": false, "path": false, "pattern": false, "keyboard": false, "monkey": false, "passive": false, "level": false, "\xff": false,
	} {
		expect.Equal(t, Maybe(name), want, "%q may be the name of a secret", name)
	}
}

// In each pair the second is the shown text of the first.
func TestHideMaybe(t *testing.T) {
	for _, tt := range [][2]string{
		{"", ""}, {"--level=3 /a/tokens/b", "--level=3 /a/tokens/b"}, {"npm_config, sk-12345", "npm_config, sk-12345"},
		{"x: sk-123456 hf_12345678", "x: *** ***"},
		{"X-Account: a b, c", "X-Account: ***"},
		{"--auth-file=a b", "--auth-file=***"},
		{"curl -u a:b -x c", "curl -u *** -x c"},
		{"run --token -x y", "run --token *** y"},
		{"a=${T} TOKEN=${T} ?k=${T} https://u:${T}@h", "a=${T} TOKEN=${T} ?k=${T} https://u:${T}@h"},
		{"https://u:p'\"<@h/a1b2c3d4e5f6g7h8/x?a=b&c='d'#e", "https://u:***@h/***/x?a=***&c=***'#e"},
		{"basic abcdef, bearer $TOKEN", "basic ***, bearer $TOKEN"},
		{`{"email": "a b", "x": 1}`, `{"email": ***, "x": 1}`},
	} {
		expect.Equal(t, HideMaybe(tt[0], "***"), tt[1], "%s", tt[0])
	}
}

// BenchmarkHide has as many bytes a second for long lines as for short ones.
func BenchmarkHide(b *testing.B) {
	for name, hide := range map[string]func(text, hidden string) string{"Hide": Hide, "HideMaybe": HideMaybe} {
		for _, names := range []int{1 << 6, 1 << 10, 1 << 14} {
			b.Run(fmt.Sprintf("%s/names=%d", name, names), func(b *testing.B) {
				line := strings.Repeat("token=", names)
				b.SetBytes(int64(len(line)))
				for b.Loop() {
					hide(line, "***")
				}
			})
		}
	}
}

// Every text remains a text, and no secret is found in a hidden text. A plain text
// has nothing to be found.
func FuzzHide(f *testing.F) {
	for _, seed := range []string{"password=x", `\"token\": \"x`, "https://a@b", "--key -x", "Cookie: a=b", "\xff:=", "é=é", "eyJabcdefgh", "/xoxa-abcdefgh,", "é\fx", "AKIA", "--key\tx", "--key\nx", "--key\fx", "--key\rx"} {
		f.Add(seed)
	}
	for _, begin := range []string{
		"sk-", "pk_", "rk-", "ghp_", "github_pat_", "glpat-", "gloas-", "glagent-", "xoxb-", "AKIA", "ASIAABCDEF", "ABIAABCDEF", "ACCAABCDEF", "AIza", "ya29.",
		"pypi-AgE", "npm_", "hf_", "dop_v1_", "dckr_pat_", "shpat_", "lin_api_", "ntn_", "figd_", "secret_", "eyJ",
	} {
		text := begin + strings.Repeat("a", 40)
		if !forms().MatchString(text) {
			f.Errorf("%s is no token", text)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, expression := range []*regexp.Regexp{forms(), named(), userinfo(), address()} {
			if isPlain(text) && expression.MatchString(text) {
				t.Fatalf("%q is not plain, it matches %v", text, expression)
			}
		}
		const token = "ghp_abcdefghijklmnopqrst"
		for _, hide := range []func(text, hidden string) string{Hide, HideMaybe} {
			if got := hide(text+" "+token+" ", "***"); strings.Contains(got, token) {
				t.Fatalf("the token is in %q", got)
			}
		}
	})
}
