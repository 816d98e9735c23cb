package adapter

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/play"
)

// offerOf returns an offer with two tools, and one item of each other kind.
func offerOf(server string) registry.Offer {
	yes := true
	tool := func(name string, hints registry.Hints) registry.NormalizedTool {
		const schema = `{"type":"object","properties":{"owner":{"type":"string"},"title":{"type":"string"}},"required":["owner","title"]}`
		return registry.NormalizedTool{
			ID: registry.ID(server, name), Server: server, Name: name, Capabilities: []string{server + "-tag"}, Hints: hints,
			InputSchema: json.RawMessage(schema), Definition: json.RawMessage(`{"name":"` + name + `","inputSchema":` + schema + `}`),
		}
	}
	return registry.Offer{
		Tools:        []registry.NormalizedTool{tool("read_x", registry.Hints{ReadOnly: &yes}), tool("delete_x", registry.Hints{})},
		Prompts:      []registry.Prompt{{ID: registry.ID(server, "greet"), Server: server, Name: "greet"}},
		Resources:    []registry.Resource{{ID: registry.ID(server, "doc://"+server+"/a"), Server: server, URI: "doc://" + server + "/a"}},
		Templates:    []registry.Template{{ID: registry.ID(server, "doc://"+server+"/t/{x}"), Server: server, URI: "doc://" + server + "/t/{x}"}},
		Capabilities: json.RawMessage(`{"resources":{}}`), Extensions: json.RawMessage(`{"` + server + `":{}}`),
		Dropped: []registry.Dropped{{Kind: registry.KindTool, Name: "delete_dropped"}},
	}
}

// replace replaces what the server offers.
func replace(t *testing.T, r *Router, server string, o registry.Offer) {
	t.Helper()
	_, err := r.registry.Replace(server, o)
	expect.OK(t, err)
}

// stocked returns a router that does not run, with the offers of servers.
func stocked(t *testing.T, profiles map[string]config.Profile, servers ...string) *Router {
	t.Helper()
	r := New(configOf(profiles, servers...), Options{Play: play.Server})
	for _, name := range servers {
		replace(t, r, name, offerOf(name))
	}
	t.Cleanup(func() { expect.OK(t, r.Close()) })
	return r
}

func configOf(profiles map[string]config.Profile, servers ...string) (c config.Config) {
	c.Router.Profiles = profiles
	for _, name := range servers {
		c.Servers = append(c.Servers, config.Server{Name: name, Transport: config.Stdio, Command: "false"})
	}
	return c
}

// itemsOf returns the items of a snapshot in one line.
func itemsOf(s *registry.Snapshot) string {
	var all []string
	for _, t := range s.Tools() {
		all = append(all, t.ID)
	}
	for _, p := range s.Prompts() {
		all = append(all, p.ID)
	}
	for _, r := range s.Resources() {
		all = append(all, r.URI)
	}
	for _, t := range s.Templates() {
		all = append(all, t.URI)
	}
	return strings.Join(all, " ")
}

