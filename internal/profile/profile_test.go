package profile

import (
	"encoding/json"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

type profiles = map[string]config.Profile

// tool returns a tool "server:name"; change sets its hints and its doubt.
func tool(server, name string, change ...func(*registry.NormalizedTool)) *registry.NormalizedTool {
	t := &registry.NormalizedTool{ID: registry.ID(server, name), Server: server, Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}
	for _, c := range change {
		c(t)
	}
	return t
}

func reads(t *registry.NormalizedTool)    { t.Hints.ReadOnly = new(true) }
func harmless(t *registry.NormalizedTool) { t.Hints.Destructive = new(false) }
func doubted(t *registry.NormalizedTool)  { t.Doubt = "its name says that it deletes" }

func takes(schema string) func(*registry.NormalizedTool) {
	return func(t *registry.NormalizedTool) { t.InputSchema = json.RawMessage(schema) }
}

func TestServer(t *testing.T) {
	for _, test := range []struct {
		name    string
		servers []string
		allowed []string
	}{
		{"absent", nil, []string{"files", "files-old", "github"}},
		{"empty", []string{}, nil},
		{"a name", []string{"files"}, []string{"files"}},
		{"a pattern", []string{"files*"}, []string{"files", "files-old"}},
		{"a bad pattern", []string{"files", "["}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := Of(profiles{"p": {Servers: test.servers}}, "p")
			var allowed []string
			for _, s := range []string{"files", "files-old", "github"} {
				if r.Server(s) {
					allowed = append(allowed, s)
				}
				expect.Equal(t, r.Tool(tool(s, "x")), r.Server(s), "a tool of %s is not as its server", s)
			}
			expect.List(t, allowed, test.allowed, "allowed")
		})
	}
}

func TestTool(t *testing.T) {
	for _, test := range []struct {
		name    string
		profile config.Profile
		tool    *registry.NormalizedTool
		want    bool
	}{
		{"the zero profile", config.Profile{}, tool("s", "x"), true},
		{"a name in allow", config.Profile{Allow: []string{"get_*"}}, tool("s", "get_x"), true},
		{"not in allow", config.Profile{Allow: []string{"get_*"}}, tool("s", "set_x"), false},
		{"an ID in allow", config.Profile{Allow: []string{"github:*"}}, tool("github", "x"), true},
		{"the ID of another server", config.Profile{Allow: []string{"github:*"}}, tool("evil", "x"), false},
		{"a tool that is called like another's ID", config.Profile{Allow: []string{"github:*"}}, tool("evil", "github:x"), false},
		{"a name with the name of a server", config.Profile{Allow: []string{"git*"}}, tool("github", "x"), false},
		{"denied by name", config.Profile{Deny: []string{"delete_*"}}, tool("s", "delete_x"), false},
		{"denied by ID", config.Profile{Deny: []string{"s:*"}}, tool("s", "x"), false},
		{"denied and allowed", config.Profile{Allow: []string{"*"}, Deny: []string{"delete_*"}}, tool("s", "delete_x"), false},
		{"denied though it says that it reads", config.Profile{Deny: []string{"delete_*"}}, tool("s", "delete_x", reads), false},
		{"a slash", config.Profile{Deny: []string{"delete*"}}, tool("s", "delete/x"), false},
		{"reads", config.Profile{ReadOnly: true}, tool("s", "x", reads), true},
		{"may write", config.Profile{ReadOnly: true}, tool("s", "x"), false},
		{"says that it destroys nothing", config.Profile{ReadOnly: true}, tool("s", "x", harmless), false},
		{"reads, with a doubt", config.Profile{ReadOnly: true}, tool("s", "x", reads, doubted), false},
		{"held", config.Profile{}, tool("s", "x", func(t *registry.NormalizedTool) { t.Held = true }), false},
		{"a bad pattern in deny", config.Profile{Deny: []string{"["}}, tool("s", "x"), false},
		{"a bad pattern in ask", config.Profile{AskFor: []string{"["}}, tool("s", "x"), false},
		{"a bad pattern in arguments", config.Profile{Arguments: map[string]map[string]json.RawMessage{"[": nil}}, tool("s", "x"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := Of(profiles{"p": test.profile}, "p")
			expect.Equal(t, r.Tool(test.tool), test.want, "allowed")
			expect.Equal(t, r.Item(registry.Item{Tool: test.tool}), test.want, "as an item")
		})
	}
}

