package admin

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Each profile is shown with the allowed parts of the servers that run.
func TestProfiles(t *testing.T) {
	s := open(t, fake("a", "echo,fail"), fake("b", "pid"))
	c := s.router.Configured()
	c.Router.Profiles = map[string]config.Profile{
		"all":  {},
		"none": {Servers: []string{}},
		"some": {Servers: []string{"a"}, Deny: []string{"fail"}, AskFor: []string{"e*"}, Mode: "search",
			Arguments: map[string]map[string]json.RawMessage{"a:echo": {"message": json.RawMessage(`"hi"`)}}},
	}
	edited := s.router.Edited()
	s.edits <- c
	<-edited
	var got profiles
	if status := s.ask(http.MethodGet, "/dashboard/profiles", "", &got); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	want := []profileInfo{
		{Name: "all", Servers: []string{"a", "b"}, Tools: 3},
		{Name: "none", Servers: []string{}},
		{Name: "some", Servers: []string{"a"}, Tools: 1, Asked: 1, Fixed: 1, Mode: "search"},
	}
	expect.Deep(t, got.Profiles, want, "the page")
}

// A client that has chosen no profile has the profile "default" if there is one.
func TestClientsProfile(t *testing.T) {
	with := map[string]config.Profile{"default": {}, "work": {}}
	for _, tc := range []struct {
		chosen string
		all    map[string]config.Profile
		want   []string
	}{
		{"", nil, []string{}},
		{"", with, []string{"default"}},
		{"work", with, []string{"work"}},
		{"default+work", with, []string{"default", "work"}},
		{"@read", with, []string{"@read", "default"}},
		{"@read", nil, []string{"@read"}},
		{"@read+default|work", with, []string{"@read", "default|work"}},
	} {
		expect.Deep(t, profilesOf(tc.chosen, tc.all), tc.want, "profiles of %q", tc.chosen)
	}
}
