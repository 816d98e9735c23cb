package doctor

import (
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A server that lists URIs of another is named, with the owner.
func TestTakeover(t *testing.T) {
	r := registry.New()
	r.Configure([]string{"taker", "owner"}, registry.Claims{"notes://a": {Server: "owner", Since: 1}})
	for _, server := range []string{"taker", "owner"} {
		o := registry.Offer{Resources: []registry.Resource{{ID: registry.ID(server, "notes://a"), Server: server, URI: "notes://a", Definition: []byte(`{}`)}}}
		_, err := r.Replace(server, o)
		expect.OK(t, err)
	}
	c := Case{Catalog: r.Snapshot()}
	for _, name := range []string{"taker", "owner"} {
		c.Config.Servers = append(c.Config.Servers, config.Server{Name: name, Command: name})
		c.Servers = append(c.Servers, status.Status{Name: name, State: status.Ready})
	}
	found := 0
	for _, f := range Examine(c).Findings {
		if strings.Contains(f.Problem, "belong to the server") {
			found++
			if f.Server != "taker" || f.Severity != Warning || !strings.Contains(f.Problem, `"owner"`) || !strings.Contains(f.Problem, "notes://a") {
				t.Errorf("%+v", f)
			}
		}
	}
	expect.Equal(t, found, 1, "findings")
}
