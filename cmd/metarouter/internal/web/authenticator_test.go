package web

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/bearer"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeissuer"
)

// routerWith returns a configuration with issuers, and the profiles "work" and "ops".
func routerWith(issuers ...config.Issuer) config.Router {
	return config.Router{
		Profiles: map[string]config.Profile{"work": {}, "ops": {}},
		HTTP:     config.HTTP{PublicURL: "https://tools.example.com", Issuers: issuers},
	}
}

// A proof follows the configuration in force when the token comes: rules, profiles and issuers.
func TestProofFollowsConfiguration(t *testing.T) {
	p := fakeissuer.New(t, fakeissuer.Options{})
	token := issuedBy(t, p, map[string]any{"aud": "https://tools.example.com/mcp"})
	verifier := bearer.New(bearer.Options{Log: zap.NewNop()})
	with := func(change func(*config.Issuer)) config.Router {
		return routerWith(ruled(func(i *config.Issuer) {
			if i.URL = p.URL; change != nil {
				change(i)
			}
		}))
	}
	check := func(what string, r config.Router, want string) {
		t.Helper()
		a := (&Listener{log: zap.NewNop(), verifier: verifier}).authenticator(config.Config{Router: r})
		got, err := a.Token(t.Context(), token, "https://tools.example.com/mcp")
		if text := shortOf(got, err); !strings.HasPrefix(text, want) {
			t.Errorf("%s: %q, want %q", what, text, want)
		}
	}
	check("at first", with(nil), "work")
	check("another profile", with(func(i *config.Issuer) { i.Profiles[0].Profile = "ops" }), "ops")
	r := with(nil)
	delete(r.Profiles, "work")
	check("without the profile", r, "403 no profile")
	check("without rules", with(func(i *config.Issuer) { i.Profiles = nil }), "403 no rule")
	expect.Equal(t, p.Counts().KeyReads, 1, "reads of the keys")
	check("of an issuer that was removed", with(func(i *config.Issuer) { i.URL = "https://other.example" }), "401 its issuer is")
	check("with a mistake in the issuer", routerWith(config.Issuer{}), "401 its issuer is")
	r = with(nil)
	r.HTTP.PublicURL = ""
	check("without a public URL", r, "401 its issuer is")
	check("as at first", with(nil), "work")
	verifier.Close()
	a := &authenticator{accepted: []bearer.Issuer{{URL: p.URL, Audience: "edited"}}, verifier: verifier}
	if _, err := a.Token(t.Context(), token, ""); !errors.Is(err, bearer.ErrUnavailable) {
		t.Errorf("an issuer that can't be asked is refused as a bad token: %v", err)
	}
}
