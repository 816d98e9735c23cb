//go:build linux

package e2e

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// Names of tools, as clients see them.
var (
	quillTools = []string{"quill__echo", "quill__write_note"}
	kiteTools  = []string{"kite__pid", "kite__rollout_kite"}
)

// Three users log in at the identity provider of their team, and use the router in every way. Each
// sees and calls what the groups in the token give.
func TestOAuthUsers(t *testing.T) {
	t.Parallel()
	external.Node22(t)
	m := newTeam(t, teamOptions{})
	all := []string{"mcp:read", "mcp:call", "mcp:admin"}
	both := slices.Concat(kiteTools, quillTools)
	for _, user := range []struct {
		who, path string
		token     string
		sees      []string
		admin     bool
	}{
		{"ann", "", m.logIn("ann", m.url, all...), quillTools, false},
		{"ann for reading", "", m.logIn("ann", m.url, "mcp:read"), quillTools[:1], false},
		{"ann at her profile", "/p/workbench", m.logIn("ann", m.url+"/p/workbench", "mcp:call"), quillTools, false},
		{"bob", "", m.logIn("bob", m.url, all...), both, true},
		{"bob without mcp:admin", "", m.logIn("bob", m.url, "mcp:call"), both, false},
		{"bob at one profile", "/p/opsroom", m.logIn("bob", m.url+"/p/opsroom", all...), kiteTools, true},
		{"an admin without a profile", "", m.token("eve", "groups", "root"), both, true},
		{"a fixed token", "", usersToken, quillTools, false},
		{"a fixed token of an admin", "", adminToken, both, true},
	} {
		t.Run(user.who, func(t *testing.T) {
			u := visitor{team: m, url: m.url + user.path, token: user.token}
			for _, era := range []string{"legacy", "modern"} {
				u.overMCP(t, era, user.sees, both)
			}
			u.plain(t, user.sees, both)
			u.pages(t, user.admin)
		})
	}
	m.refuses(t, m.url, m.logIn("cid", m.url, all...), "no profile for cid")
	m.refuses(t, m.url+"/p/workbench", m.logIn("cid", m.url+"/p/workbench", all...), "no profile for cid")
	if response, body := m.send(http.MethodPost, m.url+"/p/opsroom/tools/list", bearer(m.logIn("ann", m.url+"/p/opsroom", all...)), ""); response.StatusCode != http.StatusNotFound {
		t.Errorf("ann at a profile of others: %s %s", response.Status, body)
	}
	if log := m.router.Stderr(); strings.Contains(log, "eyJ") {
		t.Errorf("the log has a token:\n%s", log)
	}
}

// refuses checks that the token is refused with 403 on all ways.
func (m *team) refuses(t *testing.T, url, token, who string) {
	t.Helper()
	for _, era := range []string{"legacy", "modern"} {
		_, err := m.client(url, token, era)
		if refused := (*mcptest.StatusError)(nil); !errors.As(err, &refused) || refused.Status != http.StatusForbidden {
			t.Errorf("%s, %s: %v", who, era, err)
		}
	}
	for _, path := range []string{"", "/tools/list", "/tools/call"} {
		if status, body := m.post(url+path, bearer(token), `{"id":1,"method":"tools/list","params":{}}`); status != http.StatusForbidden {
			t.Errorf("%s, POST %s: %d %s", who, path, status, body)
		}
	}
}

// A visitor uses the router with a token.
type visitor struct {
	*team
	url, token string
}

// overMCP checks what the visitor sees and calls.
func (u visitor) overMCP(t *testing.T, era string, sees, all []string) {
	t.Helper()
	c, err := u.client(u.url, u.token, era)
	if err != nil {
		t.Errorf("%s: %v", era, err)
		return
	}
	listed, err := mcptest.ToolNames(within(t), c)
	slices.Sort(listed)
	if err != nil || !slices.Equal(listed, sees) {
		t.Errorf("%s: sees %q, %v; want %q", era, listed, err, sees)
	}
	for _, tool := range all {
		result, err := c.call(within(t), tool, map[string]any{"message": "hello"})
		if slices.Contains(sees, tool) != (err == nil) {
			t.Errorf("%s: call of %s: %s, %v", era, tool, result, err)
		}
	}
}

// plain checks the same without MCP's transports.
func (u visitor) plain(t *testing.T, sees, all []string) {
	t.Helper()
	status, body := u.post(u.url+"/tools/list", bearer(u.token), "")
	if listed := toolNames(t, body); status != http.StatusOK || !slices.Equal(listed, sees) {
		t.Errorf("REST: sees %q, want %q: %d %s", listed, sees, status, body)
	}
	for _, tool := range all {
		params := `{"name":"` + tool + `","arguments":{"message":"hello"}}`
		want := slices.Contains(sees, tool)
		if status, body := u.post(u.url+"/tools/call", bearer(u.token), params); want != (status == http.StatusOK) {
			t.Errorf("REST: call of %s: %d %s", tool, status, body)
		}
		status, body := u.post(u.url, bearer(u.token), `{"id":1,"method":"tools/call","params":`+params+`}`)
		if want != strings.Contains(body, `"result":`) {
			t.Errorf("plain: call of %s: %d %s", tool, status, body)
		}
	}
}

func toolNames(t *testing.T, body string) (names []string) {
	t.Helper()
	var list struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Errorf("%s: %v", body, err)
	}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names
}

// runs matches a server with its process.
var runs = regexp.MustCompile(`"pid":[1-9]`)

// pages checks who may use the pages, by a token for the MCP path.
func (u visitor) pages(t *testing.T, admin bool) {
	t.Helper()
	if u.url != u.team.url { // pages have the resource of the MCP path
		return
	}
	for _, path := range []string{"/metrics", "/v1/mesh_scan"} {
		response, body := u.send(http.MethodGet, u.origin+path, bearer(u.token), "")
		want := admin || path == "/v1/mesh_scan"
		if want != (response.StatusCode == http.StatusOK) || !want && response.StatusCode != http.StatusForbidden {
			t.Errorf("GET %s: %s %.300s", path, response.Status, body)
		}
		if path == "/v1/mesh_scan" && runs.MatchString(body) != admin {
			t.Errorf("GET %s as admin=%v: %s", path, admin, body)
		}
	}
}
