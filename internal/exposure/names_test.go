package exposure

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func pointers(tools ...registry.NormalizedTool) []*registry.NormalizedTool {
	all := make([]*registry.NormalizedTool, len(tools))
	for i := range tools {
		all[i] = &tools[i]
	}
	return all
}

func TestExposedNames(t *testing.T) {
	for _, test := range []struct {
		name, style, separator string
		tools                  [][2]string
		want                   []string
	}{
		{"prefixed", Prefixed, "", [][2]string{{"git", "log"}, {"hub", "log"}}, []string{"git__log", "hub__log"}},
		{"bare", Bare, "", [][2]string{{"git", "log"}, {"git", "diff"}, {"hub", "log"}}, []string{"git__log", "diff", "hub__log"}},
		{"ours win", Bare, "", [][2]string{{"x", "find_tools"}, {"x", "other"}}, []string{"x__find_tools", "other"}},
		{"a bare name like a prefixed one", Bare, "", [][2]string{{"a", "b"}, {"c", "b"}, {"d", "a__b"}}, []string{"a__b_", "c__b", "a__b"}},
		{"the separator in a server's name", Prefixed, "", [][2]string{{"a", "b__c"}, {"a__b", "c"}}, []string{"a__b__c", "a__b__c_"}},
		{"an underscore at the seam", Prefixed, "", [][2]string{{"a", "_b"}, {"a_", "b"}}, []string{"a___b", "a___b_"}},
		{"altered", Prefixed, "", [][2]string{{"my server", "tool.é"}}, []string{"my_server__tool_e_"}},
		{"cut", Prefixed, "", [][2]string{{"server", strings.Repeat("x", 39)}, {"server", strings.Repeat("x", 40)}}, []string{"server__" + strings.Repeat("x", 39), "server__" + strings.Repeat("x", 30) + "_"}},
		{"bare and cut", Bare, "", [][2]string{{"s", strings.Repeat("x", 47)}, {"s", strings.Repeat("y", 48)}}, []string{strings.Repeat("x", 47), "s__" + strings.Repeat("y", 35) + "_"}},
		{"dot", Prefixed, ".", [][2]string{{"a", "b.c"}, {"a.b", "c"}}, []string{"a.b.c", "a.b.c_"}},
		{"dash", Prefixed, "-", [][2]string{{"a", "b"}}, []string{"a-b"}},
		{"another node", Prefixed, "", [][2]string{{"gpu", "run"}, {"gpu@box", "run"}}, []string{"gpu__run", "gpu-at-box__run"}},
		{"another node, taken", Prefixed, "", [][2]string{{"gpu-at-box", "run"}, {"gpu@box", "run"}}, []string{"gpu-at-box__run", "gpu-at-box__run_"}},
		{"another node, bare", Bare, "", [][2]string{{"gpu@box", "run"}, {"gpu@nas", "run"}, {"gpu@nas", "stop"}}, []string{"gpu-at-box__run", "gpu-at-nas__run", "stop"}},
		{"another node, illegal", Prefixed, "", [][2]string{{"my gpu@box", "run"}}, []string{"my_gpu-at-box__run_"}},
		{"slash", Prefixed, "/", [][2]string{{"a", "b"}}, []string{"a/b"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var tools []*registry.NormalizedTool
			for _, tl := range test.tools {
				tools = append(tools, pointers(tool(tl[0], tl[1]))...)
			}
			n := OfTools(slices.Clone(tools), test.style, test.separator, "")
			slices.Reverse(tools)
			reversed := OfTools(slices.Clone(tools), test.style, test.separator, "")
			slices.Reverse(tools)
			for i, want := range test.want {
				got := n.Exposed(tools[i])
				if hashed := strings.HasSuffix(want, "_"); got != want && !(hashed && regexp.MustCompile("^"+regexp.QuoteMeta(want)+"[0-9a-f]{8}$").MatchString(got)) {
					t.Errorf("%s is exposed as %s, want %s", tools[i].ID, got, want)
				}
				expect.Equal(t, reversed.Exposed(tools[i]), got, "%s is exposed as … or …, depending on the order", tools[i].ID)
			}
		})
	}
}

