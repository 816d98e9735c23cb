package telemetry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// In each pair the second is the shown form of the first.
func TestMask(t *testing.T) {
	var m Mask
	m.Learn(config.Config{
		Servers: []config.Server{{
			Env:     map[string]string{"GITHUB_TOKEN": "configured-1", "LANG": "en_US.UTF-8", "PWD": "/project", "DSN": "short", "KEY": "sk-proj-abcdefghijklmnop"},
			Headers: map[string]string{"Authorization": "Bearer configured-2", "X-Custom": "configured-3"},
		}},
		Router: config.Router{Cluster: &config.Cluster{URLs: []string{"nats://u:configured-6@h", "nats://configured-7@h"}}, HTTP: config.HTTP{Tokens: []config.Token{config.Token{Text: "configured-4"}}, Issuers: []config.Issuer{{ClientSecret: "configured-5"}}}},
	})
	jwt := "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
	for _, tt := range [][2]string{
		{`{}`, `{}`},
		{` {"a" : [1, 2.50, true, null, "x"] } `, `{"a":[1,2.50,true,null,"x"]}`},
		{"true\n", `true`},
		{"\"a\\nb\"", `"a\nb"`},
		{`nonsense`, `null`},
		{``, `null`},

		// By key, at any depth, whatever the value.
		{`{"password":"hunter2"}`, `{"password":"***"}`},
		{`{"a":[{"Api-Key":"x","b":{"client_secret":{"c":["d"]}}}]}`, `{"a":[{"Api-Key":"***","b":{"client_secret":"***"}}]}`},
		{`{"dbPassword":1234,"accessToken":"x","auth":"x","Authorization":"x","set-cookie":"x","PIN":1,"DB_PWD":"x"}`,
			`{"Authorization":"***","DB_PWD":"***","PIN":"***","accessToken":"***","auth":"***","dbPassword":"***","set-cookie":"***"}`},
		{`{"pass\u0077ord":"hunter2"}`, `{"password":"***"}`},
		{`{"max_tokens":500,"tokens":["a"],"password":null,"secret":false}`, `{"max_tokens":500,"password":null,"secret":false,"tokens":"***"}`},
		{`{"author":"x","shipping":"x","token_count":3,"tokenizer":"x","spin":1}`, `{"author":"x","shipping":"x","spin":1,"token_count":3,"tokenizer":"x"}`},

		// By form, wherever.
		{`["Bearer abcdefgh123"]`, `["***"]`},
		{`["curl -H 'Authorization: Bearer abcdefgh123' https://x"]`, `["curl -H 'Authorization: ***' https://x"]`},
		{`["sk-ant-api03-abcdefghijkl and ghp_abcdefghijklmnop1234"]`, `["*** and ***"]`},
		{`["AKIAIOSFODNN7EXAMPLE","github_pat_11AAAAAAA0abcdefgh","xoxb-123456789-abc","AIzaSyA-1234567890abcdefghij"]`, `["***","***","***","***"]`},
		{`["` + jwt + `"]`, `["***"]`},
		{`["a -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- b"]`, `["a *** b"]`},
		{`["-----BEGIN PRIVATE KEY-----\nMIIE cut"]`, `["***"]`},
		{`["postgres://me:pw@host/db and https://token@host"]`, `["postgres://***@host/db and https://***@host"]`},
		{`["https://host/?a=1&api_key=xyz&b=2"]`, `["https://host/?a=1&api_key=***&b=2"]`},

		// In JSON within strings, on command lines, in forms.
		{`["{\"cookie\": \"hunter2\", \"a\": 1}"]`, `["{\"a\":1,\"cookie\":\"***\"}"]`},
		{`["{\"a\":\"{\\\"credential\\\":[1]}\"}"]`, `["{\"a\":\"{\\\"credential\\\":\\\"***\\\"}\"}"]`},
		{`["log: {\"password\": \"hunter2\", \"a\": 1}"]`, `["log: {\"password\": ***, \"a\": 1}"]`},
		{`["--password","hunter2","--host","x","--token","-v"]`, `["--password","***","--host","x","--token","-v"]`},
		{`[{"name":"Password","ref":"e1","value":"hunter2"},{"value":"a","name":"City"},{"type":"password","value":"b"}]`,
			`[{"name":"Password","ref":"e1","value":"***"},{"name":"City","value":"a"},{"type":"password","value":"***"}]`},
		{`{"password":"a","password":"b","PASS":"c"}`, `{"PASS":"***","password":"***"}`},
		{`{"sk-proj-abcdefghijklmnop":1}`, `{"***":1}`},
		{`["mail@example.com","https://host/path@2x.png","risk-free","Basic English"]`, `["mail@example.com","https://host/path@2x.png","risk-free","Basic English"]`},

		// By the configuration.
		{`["xconfigured-1x","configured-2","configured-3","configured-4","configured-5","configured-6","configured-7","en_US.UTF-8","/project","short"]`, `["x***x","***","***","***","***","***","***","en_US.UTF-8","/project","short"]`},

		// What is long is cut, in whole characters.
		{`["` + strings.Repeat("é", 200) + `"]`, `["` + strings.Repeat("é", 128) + `… (400 bytes)"]`},
	} {
		expect.Equal(t, string(m.append(nil, []byte(tt[0]))), tt[1], "%s", tt[0])
	}
}

