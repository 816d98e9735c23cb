package service

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/server"
)

// Clients that only read are limited also where there is no profile.
func TestProfilesOfUnions(t *testing.T) {
	all := map[string]config.Profile{"dev": {Mode: "search"}, "ops": {}}
	withDefault := map[string]config.Profile{"default": {Mode: "direct"}}
	for _, test := range []struct {
		all      map[string]config.Profile
		chosen   []string
		profiles string
		limited  bool
		mode     string
	}{
		{all, nil, "", false, "auto"},
		{all, []string{"@read"}, "@read", true, "auto"},
		{withDefault, []string{"@read"}, "@read+default", true, "direct"},
		{all, []string{"@read", "dev|ops"}, "@read+dev|ops", true, "search"},
		{all, []string{"gone|ops"}, "gone|ops", true, "auto"},
		{all, []string{"gone"}, "gone", true, "auto"},
	} {
		got := serverOptions(config.Config{Router: config.Router{Profiles: test.all, Mode: "auto"}}, server.View{}, test.chosen)
		if got.Profile != test.profiles || (got.Rules != nil) != test.limited || got.Mode != test.mode {
			t.Errorf("%q: profiles %q, rules %v, mode %q; want %q, %t, %q", test.chosen, got.Profile, got.Rules, got.Mode, test.profiles, test.limited, test.mode)
		}
	}
}

// The permission to run scripts comes from the profiles and the router's mode.
func TestScripts(t *testing.T) {
	all := map[string]config.Profile{"yes": {Scripts: new(true)}, "no": {Scripts: new(bool)}}
	for _, test := range []struct {
		mode   string
		chosen []string
		want   bool
	}{
		{"auto", nil, false},
		{"code", nil, true},
		{"auto", []string{"yes"}, true},
		{"code", []string{"no"}, false},
		{"code", []string{"yes", "no"}, false},
	} {
		if got := serverOptions(config.Config{Router: config.Router{Profiles: all, Mode: test.mode}}, server.View{}, test.chosen); got.Scripts != test.want || got.Mode != test.mode {
			t.Errorf("mode %s, %q: %t in mode %s", test.mode, test.chosen, got.Scripts, got.Mode)
		}
	}
}
