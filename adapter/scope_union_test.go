package adapter

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/play"
)

func TestScopeOfUnions(t *testing.T) {
	profiles := map[string]config.Profile{
		"a": {Servers: []string{"a"}}, "safe": {Deny: []string{"delete_*"}}, "b-prompts": {Servers: []string{"b"}, Allow: []string{"greet"}}, "default": {Servers: []string{"b"}},
	}
	r := stocked(t, profiles, "a", "b")
	for _, test := range []struct {
		chosen, items, applies string
		exists                 bool
	}{
		{"a|safe", "a:delete_x a:read_x b:read_x a:greet b:greet doc://a/a doc://b/a doc://a/t/{x} doc://b/t/{x}", "a|safe", true},
		{"a|b-prompts", "a:delete_x a:read_x a:greet b:greet doc://a/a doc://a/t/{x}", "a|b-prompts", true},
		{"b-prompts|gone", "b:greet", "b-prompts|gone", true},
		{"gone|lost", "", "gone|lost", false},
		{"a|b-prompts safe", "a:read_x a:greet b:greet doc://a/a doc://a/t/{x}", "a|b-prompts+safe", true},
		{"@read a|b-prompts", "a:read_x a:greet b:greet doc://a/a doc://a/t/{x}", "@read+a|b-prompts", true},
		{"@read", "b:read_x b:greet doc://b/a doc://b/t/{x}", "@read+default", true},
		{"@read gone", "", "@read+gone", false},
	} {
		s := r.Scope(strings.Fields(test.chosen)...)
		if got := itemsOf(s.Snapshot()); got != test.items || s.Exists() != test.exists || s.calls.scope.Limits().Profile != test.applies {
			t.Errorf("%q: exists %t, %q, has\n%s, want %t, %q,\n%s", test.chosen, s.Exists(), s.calls.scope.Limits().Profile, got, test.exists, test.applies, test.items)
		}
	}
}

// A union follows edits of its profiles, also if one is removed.
func TestScopeOfUnionFollows(t *testing.T) {
	profiles := map[string]config.Profile{"a": {Servers: []string{"a"}}, "b": {Servers: []string{"b"}}}
	r := stocked(t, profiles, "a", "b")
	s := r.Scope("a|b")
	for _, edit := range []struct {
		profiles map[string]config.Profile
		servers  string
	}{
		{profiles, "a b"},
		{map[string]config.Profile{"a": profiles["a"]}, "a"},
		{map[string]config.Profile{"a": {Servers: []string{"b"}}}, "b"},
		{map[string]config.Profile{"a": {Servers: []string{"["}}, "b": profiles["b"]}, "b"},
		{map[string]config.Profile{"c": {}}, ""},
		{map[string]config.Profile{"a": {}}, "a b"},
	} {
		r.current.edit(configOf(edit.profiles, "a", "b"))
		var servers []string
		for _, i := range s.Servers() {
			servers = append(servers, i.Name)
		}
		if got := strings.Join(servers, " "); got != edit.servers || s.Exists() != (edit.servers != "") {
			t.Errorf("with %v: servers %q, exists %t; want %q", edit.profiles, got, s.Exists(), edit.servers)
		}
	}
}

// A search within a union finds the same as a search within one profile that allows the same, with
// the same confidences.
func TestFindWithinUnion(t *testing.T) {
	profiles := map[string]config.Profile{
		"even": {Servers: []string{"s[02468]"}}, "low": {Servers: []string{"s[0123]"}}, "both": {Servers: []string{"s[0123468]"}},
		"gets": {Allow: []string{"get_*"}}, "even-or-gets": {Allow: []string{"get_*", "s[02468]:*"}},
	}
	var names []string
	for i := range 10 {
		names = append(names, fmt.Sprintf("s%d", i))
	}
	r := New(configOf(profiles, names...), Options{Play: play.Server})
	t.Cleanup(func() { expect.OK(t, r.Close()) })
	verbs, nouns := strings.Fields("get delete list update"), strings.Fields("invoice calendar ticket branch page file folder")
	for n, name := range names {
		var o registry.Offer
		for i := range 20 {
			verb, noun := verbs[(n+i)%len(verbs)], nouns[(n*3+i)%len(nouns)]
			tool := offerOf(name).Tools[0]
			tool.Name = fmt.Sprintf("%s_%s_%d", verb, noun, i)
			tool.ID, tool.Description = registry.ID(name, tool.Name), fmt.Sprintf("%s a %s of the %s", verb, noun, nouns[i%len(nouns)])
			o.Tools = append(o.Tools, tool)
		}
		replace(t, r, name, o)
	}
	for by := selector.ByWords; by == selector.ByWords; { // until all tools have vectors
		all, err := r.Find(t.Context(), selector.Query{Task: "get a page"})
		expect.OK(t, err)
		by = all.By
	}
	for union, one := range map[string]string{"even|low": "both", "even|gets": "even-or-gets"} {
		for _, task := range []string{"delete the invoice of a ticket", "list folders", "get a page", "update the calendar", "delet the brnch", "the weather"} {
			q := selector.Query{Task: task, Limit: 50}
			got, err := r.Scope(union).Find(t.Context(), q)
			want, wrong := r.Scope(one).Find(t.Context(), q)
			if err != nil || wrong != nil || !slices.Equal(found(got), found(want)) {
				t.Errorf("%s, %q: %q, %v; within %s %q, %v", union, task, found(got), err, one, found(want), wrong)
			}
		}
	}
}