func TestScopeSnapshot(t *testing.T) {
	const (
		ofA = "a:delete_x a:read_x a:greet doc://a/a doc://a/t/{x}"
		all = "a:delete_x a:read_x b:delete_x b:read_x a:greet b:greet doc://a/a doc://b/a doc://a/t/{x} doc://b/t/{x}"
	)
	profiles := map[string]config.Profile{
		"all":      {},
		"none":     {Servers: []string{}},
		"a":        {Servers: []string{"a"}},
		"glob":     {Servers: []string{"[ac]"}},
		"safe":     {Deny: []string{"delete_*"}},
		"id":       {Allow: []string{"a:read_x", "b:greet"}},
		"both":     {Allow: []string{"*_x"}, Deny: []string{"a:*"}},
		"uris":     {Deny: []string{"doc://a/*"}},
		"readers":  {ReadOnly: true},
		"question": {Ask: "always"},
	}
	r := stocked(t, profiles, "a", "b")
	for _, tc := range []struct{ chosen, servers, items string }{
		{"", "a b", all},
		{"all", "a b", all},
		{"question", "a b", all},
		{"none", "", ""},
		{"missing", "", ""},
		{"a", "a", ofA},
		{"glob", "a", ofA},
		{"safe", "a b", "a:read_x b:read_x a:greet b:greet doc://a/a doc://b/a doc://a/t/{x} doc://b/t/{x}"},
		{"id", "a b", "a:read_x b:greet"},
		{"both", "a b", "b:delete_x b:read_x"},
		{"uris", "a b", "a:delete_x a:read_x b:delete_x b:read_x a:greet b:greet doc://b/a doc://b/t/{x}"},
		{"a safe", "a", "a:read_x a:greet doc://a/a doc://a/t/{x}"},
		{"a none", "", ""},
		{"a missing", "", ""},
	} {
		s := r.Scope(strings.Fields(tc.chosen)...)
		snapshot := s.Snapshot()
		expect.Equal(t, itemsOf(snapshot), tc.items, "profile %q", tc.chosen)
		var servers []string
		for _, i := range s.Servers() {
			servers = append(servers, i.Name)
			expect.Equal(t, i.Tools, len(snapshot.Offer(i.Name).Tools), "profile %q: the tools of server %s, and those of the list", tc.chosen, i.Name)
		}
		expect.Equal(t, strings.Join(servers, " "), tc.servers, "profile %q has the servers", tc.chosen)
		expect.Equal(t, strings.Join(s.Unlisted(), " "), tc.servers, "profile %q: servers that are not listed", tc.chosen)
		for tag := range snapshot.Capabilities() {
			if server := strings.TrimSuffix(tag, "-tag"); len(snapshot.Offer(server).Tools) == 0 {
				t.Errorf("profile %q has the tag %q", tc.chosen, tag)
			}
		}
		if exists := !strings.Contains(tc.chosen, "missing"); s.Exists() != exists {
			t.Errorf("profile %q exists: %v", tc.chosen, !exists)
		}
	}
	for _, i := range r.Scope("readers").Snapshot().Tools() {
		expect.Equal(t, i.Name, "read_x", "%s is in a profile that only reads", i.ID)
	}
}

// Without a profile the scope is the router itself, at no cost.
func TestScopeOfEverything(t *testing.T) {
	r := stocked(t, map[string]config.Profile{"work": {Servers: []string{"a"}}, "open": {Mode: "search"}}, "a", "b")
	for _, s := range []*View{r.Scope(), r.Scope("open")} {
		expect.Equal(t, s.Snapshot(), r.registry.Snapshot(), "the snapshot, which is no copy")
		if q := s.calls.scope.Visible().Query(selector.Query{}); q.Catalog != nil {
			t.Error("a search looks at a catalog of its own")
		}
		if n := testing.AllocsPerRun(100, func() { s.Snapshot(); s.calls.scope.Visible().Query(selector.Query{}) }); n > 0 {
			t.Errorf("%v allocations for each look", n)
		}
	}
	s := r.Scope("work")
	if n := testing.AllocsPerRun(100, func() { s.Snapshot(); s.calls.scope.Visible().Query(selector.Query{}) }); n > 0 {
		t.Errorf("%v allocations for each look at a filtered catalog", n)
	}
}

