package profile

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestUnion(t *testing.T) {
	for _, test := range []struct {
		names []string
		want  string
	}{
		{nil, ""},
		{[]string{"dev"}, "dev"},
		{[]string{"ops", "dev", "ops"}, "dev|ops"},
		{[]string{"dev", ""}, "dev"},
		{[]string{""}, "|"},
		{[]string{ReadOnly}, "|"},
		{[]string{ReadOnly, "dev"}, "dev"},
		{[]string{"dev|ops"}, "|"},
		{[]string{"dev|ops", "web"}, "web"},
		{[]string{"dev|", "|"}, "|"},
	} {
		expect.Equal(t, Union(test.names...), test.want, "the union of %q", test.names)
	}
}

func TestExists(t *testing.T) {
	all := profiles{"dev": {}, "ops": {}, "default": {}}
	for chosen, want := range map[string]bool{
		"dev": true, "dev|ops": true, "dev|gone": true, "gone|dev": true, ReadOnly: true,
		"gone": false, "gone|lost": false, "": false, "|": false, "dev+ops": false, "@read|gone": false,
	} {
		expect.Equal(t, Exists(all, chosen), want, "%q exists", chosen)
	}
	for _, test := range []struct {
		chosen             string
		applying, existing []string
	}{
		{"", []string{"default"}, []string{"default"}},
		{ReadOnly, []string{ReadOnly, "default"}, []string{"default"}},
		{"@read dev", []string{ReadOnly, "dev"}, []string{"dev"}},
		{"@read dev|ops", []string{ReadOnly, "dev|ops"}, []string{"dev", "ops"}},
		{"@read gone", []string{ReadOnly, "gone"}, nil},
		{"dev|gone ops", []string{"dev|gone", "ops"}, []string{"dev", "ops"}},
	} {
		chosen := strings.Fields(test.chosen)
		expect.List(t, Applying(all, chosen), test.applying, "%q: … apply", test.chosen)
		expect.List(t, slices.Sorted(maps.Keys(Existing(all, chosen))), test.existing, "%q: … exist", test.chosen)
	}
	expect.List(t, Applying(profiles{"dev": {}}, []string{ReadOnly}), []string{ReadOnly}, "without a default, … apply")
}

// unionProfiles are profiles with one rule each.
func unionProfiles(t *testing.T) profiles {
	fixes := func(owner string) config.Profile { return fixing(t, `{"*": {"owner": "`+owner+`"}}`) }
	return profiles{
		"all": {}, "nothing": {Servers: []string{}}, "bad": {Deny: []string{"["}},
		"files": {Servers: []string{"files"}}, "web": {Servers: []string{"web"}}, "get": {Allow: []string{"get_*"}},
		"safe": {Deny: []string{"delete_*"}}, "reads": {ReadOnly: true},
		"acme": fixes("acme"), "other": fixes("other"), "two": fixing(t, `{"*": {"owner": "acme", "repo": "x"}}`), "team": fixing(t, `{"*": {"team": 1}}`),
		"asks": {Ask: "always"}, "writes": {Ask: "writes"}, "fixes-and-asks": {Ask: "always", Arguments: fixes("acme").Arguments},
	}
}

