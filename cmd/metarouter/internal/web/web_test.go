package web

import (
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/mcp-metarouter/metarouter/config"
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
		{"0.0.0.0:0", []string{long, long[1:]}, "at least 16 characters; make one with 'openssl rand -hex 24'", ""},
		{"0.0.0.0:0", []string{long}, "", "not encrypted"},
		{"0.0.0.0:0", []string{long, "\x00"}, "", "not encrypted"}, // the configuration could not read one
		{"127.0.0.1:0", []string{long[1:]}, "", "openssl rand"},
		{"127.0.0.1:0", []string{long}, "", ""},
		{"127.0.0.1:0", nil, "", ""},
	} {
		t.Setenv("METAROUTER_TOKEN", "")
		core, logs := observer.New(zap.WarnLevel)
		_, err := New(config.HTTP{Addr: tt.address, Tokens: tt.tokens}, Flags{}, nil, zap.New(core))
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

// An edit can't replace the tokens by one that can be guessed.
func TestEditOfTokens(t *testing.T) {
	t.Setenv("METAROUTER_TOKEN", "")
	c := config.Config{Router: config.Router{HTTP: config.HTTP{Addr: "0.0.0.0:0", Tokens: []string{"0123456789abcdef"}}}}
	l, err := New(c.Router.HTTP, Flags{}, nil, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, tokens := range [][]string{nil, {"short"}, {"fedcba9876543210", "short"}} {
		c.Router.HTTP.Tokens = tokens
		if got := l.optionsOf(c).Tokens; len(got) != 1 || got[0] != "0123456789abcdef" {
			t.Errorf("after an edit to %q: %q", tokens, got)
		}
	}
	c.Router.HTTP.Tokens = []string{"fedcba9876543210"}
	if got := l.optionsOf(c).Tokens; len(got) != 1 || got[0] != "fedcba9876543210" {
		t.Errorf("after an edit: %q", got)
	}
}