// A secret at the end of the searched part of a long string is not shown.
func TestMaskOfCut(t *testing.T) {
	var m Mask
	secret := "ghp_" + strings.Repeat("a1B2", 9)
	for before := maskedString - len(secret) - 2; before <= maskedString+2; before++ {
		long := strings.Repeat("Bearer 0123456789abcdef ", 10000)[:before] + secret
		got := string(m.append(nil, wire.AppendString(nil, long)))
		if strings.Contains(got, "ghp_") || strings.Contains(got, "0123") {
			t.Fatalf("behind %d bytes: %s", before, got)
		}
	}
	deep := strings.Repeat(`{"a":`, 500) + `"ghp_aaaaaaaaaaaaaaaaaaaa"` + strings.Repeat("}", 500)
	if got := string(m.append(nil, []byte(deep))); strings.Contains(got, "ghp_") || !wire.Valid([]byte(got)) {
		t.Errorf("got %s", got)
	}
	wide := "[" + strings.Repeat(`"some words of a list",`, 1000) + `"x"]`
	got := m.append([]byte("kept"), []byte(wide))
	if len(got) > shownValue+100 || !bytes.HasPrefix(got, []byte(`kept"[`)) || !wire.Valid(got[4:]) {
		t.Errorf("%d bytes are shown: %.100s", len(got), got)
	}
	expect.Equal(t, string(m.append(nil, wire.AppendString(nil, strings.Repeat("x", maskedValue)))), `"… (65538 bytes)"`, "what is too long to be searched")
}

// The mask forgets old tokens, but no secret of the configuration, and no token in use.
func TestMaskIsBounded(t *testing.T) {
	var m Mask
	m.Learn(config.Config{Router: config.Router{HTTP: config.HTTP{Tokens: []config.Token{config.Token{Text: "configured-1"}}}}})
	m.Add([]string{"referred-1"})
	for i := range 2 * maxTokens {
		m.AddToken(fmt.Sprintf("token-%05d", i))
		if i == 600 || i == 1400 {
			m.AddToken("in-use")
		}
	}
	const said = "configured-1 referred-1 in-use token-01999 token-01002 token-01000"
	expect.Equal(t, m.Text(said), "*** *** *** *** *** token-01000")
	for i := range 200 {
		m.AddToken(fmt.Sprintf("%05d", i) + strings.Repeat("x", 64<<10))
	}
	bytes := 0
	for _, token := range m.tokens {
		bytes += len(token)
	}
	if bytes > maxRecent || len(m.tokens) < 100 || m.Text("configured-1 referred-1") != "*** ***" {
		t.Errorf("%d tokens of %d bytes are known", len(m.tokens), bytes)
	}
	for i := range maxSecrets + 1 {
		m.added.add(fmt.Sprintf("secret-%06d", i), maxSecrets)
	}
	if len(m.added) != maxSecrets || m.added[0] != "secret-000001" {
		t.Errorf("%d secrets are known, from %q on", len(m.added), m.added[0])
	}
}

// For any input, the output is one line of JSON, not much longer than it may
// be, without the secrets.
func FuzzMask(f *testing.F) {
	for _, seed := range []string{`{"a":"b"}`, `{"password":"x"}`, `["\ud800", "\u2028"]`, "\xff", `"`, " [1 ,\n2 ]\n", `{"":{"":[]}}`, `1e999`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		var m Mask
		m.Learn(config.Config{Router: config.Router{HTTP: config.HTTP{Tokens: []config.Token{config.Token{Text: "the token"}}}}})
		got := m.append(nil, value)
		if !json.Valid(got) || bytes.ContainsAny(got, "\n\r") {
			t.Fatalf("%q became %q", value, got)
		}
		if len(got) > 2*shownValue {
			t.Fatalf("%d bytes became %d", len(value), len(got))
		}
		guarded := wire.Marshal(map[string]any{"password": string(value), "x": []string{"the token", "ghp_abcdefghijklmnopqrst", string(value)}})
		if got := m.append(nil, guarded); bytes.Contains(got, []byte("the token")) && !bytes.Contains(value, []byte("the token")) {
			t.Fatalf("the token is in %q", got)
		}
		if got := m.Text(string(value)); strings.Contains(got, "the token") && !strings.Contains(got, hidden) {
			t.Fatalf("the token is in %q", got)
		}
	})
}
