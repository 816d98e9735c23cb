package service

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A client gets a process of its own of the servers alone that depend on a variable with another value, or on its folder.
func TestVariants(t *testing.T) {
	file := filepath.Join(t.TempDir(), ".mcp.json")
	expect.OK(t, os.WriteFile(file, []byte(`{"mcpServers": {
		"plain":     {"command": "x"},
		"refers":    {"command": "x", "env": {"T": "${TEST_VALUE:-none} ${TEST_SAME}"}},
		"needs":     {"command": "x", "args": ["${TEST_ONLY_OURS}"]},
		"default":   {"command": "x", "args": ["${TEST_ONLY_OURS:-none}"]},
		"shells":    {"command": "x", "args": ["${TEST_SHELL}"]},
		"inherits":  {"command": "x", "inheritEnv": ["TEST_VALUE", "TEST_ONLY_OURS", "TEST_SAME"], "env": {"A": "1"}},
		"all":       {"command": "x", "inheritEnv": ["*"]},
		"overrides": {"command": "x", "inheritEnv": ["TEST_VALUE"], "env": {"TEST_VALUE": "own"}},
		"folder":    {"command": "x", "cwd": "client"}}}`), 0o600))
	for name, value := range map[string]string{"TEST_VALUE": "ours", "TEST_SAME": "same", "TEST_ONLY_OURS": "ours", "TEST_SHELL": "ours"} {
		t.Setenv(name, value)
	}
	c, err := config.Load(file)
	expect.OK(t, err)
	p := place{
		folder:    "/clients",
		variables: map[string]string{"TEST_VALUE": "theirs", "TEST_SAME": "same", "TEST_NEW": "new", "PWD": "/clients", "LANG": "x", "PATH": "/clients"},
		ours:      os.LookupEnv,
		shell:     func(name string) (string, bool) { return "shell", name == "TEST_SHELL" },
	}
	if os.Getenv("LANG") != "" {
		p.variables["LANG"] = os.Getenv("LANG")
	} else {
		delete(p.variables, "LANG")
	}
	got := make(map[string]string)
	variants := p.variantsOf(c)
	for name, v := range variants {
		got[name] = v.Reason
	}
	want := map[string]string{
		"refers":   "clients differ in TEST_VALUE",
		"default":  "clients differ in TEST_ONLY_OURS",
		"shells":   "clients differ in TEST_SHELL",
		"inherits": "clients differ in TEST_ONLY_OURS, TEST_VALUE",
		"all":      "clients differ in TEST_NEW, TEST_VALUE",
		"folder":   "it runs in the folder of the client, /clients",
	}
	if !maps.Equal(got, want) {
		t.Fatalf("got  %q\nwant %q", got, want)
	}
	for _, tt := range []struct{ server, got, want string }{
		{"refers", variants["refers"].Entry.Env["T"], "theirs same"},
		{"default", variants["default"].Entry.Args[0], "none"},
		{"shells", variants["shells"].Entry.Args[0], "shell"},
		{"inherits", variants["inherits"].Entry.Env["TEST_VALUE"], "theirs"},
		{"folder", variants["folder"].Entry.Cwd, "/clients"},
	} {
		expect.Equal(t, tt.got, tt.want, "%s", tt.server)
	}
	if in := variants["inherits"].Entry; !slices.Equal(in.InheritEnv, []string{"TEST_VALUE", "TEST_SAME"}) || in.Env["A"] != "1" || len(c.Servers[5].Env) != 1 {
		t.Errorf("the entry inherits %q and has %q, and the router's has %q", in.InheritEnv, in.Env, c.Servers[5].Env)
	}
}

// A process that clients share keeps a variable of the first client only if a server can't start without it, and gives other servers no locale of it.
func TestLend(t *testing.T) {
	file := filepath.Join(t.TempDir(), ".mcp.json")
	expect.OK(t, os.WriteFile(file, []byte(`{"mcpServers": {"needs": {"command": "x", "args": ["${TEST_NEEDED}", "${LC_TEST}"]}, "may": {"command": "x", "args": ["${TEST_SPARE:-none}"]}}}`), 0o600))
	t.Setenv("TEST_NEEDED", "") // which is put back
	os.Unsetenv("TEST_NEEDED")
	c, err := config.Load(file)
	expect.OK(t, err)
	r := Runner{lent: new(sync.Map)}
	theirs := func(name string) (string, bool) { return "theirs", true }
	if !r.lend(c, theirs) || os.Getenv("TEST_NEEDED") != "theirs" || os.Getenv("TEST_SPARE") != "" || os.Getenv("LC_TEST") != "" {
		t.Errorf("it has %q, %q and %q", os.Getenv("TEST_NEEDED"), os.Getenv("TEST_SPARE"), os.Getenv("LC_TEST"))
	}
	if c = r.Complete(c); c.Servers[0].Misconfigured != "" || c.Servers[0].Args[1] != "theirs" || r.lend(c, theirs) {
		t.Errorf("it lacks one still: %+v", c.Servers[0])
	}
	for value, want := range map[string]bool{"theirs": false, "others": true} {
		p := place{variables: map[string]string{"TEST_NEEDED": "theirs", "LC_TEST": value}, shell: r.base.Lookup, ours: r.lookup}
		if _, differs := p.variantsOf(c)["needs"]; differs != want {
			t.Errorf("a client with %q has a process of its own: %t", value, differs)
		}
	}
}
