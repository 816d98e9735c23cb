package admin

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

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