// TestUnionOfTools judges the tool files:delete_x, which may write and has the arguments owner and
// repo.
func TestUnionOfTools(t *testing.T) {
	const acme, other = `{"owner":"acme"}`, `{"owner":"other"}`
	for _, test := range []struct {
		chosen  string
		allowed bool
		fixed   string
		asks    string // the profile
	}{
		{"files|web", true, "", ""},
		{"web|get", false, "", ""},
		{"safe|files", true, "", ""},
		{"files|web web", false, "", ""},
		{"files|web files", true, "", ""},
		{"files|web get|safe", false, "", ""},
		{"files|web get|all", true, "", ""},

		{"gone|lost", false, "", ""},
		{"gone|files", true, "", ""},
		{"nothing|files", true, "", ""},
		{"bad|files", true, "", ""},
		{"bad|nothing|gone", false, "", ""},
		{"|", false, "", ""},

		{"@read", false, "", ""},
		{"files @read", false, "", ""},
		{"files|all @read", false, "", ""},
		{"reads|files", true, "", ""},
		{"reads|files @read", false, "", ""},
		{"@read|files", true, "", ""}, // a profile of that name does not exist
		{"@read|gone", false, "", ""},

		{"acme|files", true, "", ""},
		{"acme|web", true, acme, ""}, // the other one does not allow the tool
		{"acme|other", true, acme, ""},
		{"acme|two", true, acme, ""},
		{"other|two", true, other, ""},
		{"team|two", true, "", ""}, // the tool does not have that argument
		{"acme|other acme", true, acme, ""},
		{"acme|other other", true, other, ""},
		{"acme other", false, "", ""},
		{"acme|two other", false, "", ""},
		{"acme|files other", true, other, ""},
		{"acme|files acme", true, acme, ""},
		{"two|web acme", true, `{"owner":"acme","repo":"x"}`, ""},

		{"asks|files", true, "", ""},
		{"asks|web", true, "", "asks"},
		{"asks|writes", true, "", "asks"},
		{"asks|writes files", true, "", "asks"},
		{"asks|files writes", true, "", "writes"},
		{"asks|acme", true, "", "asks"}, // rather a question than a fixed argument
		{"fixes-and-asks|acme", true, acme, ""},
		{"fixes-and-asks|asks", true, "", "asks"},
		{"fixes-and-asks|asks acme", true, acme, "asks"},
		{"asks|acme acme", true, acme, ""}, // a fixed argument costs nothing more
		{"asks|acme asks", true, "", "asks"},
		{"asks|acme other", true, other, "asks"},
	} {
		t.Run(test.chosen, func(t *testing.T) {
			x := tool("files", "delete_x", takes(`{"type":"object","properties":{"owner":{},"repo":{}}}`))
			chosen := strings.Fields(test.chosen)
			for range 2 {
				r := Of(unionProfiles(t), chosen...)
				if r.Tool(x) != test.allowed || string(r.Fixed(x)) != test.fixed || (r.Refusal(x) == "") != test.allowed {
					t.Errorf("%q: allowed %t, fixed %s, refusal %q; want %t, %s", chosen, r.Tool(x), r.Fixed(x), r.Refusal(x), test.allowed, test.fixed)
				}
				if test.allowed && r.Asks(x).Profile != test.asks {
					t.Errorf("%q: asks %q, want that of %q", chosen, r.Asks(x), test.asks)
				}
				slices.Reverse(chosen)
			}
		})
	}
}

// TestReadOnly has all but the tools that may write.
func TestReadOnly(t *testing.T) {
	r := Of(profiles{ReadOnly: {Servers: []string{}}}, ReadOnly) // no profile can have the name
	if !r.Server("s") || !r.Name("s", "prompt") || !r.URI("s", "file:///a") || !r.Tool(tool("s", "x", reads)) {
		t.Error("something that only reads is not allowed")
	}
	for _, x := range []*registry.NormalizedTool{tool("s", "x"), tool("s", "x", harmless), tool("s", "x", reads, doubted)} {
		if r.Tool(x) {
			t.Errorf("%+v is allowed", x)
		}
	}
	if r.Everything() || r.Asks(tool("s", "x", reads)) != (Ask{}) || r.Fixed(tool("s", "x", reads)) != nil {
		t.Error("reading only is everything, asks or fixes something")
	}
	limited := Of(profiles{"default": {Servers: []string{"a"}}}, ReadOnly)
	if limited.Server("b") || !limited.Server("a") || limited.Tool(tool("a", "x")) {
		t.Error("the profile default does not limit clients that only read")
	}
}