func TestURI(t *testing.T) {
	for _, test := range []struct {
		name    string
		profile config.Profile
		uri     string
		want    bool
	}{
		{"below an allowed folder", config.Profile{Allow: []string{"file:///srv/*"}}, "file:///srv/a/b", true},
		{"outside", config.Profile{Allow: []string{"file:///srv/*"}}, "file:///etc/passwd", false},
		{"outside by dots", config.Profile{Allow: []string{"file:///srv/*"}}, "file:///srv/../etc/passwd", false},
		{"outside by escaped dots", config.Profile{Allow: []string{"file:///srv/*"}}, "file:///srv/%2e%2e/etc/passwd", false},
		{"outside by an escaped slash", config.Profile{Allow: []string{"file:///srv/*"}}, "file:///srv/..%2fetc/passwd", false},
		{"an escaped space, allowed", config.Profile{Allow: []string{"file:///srv/my%20docs/*"}}, "file:///srv/my%20docs/a", true},
		{"denied", config.Profile{Deny: []string{"file:///etc/*"}}, "file:///etc/passwd", false},
		{"denied by dots", config.Profile{Deny: []string{"file:///etc/*"}}, "file:///srv/../etc/passwd", false},
		{"denied by another case", config.Profile{Deny: []string{"file:///etc/*"}}, "FILE:///etc/passwd", false},
		{"denied by escapes", config.Profile{Deny: []string{"file:///etc/*"}}, "file:///%65tc/passwd", false},
		{"denied with an escape in the pattern", config.Profile{Deny: []string{"*/my%20docs/*"}}, "file:///my%20docs/a", false},
		{"denied with a space in the pattern", config.Profile{Deny: []string{"file:///my docs/*"}}, "file:///my%20docs/a", false},
		{"denied with an escape in the pattern, by dots", config.Profile{Deny: []string{"file:///my%20docs/*"}}, "file:///x/../my docs/a", false},
		{"another host's case", config.Profile{Deny: []string{"https://acme.example/*"}}, "https://ACME.example/x", false},
		{"a folder keeps its slash", config.Profile{Allow: []string{"file:///srv/"}}, "file:///srv/", true},
		{"outside by a backslash", config.Profile{Allow: []string{"file:///srv/*"}}, `file:///srv/..\..\etc`, false},
		{"outside by a wrong escape", config.Profile{Allow: []string{"file:///srv/*"}}, "file:///srv/%zz/%2e%2e/%2e%2e/etc", false},
		{"outside by a query", config.Profile{Allow: []string{"file:///srv/*"}}, "file:///srv/x?/../../etc", false},
		{"outside by a tab", config.Profile{Allow: []string{"file:///srv/*"}}, "file:///srv/.\t./etc", false},
		{"denied on localhost", config.Profile{Deny: []string{"file:///etc/*"}}, "file://localhost/etc/passwd", false},
		{"denied on any host", config.Profile{Deny: []string{"file:///etc/*"}}, "file://elsewhere/etc/passwd", false},
		{"denied without a slash", config.Profile{Deny: []string{"file:///etc/*"}}, "file:etc/passwd", false},
		{"denied with backslashes", config.Profile{Deny: []string{"file:///etc/*"}}, `file:\\\etc\passwd`, false},
		{"denied with a fragment", config.Profile{Deny: []string{"doc://a/b", "file:///a"}}, "doc://a/b#c", false},
		{"denied with a query", config.Profile{Deny: []string{"file:///a"}}, "file:///a?b", false},
		{"denied with a last slash", config.Profile{Deny: []string{"file:///a"}}, "file:///a/", false},
		{"another query", config.Profile{Deny: []string{"doc://a"}}, "doc://a?b", true},
		{"denied with a port", config.Profile{Deny: []string{"https://a/*"}}, "https://a:443/b", false},
		{"denied with a user", config.Profile{Deny: []string{"https://a/*"}}, "https://u@A./b", false},
		{"denied with more slashes", config.Profile{Deny: []string{"https://a/*"}}, "https:///a/b", false},
		{"another port", config.Profile{Deny: []string{"https://a/*"}}, "https://a:8443/b", true},
		{"a file on a host", config.Profile{Allow: []string{"file://nas/srv/*"}}, "file://nas/srv/a", true},
		{"denied with one slash", config.Profile{Deny: []string{"file:///etc/*"}}, "file:/etc/passwd", false},
		{"denied with four slashes", config.Profile{Deny: []string{"file:///etc/*"}}, "file:////etc/passwd", false},
		{"denied scheme in another case", config.Profile{Deny: []string{"mem:*"}}, "MEM:1", false},
		{"a host alone", config.Profile{Allow: []string{"https://acme.example"}}, "https://acme.example", true},
		{"a query", config.Profile{Allow: []string{"https://acme.example/x[?]q=*"}}, "https://acme.example/x?q=a%20b", true},
		{"by ID", config.Profile{Allow: []string{"s:file:*"}}, "file:///srv/a", true},
		{"the ID of another server", config.Profile{Allow: []string{"file:*"}}, "file:///srv/a", false},
		{"no path", config.Profile{Deny: []string{"mem:*"}}, "mem:1", false},
		{"no URI", config.Profile{Deny: []string{"%zz"}}, "%zz", false},
		{"a long URI", config.Profile{}, "file:///" + strings.Repeat("a", maxURI), false},
		{"everything", config.Profile{Allow: []string{"*"}}, "%zz", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := Of(profiles{"p": test.profile}, "p")
			expect.Equal(t, r.URI("s", test.uri), test.want, "allowed")
			i := registry.Item{Resource: &registry.Resource{ID: registry.ID("s", test.uri), Server: "s", URI: test.uri}}
			expect.Equal(t, r.Item(i), test.want, "as an item")
		})
	}
}

