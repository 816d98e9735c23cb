package web

import (
	"reflect"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/server"
)

// Other machines need a token that can't be guessed. This machine's programs are warned.
func TestTokenLength(t *testing.T) {
	const long = "0123456789abcdef"
	for _, tt := range []struct {
		address  string
		tokens   []string
		err, log string
	}{
		{"0.0.0.0:0", nil, "must send a token", ""},
		{"0.0.0.0:0", []string{long, long[1:]}, "at least 16 characters; make one with 'metarouter token new'", ""},
		{"0.0.0.0:0", []string{long}, "", "not encrypted"},
		{"0.0.0.0:0", []string{long, ""}, "", "not encrypted"}, // the configuration could not read one
		{"127.0.0.1:0", []string{long[1:]}, "", "metarouter token new"},
		{"127.0.0.1:0", []string{long}, "", ""},
		{"127.0.0.1:0", nil, "", ""},
	} {
		t.Setenv("METAROUTER_TOKEN", "")
		core, logs := observer.New(zap.WarnLevel)
		_, err := New(config.HTTP{Addr: tt.address, Tokens: tokens(tt.tokens...)}, Flags{}, nil, zap.New(core))
		if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s with %q: %v", tt.address, tt.tokens, err)
		}
		all := ""
		for _, entry := range logs.All() {
			all += entry.Message
		}
		if (all != "") != (tt.log != "") || !strings.Contains(all, tt.log) {
			t.Errorf("%s with %q: logged %q", tt.address, tt.tokens, all)
		}
	}
}

// tokens returns plain tokens; "" is one that the configuration could not read.
func tokens(texts ...string) []config.Token {
	var all []config.Token
	for _, text := range texts {
		if text == "" {
			all = append(all, config.Token{})
			continue
		}
		all = append(all, config.PlainToken(text))
	}
	return all
}

// An edit of the tokens holds at once. One that can't be used lets no client in, and never
// opens the router.
func TestEditOfTokens(t *testing.T) {
	const first, second = "0123456789abcdef", "fedcba9876543210"
	t.Setenv("METAROUTER_TOKEN", "")
	object := func(text string, change func(*config.Token)) []config.Token {
		token := config.PlainToken(text)
		token.Plain, token.Role = false, config.RoleUse
		change(&token)
		return []config.Token{token}
	}
	hash := func(text string) string { return config.PlainToken(text).Hash }
	for _, tt := range []struct {
		what, addr string
		tokens     []config.Token
		want       []server.Principal
	}{
		{"none", "0.0.0.0:0", nil, []server.Principal{{}}},
		{"none, on loopback", "127.0.0.1:0", nil, []server.Principal{}},
		{"a short one", "0.0.0.0:0", tokens("short"), []server.Principal{{}}},
		{"a short one, on loopback", "127.0.0.1:0", tokens("short"), []server.Principal{{Hash: hash("short"), Name: hash("short")[:8], Admin: true}}},
		{"one of two is short", "0.0.0.0:0", tokens(second, "short"), []server.Principal{{Hash: hash(second), Name: hash(second)[:8], Admin: true}, {}}},
		{"another one", "0.0.0.0:0", tokens(second), []server.Principal{{Hash: hash(second), Name: hash(second)[:8], Admin: true}}},
		{"a use token", "0.0.0.0:0", object(second, func(t *config.Token) { t.Name, t.Profile = "ci", "work" }), []server.Principal{{Hash: hash(second), Name: "ci", Profile: "work"}}},
		{"no such profile", "127.0.0.1:0", object(second, func(t *config.Token) { t.Name, t.Profile = "ci", "gone" }), []server.Principal{{}}},
		{"an object wins", "127.0.0.1:0", append(tokens(first), object(first, func(t *config.Token) { t.Name = "ci" })...), []server.Principal{{Hash: hash(first), Name: "ci"}}},
	} {
		var c config.Config
		c.Router.HTTP = config.HTTP{Addr: tt.addr, Tokens: tokens(first)}
		c.Router.Profiles = map[string]config.Profile{"work": {}}
		l, err := New(c.Router.HTTP, Flags{}, nil, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Listen(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.Router.HTTP.Tokens = tt.tokens
		if got := l.optionsOf(c).Tokens; !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.what, got, tt.want)
		}
		l.Close()
	}
}

// A token that stands in the environment too has the role that its object says.
func TestObjectWinsOverEnvironment(t *testing.T) {
	const text = "0123456789abcdef"
	t.Setenv("METAROUTER_TOKEN", text)
	token := config.PlainToken(text)
	token.Plain, token.Role = false, config.RoleUse
	if got := allTokens(config.HTTP{Tokens: []config.Token{token}}, config.PlainToken(text)); len(got) != 1 || got[0].Role != config.RoleUse {
		t.Errorf("%+v", got)
	}
}