// Of a resource, a URI that one profile denies in any reading may be allowed by another.
func TestUnionOfURIs(t *testing.T) {
	all := profiles{
		"srv": {Allow: []string{"file:///srv/*"}}, "not-etc": {Deny: []string{"file:///etc/*"}}, "etc": {Allow: []string{"file:///etc/*"}},
		"bad": {Allow: []string{"file:///*"}, Deny: []string{"["}}, "web": {Servers: []string{"web"}},
	}
	for _, test := range []struct {
		chosen, uri string
		want        bool
	}{
		{"srv|etc", "file:///srv/a", true},
		{"srv|etc", "file:///etc/a", true},
		{"srv|etc", "file:///home/a", false},
		{"srv|etc", "file:///srv/../etc/a", false}, // no profile allows it as it is written and as it is read
		{"srv|not-etc", "file:///srv/../etc/a", false},
		{"srv|not-etc", "file:///etc/../srv/a", false}, // one denies it as it is written, one does not allow it so
		{"srv|not-etc", "file://localhost/etc/a", false},
		{"etc|not-etc", "file:///etc/a", true},
		{"etc|not-etc", "file:///home/a", true},
		{"etc|not-etc", "file://elsewhere/etc/a", false},
		{"etc|not-etc srv", "file:///etc/a", false},
		{"etc|srv not-etc", "file:///etc/a", false},
		{"bad|srv", "file:///etc/a", false},
		{"bad|srv", "file:///srv/a", true},
		{"gone|web", "file:///srv/a", false},
		{"srv|web @read", "file:///srv/a", true},
		{"srv|not-etc", "file:///srv/" + strings.Repeat("a", maxURI), false},
	} {
		expect.Equal(t, Of(all, strings.Fields(test.chosen)...).URI("s", test.uri), test.want, "%s, %s: allowed", test.chosen, test.uri)
	}
}

func TestUnionAsAWhole(t *testing.T) {
	all := profiles{
		"open": {Mode: "search", Pinned: []string{"a:b"}}, "shut": {Servers: []string{}, Mode: "direct"}, "asks": {Ask: "always"},
	}
	for _, test := range []struct {
		chosen     string
		everything bool
		mode       string
		pinned     string
	}{
		{"open|shut", true, "search", "a:b"},
		{"shut|asks", false, "direct", ""},
		{"asks|gone", false, "", ""},
		{"gone|lost", false, "", ""},
		{"open|shut asks", false, "search", "a:b"},
		{"open|asks shut", false, "direct", "a:b"}, // a profile before a union
		{"open|asks open|shut", true, "search", "a:b"},
		{"open|shut @read", false, "search", "a:b"},
	} {
		r := Of(all, strings.Fields(test.chosen)...)
		pinned, _ := r.Pinned()
		if r.Everything() != test.everything || r.Mode() != test.mode || strings.Join(pinned, " ") != test.pinned {
			t.Errorf("%s: everything %t, mode %q, pinned %q; want %t, %q, %q", test.chosen, r.Everything(), r.Mode(), pinned, test.everything, test.mode, test.pinned)
		}
	}
	seen := make(map[string]string)
	for _, chosen := range []string{"open", "open|shut", "open shut", "open|gone", "open|shut|asks", "open|shut asks", "open asks|shut", ReadOnly, "open @read", "open|@read"} {
		id := Of(all, strings.Fields(chosen)...).Identity()
		expect.Equal(t, seen[id], "", "%q and … have the same identity", chosen)
		seen[id] = chosen
	}
	expect.Equal(t, Of(all, "open|shut").Identity(), Of(all, "shut|open|shut").Identity(), "the identity of a union depends on the order of its profiles")
}

func TestUnionRefusal(t *testing.T) {
	all := profiles{"a": {Servers: []string{}}, "b": {Deny: []string{"x*"}}}
	for chosen, want := range map[string]string{
		"a|b":      `profile "a" has no server of that name in "servers", and profile "b" denies it with "x*"`,
		"b|gone":   `profile "b" denies it with "x*", and profile "gone" has no server of that name in "servers"`,
		ReadOnly:   `the client's access is read-only, and the server does not declare that the tool only reads`,
		"a|b open": `profile "open" has no server of that name in "servers"`,
	} {
		expect.Equal(t, Of(all, strings.Fields(chosen)...).Refusal(tool("s", "x")), want, "%s", chosen)
	}
}

// A maker makes random profiles of few words, so that they overlap.
type maker struct{ *rand.Rand }

func (m maker) some(words ...string) (some []string) {
	for _, w := range words {
		if m.IntN(3) == 0 {
			some = append(some, w)
		}
	}
	return some
}