// An edit that changes nothing for the clients leaves them the same snapshot, and tools with fixed
// arguments the same pointers.
func TestScopeFollows(t *testing.T) {
	fixed := func(owner string) map[string]map[string]json.RawMessage {
		return map[string]map[string]json.RawMessage{"a:*": {"owner": json.RawMessage(owner)}}
	}
	profiles := map[string]config.Profile{"work": {Servers: []string{"a"}, Arguments: fixed(`"acme"`)}}
	r := stocked(t, profiles, "a", "b")
	chosen := []string{"work"}
	s := r.Scope(chosen...)
	chosen[0] = "other" // it is the caller's
	first := s.Snapshot()
	tool, _ := first.Tool("a:read_x")
	const schema = `{"type":"object","properties":{"title":{"type":"string"}},"required":["title"]}`
	if string(tool.InputSchema) != schema || string(tool.Fixed) != `{"owner":"acme"}` || wire.Member(tool.ServerSchema, "required") == nil {
		t.Errorf("schema %s, fixed %s, the server's schema %s", tool.InputSchema, tool.Fixed, tool.ServerSchema)
	}

	r.current.edit(configOf(map[string]config.Profile{"work": profiles["work"], "other": {}}, "a", "b"))
	b := offerOf("b")
	b.Tools = b.Tools[:1]
	replace(t, r, "b", b)
	expect.Equal(t, s.Snapshot(), first, "the snapshot, since nothing changed for the clients")
	a := offerOf("a")
	a.Prompts = nil
	replace(t, r, "a", a)
	second := s.Snapshot()
	if again, _ := second.Tool("a:read_x"); second == first || again != tool {
		t.Error("a tool that did not change is another pointer, or the snapshot is the same")
	}
	r.current.edit(configOf(map[string]config.Profile{"work": {Servers: []string{"a"}, Arguments: fixed(`"other"`)}}, "a", "b"))
	if again, _ := s.Snapshot().Tool("a:read_x"); again == tool || string(again.Fixed) != `{"owner":"other"}` {
		t.Errorf("after the edit of fixed arguments: %s", again.Fixed)
	}
	r.current.edit(configOf(nil, "a", "b"))
	if s.Exists() || itemsOf(s.Snapshot()) != "" {
		t.Error("the profile is gone, and the scope still has something")
	}
}

// The profile "default" applies to clients without a profile, from the edit on that adds it.
func TestScopeDefault(t *testing.T) {
	r := stocked(t, nil, "a", "b")
	s := r.Scope()
	changed := s.Changed()
	if s.Snapshot() != r.registry.Snapshot() || s.calls.scope.Limits().Profile != "" {
		t.Error("there is no profile, and something is hidden")
	}
	r.current.edit(configOf(map[string]config.Profile{config.DefaultProfile: {Servers: []string{"b"}}}, "a", "b"))
	if got := itemsOf(s.Snapshot()); strings.Contains(got, "a:") || s.calls.scope.Limits().Profile != config.DefaultProfile {
		t.Errorf("the default profile has %s", got)
	}
	if whole := r.View; whole.Snapshot() != r.registry.Snapshot() || !whole.Exists() {
		t.Error("the default profile limits the whole router")
	}
	if again := r.Scope("a"); again.Exists() {
		t.Error("a profile that is not there exists")
	}
	r.changed.Notify()
	<-changed
}

func TestScopeClassifier(t *testing.T) {
	c := configOf(map[string]config.Profile{"work": {Servers: []string{"a"}}}, "a", "b")
	c.Servers[0].Capabilities, c.Servers[1].Capabilities = []string{"a-tag"}, []string{"b-tag"}
	r := New(c, Options{Play: play.Server})
	t.Cleanup(func() { expect.OK(t, r.Close()) })
	for _, name := range []string{"a", "b"} {
		replace(t, r, name, offerOf(name))
	}
	s := r.Scope("work")
	expect.List(t, s.Classifier().Categories().Categories, []string{"a-tag"}, "categories")
	if first := s.Classifier(); first != s.Classifier() {
		t.Error("the classifier is made anew for each call")
	}
	if all := r.Scope().Classifier(); all != r.Classifier() {
		t.Error("without a profile it is another classifier")
	}
	c.Router.Classification = config.DefaultClassification()
	c.Router.Classification.Categories = []config.Category{{Name: "b-tag"}}
	named := New(c, Options{Play: play.Server})
	t.Cleanup(func() { expect.OK(t, named.Close()) })
	if got := named.Scope("work").Classifier(); got != named.Classifier() {
		t.Error("categories of the configuration are hidden")
	}
}

