package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	weakly "weak"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/capability"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/schemas"
)

// An endless server has lists of pages without end, each with one element and much else.
type endless struct {
	session.Session
	last  map[string]int // the last page of each list; none is 0, and less than 0 is no end
	junk  int            // bytes of a page
	asked map[string]int
	page  func(raw json.RawMessage) // called with each page, if it is not nil
}

func (e *endless) Info() session.Info {
	return session.Info{Capabilities: json.RawMessage(`{"tools":{},"prompts":{},"resources":{}}`)}
}

func (e *endless) Call(_ context.Context, r session.Request) (json.RawMessage, error) {
	e.asked[r.Method]++
	member := map[string]string{
		"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates",
	}[r.Method]
	n := e.asked[r.Method]
	next := ""
	if n != e.last[r.Method] {
		next = fmt.Sprintf(`,"nextCursor":"%d"`, n)
	}
	raw := fmt.Appendf(nil, `{%q:[{"name":"e%[2]d","uri":"a:%[2]d","uriTemplate":"a:{x}%[2]d"}],"junk":"%s"%s}`, member, n, strings.Repeat("x", e.junk), next)
	if e.page != nil {
		e.page(raw)
	}
	return raw, nil
}

// A list without end is given up for its bytes, however few items it has.
func TestListBytes(t *testing.T) {
	s := &endless{junk: 8 << 20, asked: map[string]int{}}
	_, err := List(t.Context(), "demo", s, Rules{}, zap.NewNop())
	if err == nil || !strings.Contains(err.Error(), "list tools of demo") || !strings.Contains(err.Error(), "64 MiB") {
		t.Errorf("error %v", err)
	}
	expect.Equal(t, s.asked["tools/list"], 8, "pages of 8 MiB were read")
}

// All lists of a server have the bound together. The tools do not suffer from the others.
func TestListBytesOfAll(t *testing.T) {
	s := &endless{junk: 10 << 20, asked: map[string]int{}, last: map[string]int{"tools/list": 2}}
	l, err := List(t.Context(), "demo", s, Rules{}, zap.NewNop())
	if err != nil || len(l.Tools) != 2 || len(l.Prompts)+len(l.Resources)+len(l.Templates) != 0 {
		t.Fatalf("%d tools, %d prompts, %v", len(l.Tools), len(l.Prompts), err)
	}
	if n := s.asked["tools/list"] + s.asked["prompts/list"] + s.asked["resources/list"] + s.asked["resources/templates/list"]; n > 9 {
		t.Errorf("%d pages of 10 MiB were read", n)
	}
	for i, kind := range []string{"prompt", "resource", "template"} {
		if d := l.Dropped[i]; d.Kind != kind || d.Name != "" || !strings.Contains(d.Reason, "64 MiB") {
			t.Errorf("left out: %+v", d)
		}
	}
}

// A page can be collected once the next one is read.
func TestListReleasesPages(t *testing.T) {
	const pages = 5
	s := &endless{junk: 1 << 20, asked: map[string]int{}, last: map[string]int{"tools/list": pages, "prompts/list": 1, "resources/list": 1, "resources/templates/list": 1}}
	var all []weakly.Pointer[byte]
	kept := 0
	s.page = func(raw json.RawMessage) {
		runtime.GC()
		kept = 0
		for _, page := range all {
			if page.Value() != nil {
				kept++
			}
		}
		all = append(all, weakly.Make(&raw[0]))
	}
	l, err := List(t.Context(), "demo", s, Rules{}, zap.NewNop())
	if err != nil || len(l.Tools) != pages || len(l.Prompts) != 1 {
		t.Fatalf("%d tools, %v", len(l.Tools), err)
	}
	if kept > 1 {
		t.Errorf("%d pages are kept", kept)
	}
}

// TestHostileSchemas checks that the definitions of tools with hostile schemas are read in a bounded
// number of steps, and do not grow much. Without the bounds, the test does not end.
func TestHostileSchemas(t *testing.T) {
	taxonomy := capability.NewTaxonomy(nil)
	for name, schema := range schemas.Hostile() {
		raw := json.RawMessage(`{"name":"t","description":"Reads.","inputSchema":` + schema + `,"outputSchema":` + schema + `}`)
		if len(raw) > maxBytes {
			raw = json.RawMessage(`{"name":"t","description":"Reads.","inputSchema":` + schema + `}`)
		}
		tool, err := Normalize("s", raw, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if n := len(tool.Definition) + len(tool.Flat); n > 2*maxBytes {
			t.Errorf("%s: the definitions have %d bytes", name, n)
		}
		taxonomy.Infer(tool)
	}
}