func (m maker) profile() config.Profile {
	p := config.Profile{
		Allow: m.some("get_*", "x", "a:*", "file:///srv/*", "file:///*"), Deny: m.some("delete_*", "b:*", "file:///etc/*"),
		ReadOnly: m.IntN(4) == 0, Ask: []string{"", "never", "destructive", "writes", "always"}[m.IntN(5)], AskFor: m.some("get_*"),
	}
	if m.IntN(10) == 0 {
		p.Deny = append(p.Deny, "[") // a mistake
	}
	if m.IntN(2) == 0 {
		p.Servers = append([]string{}, m.some("a", "b", "c*")...)
	}
	for _, pattern := range m.some("*", "get_*", "a:*") {
		if p.Arguments == nil {
			p.Arguments = make(map[string]map[string]json.RawMessage)
		}
		p.Arguments[pattern] = make(map[string]json.RawMessage)
		for _, argument := range m.some("owner", "repo", "team") {
			p.Arguments[pattern][argument] = json.RawMessage(fmt.Sprint(m.IntN(2)))
		}
	}
	return p
}

func (m maker) tool() *registry.NormalizedTool {
	x := tool(m.of("a", "b", "cc"), m.of("get_x", "delete_x", "x"), takes(`{"properties":{"owner":{},"repo":{}}}`))
	for _, change := range []func(*registry.NormalizedTool){reads, harmless, doubted} {
		if m.IntN(2) == 0 {
			change(x)
		}
	}
	return x
}

func (m maker) of(words ...string) string { return words[m.IntN(len(words))] }

// TestUnionProperty compares unions of random profiles with their profiles: a union, also one that
// another choice limits, allows the items of one of them, on terms that one of them has.
func TestUnionProperty(t *testing.T) {
	m := maker{rand.New(rand.NewPCG(21, 1))}
	for range 1000 {
		all := profiles{"a": m.profile(), "b": m.profile(), "c": m.profile(), "limit": m.profile()}
		names := append(m.some("a", "b", "c", "gone"), "a")
		for _, limit := range [][]string{nil, {"limit"}, {ReadOnly}, {"limit", ReadOnly}} {
			union := Of(all, append(slices.Clip(limit), Union(names...))...)
			var each []*Rules
			for _, name := range names {
				each = append(each, Of(all, append(slices.Clip(limit), name)...))
			}
			if wrong := compareUnion(m, union, each); wrong != "" {
				t.Fatalf("the union of %q with %q: %s\n%+v", names, limit, wrong, all)
			}
		}
	}
}

// compareUnion compares the items that a union allows with the items that its profiles allow.
func compareUnion(m maker, union *Rules, each []*Rules) string {
	any := func(allows func(*Rules) bool) bool { return slices.ContainsFunc(each, allows) }
	server, name := m.of("a", "b", "cc"), m.of("get_x", "delete_x", "x")
	uri := m.of("file:///srv/a", "file:///srv/../etc/a", "FILE:///etc/a", "file:///etc/../srv/a", "file:etc/a", "file:///home/%2e%2e/etc/a")
	x := m.tool()
	terms := func(r *Rules) string { return fmt.Sprintf("%s %s", r.Fixed(x), r.Asks(x)) }
	allowed := any(func(r *Rules) bool { return r.Tool(x) })
	free := func(r *Rules) bool { return r.Tool(x) && r.Fixed(x) == nil && r.Asks(x) == Ask{} }
	switch {
	case union.Server(server) != any(func(r *Rules) bool { return r.Server(server) }):
		return "server " + server
	case union.Name(server, name) != any(func(r *Rules) bool { return r.Name(server, name) }):
		return "prompt " + server + ":" + name
	case union.URI(server, uri) != any(func(r *Rules) bool { return r.URI(server, uri) }):
		return "resource " + server + ":" + uri
	case union.Tool(x) != allowed:
		return fmt.Sprintf("tool %+v, allowed %t", x, union.Tool(x))
	case allowed && !any(func(r *Rules) bool { return r.Tool(x) && terms(r) == terms(union) }):
		return fmt.Sprintf("tool %+v, terms %s", x, terms(union))
	case any(free) && !free(union):
		return fmt.Sprintf("tool %+v, terms %s, though one profile has none", x, terms(union))
	case any((*Rules).Everything) && !union.Everything():
		return "not everything, though one profile is"
	}
	return ""
}