// Patterns of skills decide about all files of a skill, however a URI is written.
func TestSkills(t *testing.T) {
	skill := func(uri, files string) *registry.Skill {
		return &registry.Skill{Server: "s", URI: uri, Definition: []byte(`{"resources":[` + files + `]}`)}
	}
	git := skill("skill://a/git/SKILL.md", `{"uri":"skill://a/git/SKILL.md"},{"uri":"skill://a/git/x.md"}`)
	ops := skill("skill://ops/SKILL.md", `{"uri":"skill://ops/SKILL.md"}`)
	narrow := config.Profile{Allow: []string{"echo"}, SkillsAllow: []string{"git"}}
	for _, test := range []struct {
		profile config.Profile
		uri     string
		want    bool
	}{
		{narrow, "skill://a/git/SKILL.md", true},
		{narrow, "skill://a/git/x.md", true},
		{narrow, "skill://a/git/unlisted.md", false},
		{narrow, "skill://a/git/../../etc", false},
		{narrow, "file:///git/SKILL.md", false},
		{narrow, "skill://ops/SKILL.md", false},
		{config.Profile{SkillsAllow: []string{"other:git"}}, "skill://a/git/x.md", false},
		{config.Profile{SkillsAllow: []string{"s:*"}, Servers: []string{"other"}}, "skill://a/git/x.md", false},
		{config.Profile{SkillsDeny: []string{"ops"}}, "skill://a/git/x.md", true},
		{config.Profile{SkillsDeny: []string{"ops"}}, "file:///any", true},
		{config.Profile{SkillsDeny: []string{"s:ops"}}, "SKILL://%6fps/any", false},
		{config.Profile{SkillsDeny: []string{"ops"}}, "skill://a/../ops/any", true}, // its host is a
		{config.Profile{SkillsDeny: []string{"new"}}, "skill://x/new/%53KILL.md", false},
	} {
		expect.Equal(t, Of(profiles{"p": test.profile}, "p").URI("s", test.uri, git, ops), test.want, "%s by %v", test.uri, test.profile)
	}
}