// 50 profiles over 2,000 tools take little memory.
func TestScopeMemory(t *testing.T) {
	const profiles, servers, tools = 50, 20, 100
	all := make(map[string]config.Profile)
	var names []string
	for i := range servers {
		names = append(names, fmt.Sprintf("s%02d", i))
	}
	for i := range profiles {
		all[fmt.Sprintf("p%d", i)] = config.Profile{Deny: []string{fmt.Sprintf("tool_%02d", i)}}
	}
	r := New(configOf(all, names...), Options{Play: play.Server})
	t.Cleanup(func() { expect.OK(t, r.Close()) })
	for _, name := range names {
		var o registry.Offer
		for i := range tools {
			tool := offerOf(name).Tools[0]
			tool.Name = fmt.Sprintf("tool_%02d", i)
			tool.ID = registry.ID(name, tool.Name)
			o.Tools = append(o.Tools, tool)
		}
		replace(t, r, name, o)
	}
	inUse := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := inUse()
	scopes := make([]*View, 0, profiles)
	for name := range all {
		s := r.Scope(name)
		if n := len(s.Snapshot().Tools()); n != servers*(tools-1) {
			t.Fatalf("profile %s has %d tools", name, n)
		}
		scopes = append(scopes, s)
	}
	each := (int64(inUse()) - int64(before)) / profiles
	runtime.KeepAlive(scopes)
	t.Logf("%d bytes for each profile", each)
	if each > 100<<10 {
		t.Errorf("%d bytes for each profile of %d tools, want at most 100 KiB", each, servers*tools)
	}
}

// answers returns the answers to requests that name a server and things of it.
func answers(t *testing.T, s *View, server, name, uri string) (all []string) {
	add := func(what string, value any, err error) {
		e, _ := err.(*session.Error)
		all = append(all, fmt.Sprintf("%s: %s %v %s", what, value, err, wire.Marshal(e)))
	}
	relay := func(method, params string) {
		result, err := s.Relay(t.Context(), server, session.Request{Method: method, Params: json.RawMessage(params)})
		add(method, result, err)
	}
	relay("prompts/get", fmt.Sprintf(`{"name":%q}`, name))
	relay("resources/read", fmt.Sprintf(`{"uri":%q}`, uri))
	relay("completion/complete", fmt.Sprintf(`{"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"topic","value":""}}`, name))
	relay("completion/complete", fmt.Sprintf(`{"ref":{"type":"ref/resource","uri":%q},"argument":{"name":"x","value":""}}`, uri))
	relay("tools/list", `{}`)
	_, _, err := s.Subscribe(t.Context(), server, uri, &sink{})
	add("subscribe", "", err)
	add("await", "", s.Await(t.Context(), server))
	result, err := s.Execute(t.Context(), selector.Call{Tool: &registry.NormalizedTool{ID: registry.ID(server, name), Server: server, Name: name, InputSchema: json.RawMessage(`{}`)}})
	add("execute", result.JSON, err)
	checked := s.Check(t.Context(), &registry.NormalizedTool{ID: registry.ID(server, name), Server: server, Name: name, InputSchema: json.RawMessage(`{}`)}, nil)
	add("check", checked.Faults, nil)
	ranking, err := s.Find(t.Context(), selector.Query{Task: name, Servers: []string{server}, Kinds: []string{"tool", "prompt", "resource"}})
	add("find", wire.Marshal(found(ranking)), err)
	return all
}

// found returns the items of a ranking.
func found(r selector.Ranking) []string {
	all := []string{fmt.Sprint(r.Sure, r.Abstained)}
	for _, c := range r.Candidates {
		all = append(all, fmt.Sprintf("%s %s %.9f %.9f", c.Item().Kind(), c.Item().ID(), c.Score, c.Confidence))
	}
	return all
}

// A sink is a client that answers nothing.
type sink struct{}

func (s *sink) Home() session.Client         { return s }
func (*sink) ClientName() string             { return "" }
func (*sink) Modern() bool                   { return false }
func (*sink) Capabilities() json.RawMessage  { return json.RawMessage("{}") }
func (*sink) Notify(string, session.Message) {}
func (*sink) Ask(context.Context, string, session.Message) (json.RawMessage, error) {
	return nil, fmt.Errorf("not asked")
}