// Names must not change from one release to the next: people allow tools by name.
func TestHashIsStable(t *testing.T) {
	tools := pointers(tool("my server", "tool"))
	expect.Equal(t, OfTools(tools, Prefixed, "__", "").Exposed(tools[0]), "my_server__tool_ec0561ad", "exposed as")
}

func TestResolve(t *testing.T) {
	tools := pointers(
		tool("git", "log"), tool("hub", "log"), tool("hub", "create_issue"), tool("hub", "list_issues"),
		tool("a", "b__c"), tool("a__b", "c"), tool("my server", "run"), tool("dots", "a.b"), tool("x", "y:z"),
	)
	n := OfTools(tools, Prefixed, "-", "")
	for name, want := range map[string]string{
		"git-log": "git:log", "git:log": "git:log", "git__log": "git:log", "git.log": "git:log",
		"create_issue": "hub:create_issue", "my server:run": "my server:run", "run": "my server:run",
		n.Exposed(tools[6]): "my server:run",
		"a:b__c":            "a:b__c", "dots.a.b": "dots:a.b", "a.b": "dots:a.b", "x:y:z": "x:y:z",
	} {
		if got, err := n.Resolve(name); err != nil || got.ID != want {
			t.Errorf("Resolve(%q) = %v, %v; want %s", name, got, err, want)
		}
	}
	for name, want := range map[string]NameError{
		"log":           {Ambiguous: []string{"git:log", "hub:log"}},
		"a__b__c":       {Ambiguous: []string{"a:b__c", "a__b:c"}},
		"creat_isue":    {Nearest: "hub:create_issue"},
		"hub-logs":      {Nearest: "hub:log"},
		"":              {},
		"incomprehensi": {},
	} {
		_, err := n.Resolve(name)
		var got *NameError
		if !errors.As(err, &got) || !slices.Equal(got.Ambiguous, want.Ambiguous) || got.Nearest != want.Nearest {
			t.Errorf("Resolve(%q) = %v, want %+v", name, err, want)
		}
	}
}

// The prefix is taken off what has no meaning with it.
// A tool on another node has the usual forms of names, with "@" or "-at-".
func TestResolveOnAnotherNode(t *testing.T) {
	tools := pointers(tool("gpu", "run"), tool("gpu@box", "run"), tool("look-at-me@my-at-node", "go"))
	n := OfTools(tools, Prefixed, "", "")
	for name, want := range map[string]string{
		"gpu-at-box__run": "gpu@box:run", "gpu@box:run": "gpu@box:run", "gpu@box__run": "gpu@box:run", "gpu@box.run": "gpu@box:run",
		"gpu-at-box:run": "gpu@box:run", "gpu-at-box.run": "gpu@box:run", "gpu:run": "gpu:run", "gpu__run": "gpu:run", "gpu.run": "gpu:run",
		"look-at-me-at-my-at-node__go": "look-at-me@my-at-node:go", "look-at-me-at-my-at-node.go": "look-at-me@my-at-node:go",
	} {
		if got, err := n.Resolve(name); err != nil || got.ID != want {
			t.Errorf("%s means %v, %v; want %s", name, got, err, want)
		}
	}
	for _, name := range []string{"gpu-at-nas__run", "gpu@nas:run", "-at-__run", "@:run"} {
		if got, err := n.Resolve(name); err == nil {
			t.Errorf("%s means %s", name, got.ID)
		}
	}
	servers := []status.Server{{Status: status.Status{Name: "gpu"}}, {Status: status.Status{Name: "gpu@box"}}}
	for name, want := range map[string]string{"gpu-at-box__new": "gpu@box", "gpu@box:new": "gpu@box", "gpu__new": "gpu"} {
		if server, tool, ok := Split(name, "", servers); !ok || server != want || tool != "new" {
			t.Errorf("%s begins with %s, %s, %v; want %s", name, server, tool, ok, want)
		}
	}
}

