package launch

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// Two routers with one data folder find out different things about a server: the file has both,
// and so has the memory of the router that saved last.
func TestCacheOfTwoRouters(t *testing.T) {
	dir := t.TempDir()
	entry := config.Server{Name: "s", Command: "server"}
	a, b := newCache(dir), newCache(dir)
	a.Edit(entry, func(r *ProbeResult) { r.Fetched = true })
	b.Edit(entry, func(r *ProbeResult) { r.Asked("roots/list") })
	if got := newCache(dir).Get(entry); got != (ProbeResult{}) {
		t.Errorf("before it is saved, the file has %+v", got)
	}
	a.Save()
	b.Save()
	both := ProbeResult{Fetched: true, AsksRoots: true}
	if got := newCache(dir).Get(entry); got != both {
		t.Errorf("the file has %+v", got)
	}
	if got := b.Get(entry); got != both {
		t.Errorf("the router that saved last has %+v", got)
	}
}

// Changes are also saved without a call of Save, and again after it was called.
func TestCacheSavesItself(t *testing.T) {
	dir := t.TempDir()
	c := newCache(dir)
	for _, name := range []string{"first", "second"} {
		entry := config.Server{Name: name, Command: name}
		c.Edit(entry, func(r *ProbeResult) { r.Fetched = true })
		mcptest.WaitFor(t, name, func() bool { return newCache(dir).Get(entry).Fetched })
	}
}

func TestCacheWithoutFolder(t *testing.T) {
	c := newCache("")
	entry := config.Server{Name: "s"}
	c.Edit(entry, func(r *ProbeResult) { r.Fetched = true })
	c.Save()
	if !c.Get(entry).Fetched {
		t.Error("it is forgotten")
	}
}