// Things that are not allowed have the same answers as things that do not exist: a router that has
// them answers as one that does not.
func TestScopeHides(t *testing.T) {
	offers := func(names ...string) []string {
		var flags []string
		for _, name := range names {
			flags = append(flags, "-tools", "echo_"+name, "-prompts", "prompt_"+name, "-resources", "doc://"+name)
		}
		return append(flags, "-templates", "doc://t/{x}", "-complete")
	}
	profiles := map[string]config.Profile{
		"servers": {Servers: []string{"seen"}},
		"items":   {Servers: []string{"seen"}, Deny: []string{"*secret*"}},
		"allowed": {Servers: []string{"s*"}, Allow: []string{"*public*"}},
		"none":    {Servers: []string{}},
	}
	with := config.Config{Servers: []config.Server{fake("seen", offers("public", "secret")...), fake("hidden", offers("public", "secret")...)}}
	without := config.Config{Servers: []config.Server{fake("seen", offers("public")...)}}
	with.Router.Profiles, without.Router.Profiles = profiles, profiles
	has, hasNot := routerOf(t, with), routerOf(t, without)
	for _, tc := range []struct{ chosen, server, name, uri string }{
		{"servers", "hidden", "echo_public", "doc://public"},
		{"servers", "hidden", "prompt_public", "doc://t/{x}"},
		{"items", "seen", "echo_secret", "doc://secret"},
		{"items", "seen", "prompt_secret", "doc://secret"},
		{"allowed", "seen", "prompt_secret", "doc://secret"},
		{"allowed", "hidden", "prompt_public", "doc://public"},
		{"none", "seen", "prompt_public", "doc://public"},
		{"missing", "seen", "echo_public", "doc://public"},
	} {
		ask := func() (got, want []string) {
			return answers(t, has.Scope(tc.chosen), tc.server, tc.name, tc.uri), answers(t, hasNot.Scope(tc.chosen), tc.server, tc.name, tc.uri)
		}
		got, want := ask()
		// On a busy machine, a search goes on by words alone, and finds other tools.
		for limit := time.Now().Add(time.Minute); !slices.Equal(got, want) && time.Now().Before(limit); {
			got, want = ask()
		}
		for i := range want {
			expect.Equal(t, got[i], want[i], "%+v", tc)
		}
	}
	// A resource that is allowed and does not exist has the same answer, whatever its server says.
	_, err := has.Scope("items").Relay(t.Context(), "seen", session.Request{Method: "resources/read", Params: json.RawMessage(`{"uri":"doc://missing"}`)})
	expect.Deep(t, err, session.NoResource("doc://missing"), "a missing resource")
	// The test would pass if nothing were answered at all.
	for _, answer := range answers(t, has.Scope("servers"), "seen", "prompt_secret", "doc://secret") {
		what, rest, _ := strings.Cut(answer, ":")
		if ok := strings.Contains(rest, "<nil>"); ok != !slices.Contains([]string{"execute", "check", "tools/list"}, what) && what != "check" {
			t.Errorf("what is allowed: %s", answer)
		}
	}
}

func routerOf(t *testing.T, c config.Config) *Router {
	r, _ := runningWith(t, c, Options{})
	settled(t, r)
	return r
}

