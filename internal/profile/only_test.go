package profile

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A choice of servers allows these alone, whatever their names, next to what the profiles allow.
func TestOnly(t *testing.T) {
	all := profiles{"work": {Servers: []string{"a", "b"}}, "default": {Servers: []string{"a", "a,b", "a*"}}}
	for _, names := range [][]string{{"a"}, {"a,b"}, {"a", "b/c"}, {"a*"}, {"[a"}, {`a\b`}, {"a|b"}, {"a%2Cb"}, {"a+team"}, {"a b"}} {
		choice := Only(names...)
		expect.Equal(t, strings.ContainsAny(choice, "+|"), false, "%s could be several choices", choice)
		expect.Equal(t, slices.Equal(OnlyOf(choice), names), true, "the servers of %s: %q", choice, OnlyOf(choice))
		r := Of(profiles{}, choice)
		for _, server := range []string{"a", "b", "a,b", "b/c", "a*", "ab", "[a", `a\b`, "a|b", "a%2Cb", "a+team", "a b", "", "c"} {
			expect.Equal(t, r.Server(server), slices.Contains(names, server), "%s allows %q", choice, server)
		}
		decoded, err := Decode(Encode(all, choice, "work"))
		expect.OK(t, err)
		expect.Equal(t, decoded.Server(names[0]), names[0] == "a", "another node, %s with a profile", choice)
	}
	r := Of(all, Only("a", "c"))
	expect.Equal(t, [3]bool{r.Server("a"), r.Server("c"), r.Scripts("code")}, [3]bool{true, false, false}, "the profile default goes on to apply")
	for _, forged := range []string{"s/a", Only("a")} { // of a claim
		expect.Equal(t, Of(profiles{}, Union(forged)).Server("a"), false, "a union of %q", forged)
	}
	expect.Equal(t, OnlyOf("work") == nil && OnlyOf(ReadOnly) == nil, true, "others are no choice of servers")
	var none map[string]config.Profile
	expect.Equal(t, Exists(none, Only("a")), true, "it exists")
}