func TestOtherItems(t *testing.T) {
	r := Of(profiles{"p": {Allow: []string{"greet", "file:///srv/{path}"}}}, "p")
	for _, test := range []struct {
		item registry.Item
		want bool
	}{
		{registry.Item{Prompt: &registry.Prompt{ID: "s:greet", Server: "s", Name: "greet"}}, true},
		{registry.Item{Prompt: &registry.Prompt{ID: "s:other", Server: "s", Name: "other"}}, false},
		{registry.Item{Template: &registry.Template{ID: "s:file:///srv/{path}", Server: "s", URI: "file:///srv/{path}"}}, true},
		{registry.Item{Template: &registry.Template{ID: "s:file:///{path}", Server: "s", URI: "file:///{path}"}}, false},
	} {
		expect.Equal(t, r.Item(test.item), test.want, "%s is allowed", test.item.ID())
	}
}

func TestChosen(t *testing.T) {
	all := profiles{
		"files":  {Servers: []string{"files"}},
		"get":    {Allow: []string{"get_*"}},
		"nobody": {Servers: []string{}},
	}
	withDefault := profiles{"default": {Servers: []string{"files"}}, "all": {}}
	for _, test := range []struct {
		name   string
		all    profiles
		chosen []string
		tools  []string
	}{
		{"none, without a default", all, nil, []string{"files:get_x", "files:set_x", "web:get_x"}},
		{"none, with a default", withDefault, nil, []string{"files:get_x", "files:set_x"}},
		{"another than the default", withDefault, []string{"all"}, []string{"files:get_x", "files:set_x", "web:get_x"}},
		{"one", all, []string{"get"}, []string{"files:get_x", "web:get_x"}},
		{"two", all, []string{"get", "files"}, []string{"files:get_x"}},
		{"twice the same", all, []string{"get", "get"}, []string{"files:get_x", "web:get_x"}},
		{"one that allows nothing", all, []string{"get", "nobody"}, nil},
		{"one that does not exist", all, []string{"gone"}, nil},
		{"two, one of which does not exist", all, []string{"get", "gone"}, nil},
		{"without any profile", nil, []string{"default"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := Of(test.all, test.chosen...)
			var tools []string
			for _, x := range []*registry.NormalizedTool{tool("files", "get_x"), tool("files", "set_x"), tool("web", "get_x")} {
				if r.Tool(x) {
					tools = append(tools, x.ID)
				}
			}
			expect.List(t, tools, test.tools, "allowed")
			expect.Equal(t, r.Everything(), len(tools) == 3, "Everything")
		})
	}
}

func TestEverything(t *testing.T) {
	restricting := profiles{
		"servers": {Servers: []string{}}, "allow": {Allow: []string{"x"}}, "deny": {Deny: []string{"x"}}, "readOnly": {ReadOnly: true},
		"ask": {Ask: "always"}, "askFor": {AskFor: []string{"x"}},
		"arguments": {Arguments: map[string]map[string]json.RawMessage{"x": nil}},
	}
	for name := range restricting {
		if Of(restricting, name).Everything() {
			t.Errorf("%s leaves everything as it is", name)
		}
	}
	open := profiles{"zero": {}, "never": {Ask: "never"}, "mode": {Mode: "search", Pinned: []string{"a:b"}}}
	for name := range open {
		if !Of(open, name).Everything() {
			t.Errorf("%s changes something", name)
		}
	}
}

