package registry

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// hiding hides servers, and items and claims whose ID has the word "secret". It replaces tools
// that have a clone.
type hiding struct {
	servers []string
	clones  map[string]*NormalizedTool
}

func (h hiding) Server(name string) bool { return !slices.Contains(h.servers, name) }
func (hiding) Item(i Item) bool          { return !strings.Contains(i.ID(), "secret") }
func (hiding) Claim(_, uri string) bool  { return !strings.Contains(uri, "secret") }
func (h hiding) Tool(t *NormalizedTool) *NormalizedTool {
	if clone := h.clones[t.ID]; clone != nil {
		return clone
	}
	return t
}

// kinds returns the offer of a server with two items of each kind, one of which is secret.
func kinds(server string) Offer {
	prompt := func(name string) Prompt { return Prompt{ID: ID(server, name), Server: server, Name: name} }
	template := func(uri string) Template { return Template{ID: ID(server, uri), Server: server, URI: uri} }
	return Offer{
		Tools:        []NormalizedTool{tool(server, "z", "", server+"-tag"), tool(server, "secret", "", "secret-tag")},
		Prompts:      []Prompt{prompt("p"), prompt("secret")},
		Resources:    []Resource{resource(server, server+"://r", "r"), resource(server, server+"://secret", "secret")},
		Templates:    []Template{template(server + "://t/{x}"), template(server + "://secret/{x}")},
		Capabilities: json.RawMessage(`{"tools":{}}`), Extensions: json.RawMessage(`{"` + server + `":{}}`),
		Dropped:  []Dropped{{Kind: KindTool, Name: "dropped-secret"}},
		LastSeen: map[string]json.RawMessage{"gone-secret": nil},
	}
}

func TestFiltered(t *testing.T) {
	r := New()
	r.Configure([]string{"a", "b", "c"}, Claims{"old://secret": {Server: "a", Since: 1}, "old://a": {Server: "a", Since: 1}})
	for _, server := range []string{"a", "b", "c"} {
		offer(t, r, server, kinds(server))
	}
	all := r.Snapshot()
	clone := tool("a", "z", "clone")
	s := all.Filtered(hiding{[]string{"b"}, map[string]*NormalizedTool{"a:z": &clone}}, nil)

	want(t, "tools", ids(s.Tools()), "a:z", "c:z")
	want(t, "prompts", ids(s.Prompts()), "a:p", "c:p")
	want(t, "resources", ids(s.Resources()), "a:a://r", "c:c://r")
	want(t, "templates", ids(s.Templates()), "a:a://t/{x}", "c:c://t/{x}")
	if got, ok := s.Tool("a:z"); !ok || got != &clone || s.Offer("a").Tools[0] != &clone {
		t.Errorf("the tool is %v, and not its clone", got)
	}
	if got, _ := s.Tool("c:z"); got != all.Offer("c").Tools[0] {
		t.Error("a tool that is not replaced is another pointer")
	}
	for _, id := range []string{"b:z", "a:secret", "c:c://secret"} {
		if got := s.Items(id); got != nil {
			t.Errorf("Items(%q) = %v", id, got)
		}
	}
	if got := s.Offer("b"); !got.equal(Listing{}) {
		t.Errorf("the hidden server offers %v", got)
	}
	expect.Equal(t, fmt.Sprint(s.Capabilities()), "map[c-tag:1]", "capabilities")
	if got := owners(s, "old://a", "a://r", "b://r", "a://secret", "old://secret"); got != "old://a=a a://r=a b://r= a://secret= old://secret=" || len(s.Claims()) != 5 {
		t.Errorf("claims: %s, %d in all", got, len(s.Claims()))
	}
	for _, server := range []string{"a", "c"} {
		o := s.Offer(server)
		if text := fmt.Sprintf("%+v", o); strings.Contains(text, "secret") || string(o.Extensions) == "" || string(o.Capabilities) == "" {
			t.Errorf("the offer of %s: %s", server, text)
		}
	}
}

// The same catalog is the same snapshot, also after a change of what is hidden.
func TestFilteredAgain(t *testing.T) {
	r := New()
	offer(t, r, "a", kinds("a"))
	offer(t, r, "b", kinds("b"))
	hide := hiding{servers: []string{"b"}}
	before := r.Snapshot().Filtered(hide, nil)
	changed := kinds("a")
	changed.Tools = append(changed.Tools, tool("a", "secret2", ""))
	offer(t, r, "a", changed)
	offer(t, r, "b", Offer{})
	expect.Equal(t, r.Snapshot().Filtered(hide, before), before, "the snapshot after a change of hidden items")
	changed.Tools = append(changed.Tools, tool("a", "new", ""))
	offer(t, r, "a", changed)
	after := r.Snapshot().Filtered(hide, before)
	want(t, "tools", ids(after.Tools()), "a:new", "a:z")
	expect.Equal(t, after.Version, before.Version+1, "version … after %d", before.Version)
}

// What the filter leaves as it is is shared.
func TestFilteredShares(t *testing.T) {
	r := New()
	for i := range 20 {
		var tools []NormalizedTool
		for j := range 100 {
			tools = append(tools, tool(fmt.Sprintf("s%02d", i), fmt.Sprintf("t%02d", j), ""))
		}
		replace(t, r, fmt.Sprintf("s%02d", i), tools...)
	}
	all := r.Snapshot()
	if s := all.Filtered(hiding{}, nil); &s.all.Tools[0] != &all.all.Tools[0] || s.servers["s00"] != all.servers["s00"] {
		t.Error("nothing is hidden, and something was copied")
	}
	s := all.Filtered(hiding{servers: []string{"s00"}}, nil)
	if s.servers["s01"] != all.servers["s01"] || cap(s.all.Tools) != 1900 {
		t.Errorf("the listing of a server was copied, or the slice of %d tools has room for %d", len(s.all.Tools), cap(s.all.Tools))
	}
}

// Two servers may have items of the same ID.
func TestFilteredBySameID(t *testing.T) {
	r := New()
	replace(t, r, "a", tool("a", "b:c", "of a"))
	replace(t, r, "a:b", tool("a:b", "c", "of a:b"))
	s := r.Snapshot().Filtered(hiding{servers: []string{"a:b"}}, nil)
	if len(s.Tools()) != 1 || s.Tools()[0].Server != "a" || len(s.Offer("a").Tools) != 1 || s.Offer("a").Tools[0].Server != "a" {
		t.Errorf("%v", s.Tools())
	}
}