// While profiles are edited, no call of a tool is served that the profile forbade before the call
// began, and each scope has its own.
func TestScopeEdits(t *testing.T) {
	entry := fake("s", "-tools", "echo_a,echo_b")
	profilesFor := func(tool string) map[string]config.Profile {
		return map[string]config.Profile{"one": {Allow: []string{tool}}, "two": {Deny: []string{tool}}}
	}
	c := config.Config{Servers: []config.Server{entry}}
	c.Router.Profiles = profilesFor("echo_a")
	r, edits := runningWith(t, c, Options{})
	settled(t, r)
	one, two := r.Scope("one"), r.Scope("two")

	stale, ok := one.Snapshot().Tool("s:echo_a")
	if _, both := two.Snapshot().Tool("s:echo_a"); !ok || both {
		t.Fatal("the scopes do not have their tools")
	}
	if result, err := one.Execute(t.Context(), selector.Call{Tool: stale}); err != nil || result.IsError {
		t.Fatalf("an allowed call: %s, %v", result.JSON, err)
	}

	var calls sync.WaitGroup
	ended := make(chan struct{})
	for _, s := range []*View{one, two} {
		calls.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				for _, tool := range s.Snapshot().Tools() {
					if result, err := s.Execute(t.Context(), selector.Call{Tool: tool}); err == nil && result.IsError {
						t.Errorf("%s: %s", tool.ID, result.JSON)
					}
				}
				if q := s.calls.scope.Visible().Query(selector.Query{}); q.Catalog == nil || len(q.Catalog.Tools()) != 1 {
					t.Error("a search has more than the profile")
				}
			}
		})
	}
	for i := range 20 {
		replaced, changed := r.Edited(), one.Changed()
		edited := c
		edited.Router.Profiles = profilesFor([]string{"echo_b", "echo_a"}[i%2])
		edits <- edited
		<-replaced
		<-changed
	}
	edited := c
	edited.Router.Profiles = profilesFor("echo_b")
	replaced := r.Edited()
	edits <- edited
	<-replaced
	close(ended)
	calls.Wait()
	if result, err := one.Execute(t.Context(), selector.Call{Tool: stale}); err == nil {
		t.Errorf("a call that the edit forbids: %s", result.JSON)
	}
	if result, err := two.Execute(t.Context(), selector.Call{Tool: stale}); err != nil || result.IsError {
		t.Errorf("a call that the edit allows: %s, %v", result.JSON, err)
	}
}

// A subscription ends, and messages of its server stop, when an edit forbids them.
func TestScopeSubscription(t *testing.T) {
	c := config.Config{Servers: []config.Server{fake("s", "-tools", "touch", "-resources", "doc://a")}}
	c.Router.Profiles = map[string]config.Profile{"p": {Allow: []string{"doc://*"}}}
	r, edits := runningWith(t, c, Options{})
	settled(t, r)
	s := r.Scope("p")
	done, end, err := s.Subscribe(t.Context(), "s", "doc://a", &sink{})
	expect.OK(t, err)
	_, stop, err := s.Subscribe(t.Context(), "s", "doc://a", &sink{})
	expect.OK(t, err)
	stop()
	updated := session.Message{Method: "notifications/resources/updated", Params: json.RawMessage(`{"uri":"doc://a"}`)}
	var heard, all int
	defer s.Listen(func(string, session.Client, session.Message) { heard++ })()
	defer r.Listen(func(string, session.Client, session.Message) { all++ })()
	r.hear("s", nil, updated)
	r.hear("other", nil, session.Message{Method: "notifications/message"})
	c.Router.Profiles = map[string]config.Profile{"p": {Deny: []string{"doc://*"}}}
	edits <- c
	<-done
	end()
	r.hear("s", nil, updated)
	if heard != 2 || all != 3 {
		t.Errorf("%d messages of %d were heard, want 2 of 3", heard, all)
	}
	if _, _, err := s.Subscribe(t.Context(), "s", "doc://a", &sink{}); err == nil {
		t.Error("a resource that is not allowed was subscribed to")
	}
}

// Servers get the least level that a scope wants, until that scope listens no more.
func TestLevels(t *testing.T) {
	var l levels
	one, two := new(int), new(int)
	for i, tc := range []struct {
		of          *int
		level, want string
	}{{one, "warning", "warning"}, {two, "error", "warning"}, {two, "debug", "debug"}, {one, "emergency", "debug"}, {two, "alert", "alert"}} {
		expect.Equal(t, l.least(tc.of, tc.level), tc.want, "step %d", i+1)
	}
	l.forget(two)
	expect.Equal(t, l.least(one, "emergency"), "emergency", "after the other ended")
}

