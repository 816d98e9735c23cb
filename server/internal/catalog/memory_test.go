package catalog

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// bigCatalog returns a catalog of 2,000 tools with definitions of a usual size.
func bigCatalog(t testing.TB) *registry.Registry {
	r := registry.New()
	for s := range 20 {
		server := fmt.Sprintf("server-%d", s)
		var o registry.Offer
		for i := range 100 {
			one := tool(server, fmt.Sprintf("some_tool_%d", i))
			one.InputSchema = json.RawMessage(`{"type":"object","properties":{"text":{"type":"string","description":"` + strings.Repeat("words ", 100) + `"}}}`)
			one.Definition = fmt.Appendf(nil, `{"name":%q,"description":"Does it","inputSchema":%s}`, one.Name, one.InputSchema)
			o.Tools = append(o.Tools, one)
		}
		_, err := r.Replace(server, o)
		expect.OK(t, err)
	}
	return r
}

// most shows all but the tools of one name, so that each view has a snapshot of its own.
type most struct{ without string }

func (most) Server(string) bool                                       { return true }
func (m most) Item(i registry.Item) bool                              { return i.Tool == nil || i.Tool.Name != m.without }
func (most) Claim(string, string) bool                                { return true }
func (most) Tool(t *registry.NormalizedTool) *registry.NormalizedTool { return t }

// heap returns the bytes of the objects in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// The views of 50 profiles over 2,000 tools share the definitions.
func TestViewsShareDefinitions(t *testing.T) {
	const profiles = 50
	r := bigCatalog(t)
	all := r.Snapshot()
	definitions := 0
	for _, one := range all.Tools() {
		definitions += len(one.Definition)
	}
	for _, search := range []bool{false, true} {
		before := heap()
		views := make([]*View, profiles)
		for i := range views {
			views[i] = NewView(all.Filtered(most{fmt.Sprintf("some_tool_%d", i)}, nil), &Options{Search: search})
		}
		used := (heap() - before) / profiles
		t.Logf("search %v: %d bytes a profile, the definitions have %d", search, used, definitions)
		if most := uint64(definitions) / 5; used > most {
			t.Errorf("search %v: %d bytes a profile, want at most %d", search, used, most)
		}
		runtime.KeepAlive(views)
	}
}