func TestUnprefixed(t *testing.T) {
	var servers []status.Server
	for _, name := range []string{"files", "gw", "late"} {
		var s status.Server
		s.Name = name
		if name != "late" {
			s.Tools = 1
		}
		servers = append(servers, s)
	}
	for name, test := range map[string]struct {
		prefix string
		want   map[string]string
	}{
		"none": {"", map[string]string{"files__read": "files__read", "gw.files__read": "gw.files__read", "": ""}},
		"gw.": {"gw.", map[string]string{
			"files__read": "files__read", "read": "read", "": "", "gw.": "gw.",
			"gw/files__read": "gw/files__read", "GW.files__read": "GW.files__read", // another prefix
			"gw.read":        "gw.read", // the server gw has it
			"gw.new":         "gw.new",  // the server gw may have it
			"gw.files__read": "files__read", "gw.find_tools": "find_tools",
		}},
		"x-": {"x-", map[string]string{
			"x-files__read": "files__read", "x-files:read": "files:read", "x-files.read": "files.read", "x-read": "read", "x-find_tools": "find_tools",
			"x-late__new": "late__new", "x-nothing": "nothing", "x-x-read": "x-read",
			"x-ray": "x-ray", // a tool's own name
		}},
		"late.": {"late.", map[string]string{"late.read": "late.read", "late.files__read": "late.files__read"}}, // what late has is not known
		"find_": {"find_", map[string]string{"find_tools": "find_tools", "find_read": "read"}},
		"files": {"files", map[string]string{"files__read": "files__read", "files:read": "files:read", "filesread": "read"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := OfTools(pointers(
				registry.NormalizedTool{ID: "files:ray", Server: "files", Name: "x-ray"}, registry.NormalizedTool{ID: "files:read", Server: "files", Name: "read"},
				registry.NormalizedTool{ID: "gw:read", Server: "gw", Name: "read"},
			), Prefixed, "", test.prefix)
			for called, want := range test.want {
				expect.Equal(t, n.Unprefixed(called, func() []status.Server { return servers }), want, "Unprefixed(%q)", called)
			}
		})
	}
}