// A tool with fixed arguments is found, and runs with them on the server; a client that sends one
// is told so.
func TestScopeFixedArguments(t *testing.T) {
	const definition = `{"name":"create_issue","description":"Create an issue in a repository","inputSchema":{"type":"object","properties":{"owner":{"type":"string"},"title":{"type":"string"}},"required":["owner","title"]}}`
	c := config.Config{Servers: []config.Server{fake("one"), fake("two")}}
	list := filepath.Join(t.TempDir(), "tools.json")
	expect.OK(t, os.WriteFile(list, []byte(`{"tools":[`+definition+`]}`), 0o600))
	for i := range c.Servers {
		c.Servers[i].Args = append(c.Servers[i].Args, "-list", list)
	}
	c.Router.Profiles = map[string]config.Profile{"work": {Arguments: map[string]map[string]json.RawMessage{
		"create_*": {"owner": json.RawMessage(`"acme"`), "unknown": json.RawMessage(`1`)},
	}}}
	s := routerOf(t, c).Scope("work")
	selection, err := s.Select(t.Context(), selector.Query{Task: "create an issue in the repository"})
	expect.OK(t, err)
	if selection.Tool == nil || len(selection.Places) != 2 {
		t.Fatalf("selected %v, one of %d", selection.Tool, len(selection.Places))
	}
	for _, tool := range append(selection.Places, selection.Tool) {
		expect.Equal(t, string(tool.Fixed), `{"owner":"acme"}`, "%s has the fixed arguments", tool.ID)
		if checked := s.Check(t.Context(), tool, json.RawMessage(`{"title":"x"}`)); len(checked.Faults) > 0 {
			t.Errorf("check of %s: %q", tool.ID, checked.Faults)
		}
		result, err := s.Execute(t.Context(), selector.Call{Tool: tool, Arguments: json.RawMessage(`{"title":"x"}`)})
		if err != nil || !strings.Contains(string(result.JSON), `acme`) {
			t.Errorf("call of %s: %s, %v", tool.ID, result.JSON, err)
		}
		result, err = s.Execute(t.Context(), selector.Call{Tool: tool, Arguments: json.RawMessage(`{"title":"x","owner":"evil"}`)})
		if err == nil && !result.IsError || strings.Contains(string(result.JSON), `"arguments":{"title":"x","owner":"evil"`) {
			t.Errorf("call of %s with a fixed argument: %s, %v", tool.ID, result.JSON, err)
		}
	}
}

// A change that came before the router sends changes is sent when it begins.
func TestChangedBeforeRun(t *testing.T) {
	r := New(config.Config{}, Options{Play: play.Server})
	defer r.Close()
	changed := r.changed.Next()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		notifyOfChanges(ctx, r)
	}()
	<-changed
	cancel()
	<-ended
}

// No client sees a tool that is held, with profiles or without, nor does another node; administrators do.
func TestHeldToolsAreHidden(t *testing.T) {
	for _, profiles := range []map[string]config.Profile{nil, {"default": {Servers: []string{"a"}}, "other": {}}} {
		c := configOf(profiles, "a")
		c.Servers[0].NewTools = "hold"
		r := New(c, Options{Play: play.Server})
		t.Cleanup(func() { expect.OK(t, r.Close()) })
		o := offerOf("a")
		o.Tools[1].Held = true
		if _, err := r.registry.Replace("a", o); err != nil {
			t.Fatal(err)
		}
		for _, chosen := range [][]string{nil, {"other"}} {
			if profiles == nil && chosen != nil {
				continue
			}
			view := r.Scope(chosen...)
			if got := view.Snapshot().Tools(); len(got) != 1 || got[0].ID != "a:read_x" {
				t.Errorf("%v: %v", chosen, itemsOf(view.Snapshot()))
			}
			held, _ := r.Tool("a:delete_x")
			_, err := view.Execute(t.Context(), selector.Call{Tool: held})
			expect.Error(t, err, `unknown tool "a:delete_x"`, "%v: a call", chosen)
		}
		expect.Equal(t, len(r.Snapshot().Tools()), 2, "administrators see … tools")
		expect.Equal(t, len(clusterOffer(r.registry.Snapshot().Offer("a")).Tools), 1, "other nodes get … tools")
	}
}