func TestScripts(t *testing.T) {
	all := profiles{
		"none": {}, "code": {Mode: "code"}, "search": {Mode: "search"}, "yes": {Scripts: new(true)}, "no": {Scripts: new(bool), Mode: "code"},
		"bad": {Scripts: new(true), Deny: []string{"["}},
	}
	for _, test := range []struct {
		chosen     string
		auto, code bool // in these modes of the router
	}{
		{"", false, true},
		{ReadOnly, false, true},
		{"none", false, true},
		{"code", true, true},
		{"search", false, false},
		{"yes", true, true},
		{"no", false, false},
		{"bad", false, false},
		{"gone", false, false},
		{"yes " + ReadOnly, true, true},
		{"yes none", false, true},
		{"code none", false, true},
		{"yes no", false, false},
		{"yes gone", false, false},
		{Union("no", "yes"), true, true},
		{Union("gone", "none"), false, true},
		{Union("no", "yes") + " no", false, false},
	} {
		r := Of(all, strings.Fields(test.chosen)...)
		if auto, code := r.Scripts("auto"), r.Scripts("code"); auto != test.auto || code != test.code {
			t.Errorf("%q: %t in mode auto and %t in mode code", test.chosen, auto, code)
		}
	}
}

func TestModeAndPinned(t *testing.T) {
	all := profiles{"none": {}, "search": {Mode: "search", Pinned: []string{"a:b"}}, "direct": {Mode: "direct", Pinned: []string{}}}
	for _, test := range []struct {
		chosen []string
		mode   string
		pinned []string
		ok     bool
	}{
		{[]string{"none"}, "", nil, false},
		{[]string{"none", "search"}, "search", []string{"a:b"}, true},
		{[]string{"direct", "search"}, "direct", nil, true},
	} {
		r := Of(all, test.chosen...)
		if pinned, ok := r.Pinned(); r.Mode() != test.mode || !slices.Equal(pinned, test.pinned) || ok != test.ok {
			t.Errorf("%q: mode %q, pinned %q, %t; want %q, %q, %t", test.chosen, r.Mode(), pinned, ok, test.mode, test.pinned, test.ok)
		}
	}
}

// Rules have another identity if any part of a profile or its name differs.
func TestIdentity(t *testing.T) {
	work := func(p config.Profile) map[string]config.Profile {
		return map[string]config.Profile{"work": p, "home": p}
	}
	p := config.Profile{Servers: []string{"a"}, AskFor: []string{"x"}, Arguments: map[string]map[string]json.RawMessage{"t": {"n": json.RawMessage("1"), "m": json.RawMessage("2")}}}
	q := p
	q.Ask = "always"
	none := p
	none.Servers = nil
	seen := make(map[string]bool)
	for _, r := range []*Rules{Of(work(p), "work"), Of(work(q), "work"), Of(work(none), "work"), Of(work(p), "home"), Of(work(p), "work", "home"), Of(nil)} {
		if seen[r.Identity()] {
			t.Errorf("other rules have the identity %s", r.Identity())
		}
		seen[r.Identity()] = true
	}
	if again := Of(work(p), "work"); again.Identity() != Of(work(p), "work").Identity() {
		t.Error("equal rules have different identities")
	}
}

