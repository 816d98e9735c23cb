package catalog

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func offerOf(server string, templates []string, uris ...string) (o registry.Offer) {
	for _, uri := range uris {
		o.Resources = append(o.Resources, registry.Resource{ID: registry.ID(server, uri), Server: server, URI: uri, Definition: fmt.Appendf(nil, `{"uri":%q}`, uri)})
	}
	for _, uri := range templates {
		o.Templates = append(o.Templates, registry.Template{ID: registry.ID(server, uri), Server: server, URI: uri, Definition: fmt.Appendf(nil, `{"uriTemplate":%q}`, uri)})
	}
	o.Capabilities = []byte(`{"resources":{}}`)
	return o
}

// A URI of megabytes is not compared with templates, nor any URI for a client that has left.
func TestLongURI(t *testing.T) {
	r := registry.New()
	for _, server := range []string{"a", "b"} {
		o := offerOf(server, nil)
		if server == "b" {
			for i := range 200 {
				o.Templates = append(o.Templates, offerOf(server, []string{fmt.Sprintf("notes://{a}{b}{c}{d}{e}{f}%d{+g}", i)}).Templates...)
			}
		}
		_, err := r.Replace(server, o)
		expect.OK(t, err)
	}
	v := NewView(r.Snapshot(), &Options{})
	left, leave := context.WithCancel(t.Context())
	leave()
	for _, test := range []struct {
		ctx  context.Context
		uri  string
		want int // servers
	}{
		{t.Context(), "notes://x0y", 1},
		{left, "notes://x0y", 2},
		{t.Context(), "notes://" + strings.Repeat("a", 4<<20) + "0", 2}, // they may have it
		{t.Context(), "notes://" + strings.Repeat("ab,", 2700) + "!", 2},
	} {
		if found := v.locate(test.ctx, test.uri, []string{"a", "b"}); len(found) != test.want {
			t.Errorf("%.20s: %d servers, want %d", test.uri, len(found), test.want)
		}
	}
}

// A server that comes first by name takes no URI over from one that had it before, by a
// resource, a template or the interface of a tool, in search and direct mode.
func TestURIsBelongToTheFirst(t *testing.T) {
	for _, search := range []bool{false, true} {
		r := registry.New()
		r.Configure([]string{"a-taker", "owner"}, registry.Claims{"notes://a": {Server: "owner", Since: 1}, "notes://{x}": {Server: "owner", Since: 1}, "gone://a": {Server: "owner", Since: 1}})
		interfaces := offerOf("a-taker", []string{"notes://{x}", "{+any}"}, "notes://a", "gone://a")
		interfaces.Tools = []registry.NormalizedTool{{ID: "a-taker:t", Server: "a-taker", Name: "t", InputSchema: []byte(`{"type":"object"}`),
			Definition: []byte(`{"name":"t","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"metarouter://owner/notes://a"}}}`)}}
		for server, o := range map[string]registry.Offer{"a-taker": interfaces, "owner": offerOf("owner", []string{"notes://{x}"}, "notes://a")} {
			_, err := r.Replace(server, o)
			expect.OK(t, err)
		}
		v := NewView(r.Snapshot(), &Options{Search: search})
		for uri, want := range map[string]string{
			"notes://a":                        "[{owner notes://a}]",
			"metarouter://a-taker/notes://a":   "[{a-taker notes://a}]",
			"notes://b":                        "[{owner notes://b} {a-taker notes://b}]", // by the templates, the older first
			"gone://a":                         "[{owner gone://a}]",                      // owner lists it no more
			"metarouter://owner/notes://a":     "[{owner notes://a}]",
			"METAROUTER://results/1":           "[]",
			"metarouter:x":                     "[]",
			"notes://{x}":                      "[{owner notes://{x}}]",
			"metarouter://a-taker/notes://{x}": "[{a-taker notes://{x}}]",
		} {
			expect.Equal(t, fmt.Sprint(v.locate(t.Context(), uri, []string{"a-taker", "owner"})), want, "search %v: %s is at", search, uri)
		}
		if got := v.Exposed(Address{"a-taker", "gone://a"}); !strings.HasPrefix(got, "metarouter://a-taker/") {
			t.Errorf("the resource of another is exposed as %q", got)
		}
	}
}
