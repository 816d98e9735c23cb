package launch

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Two routers with one data folder find out different things about a server: the file has both,
// and so has the memory of the router that edited last.
func TestCacheOfTwoRouters(t *testing.T) {
	dir := t.TempDir()
	entry := config.Server{Name: "s", Command: "server"}
	a, b := newCache(dir), newCache(dir)
	a.Edit(entry, func(r *ProbeResult) { r.Fetched = true })
	b.Edit(entry, func(r *ProbeResult) { r.Asked("roots/list") })
	both := ProbeResult{Fetched: true, AsksRoots: true}
	expect.Equal(t, newCache(dir).Get(entry), both, "the file")
	expect.Equal(t, b.Get(entry), both, "the router that edited last")
}

func TestCacheWithoutFolder(t *testing.T) {
	c := newCache("")
	entry := config.Server{Name: "s"}
	c.Edit(entry, func(r *ProbeResult) { r.Fetched = true })
	if !c.Get(entry).Fetched {
		t.Error("it is forgotten")
	}
}