func TestAsks(t *testing.T) {
	for _, test := range []struct {
		name    string
		profile config.Profile
		tool    *registry.NormalizedTool
		want    string
	}{
		{"the zero profile", config.Profile{}, tool("s", "x"), ""},
		{"never", config.Profile{Ask: "never"}, tool("s", "x"), ""},
		{"never, and a pattern", config.Profile{Ask: "never", AskFor: []string{"x*"}}, tool("s", "x"), `profile "p" asks before tools that match "x*"`},
		{"a pattern of an ID", config.Profile{AskFor: []string{"s:*"}}, tool("s", "x"), `profile "p" asks before tools that match "s:*"`},
		{"a pattern wins over hints", config.Profile{AskFor: []string{"x"}}, tool("s", "x", reads), `profile "p" asks before tools that match "x"`},
		{"another pattern", config.Profile{AskFor: []string{"y"}}, tool("s", "x"), ""},
		{"destructive", config.Profile{Ask: "destructive"}, tool("s", "x"), `profile "p" asks before tools that may destroy something`},
		{"destructive, and it says not", config.Profile{Ask: "destructive"}, tool("s", "x", harmless), ""},
		{"destructive, and it reads", config.Profile{Ask: "destructive"}, tool("s", "x", reads), ""},
		{"destructive, with a doubt", config.Profile{Ask: "destructive"}, tool("s", "delete_all", reads, harmless, doubted), `profile "p" asks before tools that may destroy something`},
		{"writes", config.Profile{Ask: "writes"}, tool("s", "x", harmless), `profile "p" asks before tools that may write`},
		{"writes, and it reads", config.Profile{Ask: "writes"}, tool("s", "x", reads), ""},
		{"writes, with a doubt", config.Profile{Ask: "writes"}, tool("s", "x", reads, doubted), `profile "p" asks before tools that may write`},
		{"always", config.Profile{Ask: "always"}, tool("s", "x", reads), `profile "p" asks before each call`},
	} {
		t.Run(test.name, func(t *testing.T) {
			expect.Equal(t, Of(profiles{"p": test.profile}, "p").Asks(test.tool).String(), test.want)
		})
	}
	two := Of(profiles{"a": {Ask: "never"}, "b": {Ask: "always"}}, "a", "b")
	expect.Equal(t, two.Asks(tool("s", "x", reads)), Ask{Profile: "b", Word: "always"}, "of two profiles")
}

// FuzzURI reads URIs as Go does, and checks that no URI leaves the allowed folder or enters the
// denied one.
func FuzzURI(f *testing.F) {
	for _, seed := range []string{"file:///srv/a", "file:///srv/../etc", "file:///srv/%2e%2e/etc/x", "FILE:/etc/x", "file://localhost//etc/x", "file://host/etc/x", "file:etc/x", "file:///srv/x?y#z", "%zz", ""} {
		f.Add(seed)
	}
	all := profiles{"in": {Allow: []string{"file:///srv/*"}}, "out": {Deny: []string{"file:///etc/*"}}}
	in, out := Of(all, "in"), Of(all, "out")
	f.Fuzz(func(t *testing.T, uri string) {
		u, err := url.Parse(uri)
		if err != nil {
			in.URI("s", uri) // must not panic
			return
		}
		read := path.Clean(u.Path)
		if in.URI("s", uri) && (u.Scheme != "file" || u.Host != "" || read != "/srv" && !strings.HasPrefix(read, "/srv/")) {
			t.Errorf("%q is allowed, and is %q", uri, read)
		}
		if out.URI("s", uri) && u.Scheme == "file" && strings.HasPrefix(read, "/etc/") {
			t.Errorf("%q is not denied, and is %q", uri, read)
		}
	})
}

// BenchmarkTools judges 1000 tools by a profile with two dozen patterns.
func BenchmarkTools(b *testing.B) {
	var tools []*registry.NormalizedTool
	for i := range 1000 {
		tools = append(tools, tool("server-"+strings.Repeat("x", i%10), "list_pull_requests_"+strings.Repeat("y", i%100), reads))
	}
	p := config.Profile{Servers: []string{"files*", "server-*"}, Deny: []string{"delete_*", "*_secret*"}, ReadOnly: true, Arguments: map[string]map[string]json.RawMessage{"github:*": {"owner": json.RawMessage(`"acme"`)}}}
	for i := range 20 {
		p.Allow = append(p.Allow, "get_"+strings.Repeat("z", i)+"*")
	}
	p.Allow = append(p.Allow, "list_*")
	r := Of(profiles{"p": p}, "p")
	b.ReportAllocs()
	for b.Loop() {
		for _, t := range tools {
			if !r.Tool(t) {
				b.Fatal(t.ID)
			}
		}
	}
}