func FuzzNames(f *testing.F) {
	f.Add("a b__c\na__b c\na_ b\na _b", false, byte(0))
	f.Add("x find_tools\ny find_tools\nz a__b\na b\nc b", true, byte(0))
	f.Add("s "+strings.Repeat("long", 20)+"\né ü\n . /", true, byte(1))
	f.Fuzz(func(t *testing.T, list string, bare bool, sep byte) {
		style := Prefixed
		if bare {
			style = Bare
		}
		separator := []string{"__", ".", "-", "/"}[sep%4]
		legal := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,47}$`)
		if separator != "__" {
			legal = regexp.MustCompile(`^[a-zA-Z0-9_\-` + regexp.QuoteMeta(separator) + `]{1,47}$`)
		}
		seen := map[string]bool{}
		var tools []*registry.NormalizedTool
		for line := range strings.Lines(list) {
			server, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			if id := registry.ID(server, name); !seen[id] {
				seen[id] = true
				tools = append(tools, pointers(registry.NormalizedTool{ID: id, Server: server, Name: name})...)
			}
		}
		n := OfTools(tools, style, separator, "")
		owner := map[string]string{"find_tools": "ours"}
		for _, tool := range tools {
			name := n.Exposed(tool)
			if !legal.MatchString(name) {
				t.Errorf("%q is exposed under the illegal name %q", tool.ID, name)
			}
			if other, taken := owner[name]; taken {
				t.Errorf("%q and %q are both exposed as %q", other, tool.ID, name)
			}
			owner[name] = tool.ID
			if got, err := n.Resolve(name); err != nil || got != tool {
				t.Errorf("Resolve(%q) = %v, %v; want %q", name, got, err, tool.ID)
			}
		}
	})
}

// An unknown name of any length costs little, and its error is short.
func TestLongUnknownName(t *testing.T) {
	names := OfTools([]*registry.NormalizedTool{{Server: "a", Name: "read"}}, Prefixed, "", "")
	for _, name := range []string{strings.Repeat(".", 4<<20), strings.Repeat("read", 1<<20)} {
		_, err := names.Resolve(name)
		var unknown *NameError
		if !errors.As(err, &unknown) || len(err.Error()) > 1000 || len(unknown.Nearest) > 0 {
			t.Errorf("Resolve: an error of %d bytes with %d similar names", len(err.Error()), len(unknown.Nearest))
		}
	}
}

// A name of megabytes with a separator at each place is not copied for each. A tool of the longest ID is found by each form
// of its name.
func TestNameOfSeparators(t *testing.T) {
	long := strings.Repeat("n", 1000)
	var names []*ToolNames
	for _, separator := range []string{"", "-to-the-tool-"} {
		names = append(names, OfTools(pointers(
			registry.NormalizedTool{ID: "s:" + long, Server: "s", Name: long}, registry.NormalizedTool{ID: "gpu@box:" + long, Server: "gpu@box", Name: long},
			registry.NormalizedTool{ID: strings.Repeat("s", 250) + ":x", Server: strings.Repeat("s", 250), Name: "x"},
		), Prefixed, separator, ""))
	}
	for _, n := range names {
		for _, prefix := range []string{"s:", "s.", "s__", "s" + n.spelling.separator(), "gpu@box:", "gpu-at-box__", "gpu-at-box" + n.spelling.separator()} {
			if found, err := n.Resolve(prefix + long); err != nil || found.Name != long {
				t.Errorf("%s…: %v", prefix, err)
			}
		}
		for _, part := range []string{":", "-at-.", "__"} {
			if found := testing.AllocsPerRun(1, func() { n.Resolve(strings.Repeat(part, 4<<20/len(part))) }); found > 20 {
				t.Errorf("%s: %v allocations", part, found)
			}
		}
	}
}

// One name is suggested, if it is near.
func TestNearest(t *testing.T) {
	names := OfTools(pointers(tool("memory", "open_nodes"), tool("memory", "search_nodes"), tool("sqlite", "describe_table"), tool("a", "read")), Prefixed, "", "")
	for name, want := range map[string]string{"nope:x": "", "nope:read": "a:read", "run_script": "", "memory:open_node": "memory:open_nodes", "describe": "", "descibe_table": "sqlite:describe_table", "memory__serach_nodes": "memory:search_nodes", "a:reed": "a:read"} {
		_, err := names.Resolve(name)
		var unknown *NameError
		if !errors.As(err, &unknown) || unknown.Nearest != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The search for a similar name compares a bounded number of names. An error names a bounded number of items.
func TestNearestIsBounded(t *testing.T) {
	first, last := tool("a", "first"), tool("z", "last")
	all := pointers(first)
	for i := range maxCompared {
		all = append(all, pointers(tool("m", fmt.Sprintf("%06d", i)))...)
	}
	names := OfTools(append(all, pointers(last)...), Prefixed, "", "")
	for name, want := range map[string]string{"a:firs": "a:first", "z:las": ""} {
		_, err := names.Resolve(name)
		var unknown *NameError
		if !errors.As(err, &unknown) || unknown.Nearest != want {
			t.Errorf("Resolve(%q): %v", name, err)
		}
	}
	all = nil
	for i := range 1000 {
		all = append(all, pointers(tool(fmt.Sprintf("server%03d", i), "same"))...)
	}
	if _, err := OfTools(all, Prefixed, "", "").Resolve("same"); err == nil || len(err.Error()) > 50*maxAmbiguous {
		t.Errorf("Resolve: %v", err)
	}
}

func tool(server, name string) registry.NormalizedTool {
	return registry.NormalizedTool{ID: registry.ID(server, name), Server: server, Name: name}
}
