package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/approval"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A client that has chosen no profile has the profile "default" if there is one.
func TestClientsProfile(t *testing.T) {
	with := map[string]config.Profile{"default": {}, "work": {}}
	for _, tc := range []struct {
		chosen string
		all    map[string]config.Profile
		want   []string
	}{
		{"", nil, []string{}},
		{"", with, []string{"default"}},
		{"work", with, []string{"work"}},
		{"default+work", with, []string{"default", "work"}},
		{"@read", with, []string{"@read", "default"}},
		{"@read", nil, []string{"@read"}},
		{"@read+default|work", with, []string{"@read", "default|work"}},
	} {
		expect.Deep(t, profilesOf(tc.chosen, tc.all), tc.want, "profiles of %q", tc.chosen)
	}
}

// A page gets the nodes, and only the identity of an
// untrusted one.
func TestClusterOf(t *testing.T) {
	seen := time.Date(2026, 7, 28, 10, 0, 0, 5, time.UTC)
	c := clusterInfoOf(clusternode.Report{Connected: true, Server: "2.12.1", Problems: []string{"The node nas: x.", "a\x1bb"}}, []clusternode.Info{
		{Node: "desk", Self: true, Trusted: true, Alive: true, LastSeen: seen},
		{Node: "box", Trusted: true, Alive: true, Latency: 0.4321, LastSeen: seen, Servers: []string{"gpu"}, Tools: 2},
		{Node: "nas", Trusted: true, LastSeen: seen},
		{Node: "box", Key: "UROGUE", Alive: true, LastSeen: seen},
	})
	if !c.In || !c.Connected || c.JetStream || c.Total != 4 || len(c.Nodes) != 4 || len(c.Problems) != 1 || strings.Contains(c.Problems[0], "\x1b") {
		t.Fatalf("%+v", c)
	}
	box, nas, rogue := c.Nodes[1], c.Nodes[2], c.Nodes[3]
	if box.Latency != 0.4 || !box.LastSeen.IsZero() || box.Servers[0] != "gpu" {
		t.Errorf("box %+v", box)
	}
	if nas.Alive || !nas.LastSeen.Equal(seen.Truncate(time.Second)) {
		t.Errorf("nas %+v", nas)
	}
	if rogue.Trusted {
		t.Errorf("a rogue is trusted as the node whose name it uses: %+v", rogue)
	}
	if text, err := json.Marshal(c); err != nil || strings.Contains(string(text), "null") || !strings.Contains(string(text), `"servers":[]`) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestClusterOfManyNodes(t *testing.T) {
	var nodes []clusternode.Info
	for i := range 5 * maxNodes {
		nodes = append(nodes, clusternode.Info{Node: fmt.Sprint(i)})
	}
	if c := clusterInfoOf(clusternode.Report{}, nodes); len(c.Nodes) != maxNodes || c.Total != 5*maxNodes {
		t.Errorf("%d of %d", len(c.Nodes), c.Total)
	}
}

// A page lists the calls that wait, and answers them.
func TestApprovals(t *testing.T) {
	s := open(t)
	desk := s.router.Approvals()
	request := func(title string) approval.Request {
		return approval.Request{Principal: "ci", Profile: "work", Client: "test", Server: "github", Tool: "create_issue",
			Arguments: json.RawMessage(`{"title":"` + title + `"}`), Reason: "it asks"}
	}
	for _, title := range []string{"a", "b"} {
		desk.Ask(t.Context(), request(title), nil)
	}
	var list approvals
	if status := s.ask("GET", "/dashboard/approvals", "", &list); status != http.StatusOK || len(list.Approvals) != 2 {
		t.Fatalf("status %d: %+v", status, list)
	}
	first := list.Approvals[0]
	if first.Tool != "create_issue" || first.Arguments != "{\n  \"title\": \"a\"\n}" || !first.Whole || first.Principal != "ci" || first.Reason != "it asks" {
		t.Errorf("the page has %+v", first)
	}
	answer := func(p approval.Pending, action string, header ...string) int {
		return s.ask("POST", "/dashboard/approvals/"+p.ID+"/"+action, "{}", nil, header...)
	}
	for _, tc := range []struct {
		pending approval.Pending
		action  string
		header  []string
		want    int
	}{
		{first, "approve", []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{first, "approve", []string{"Content-Type", "text/plain"}, http.StatusUnsupportedMediaType},
		{first, "guess", nil, http.StatusNotFound},
		{approval.Pending{ID: "guessed"}, "approve", nil, http.StatusNotFound},
		{first, "approve", nil, http.StatusOK},
		{first, "approve", nil, http.StatusNotFound},
		{list.Approvals[1], "deny", nil, http.StatusOK},
	} {
		expect.Equal(t, answer(tc.pending, tc.action, tc.header...), tc.want, "%s of %s: status", tc.action, tc.pending.ID)
	}
	expect.OK(t, desk.Ask(t.Context(), request("a"), nil), "the approved call")
	if refused, ok := errors.AsType[*approval.Refused](desk.Ask(t.Context(), request("b"), nil)); !ok || refused.Why != approval.Declined {
		t.Errorf("the denied call: %v", refused)
	}
	expect.Equal(t, s.ask("GET", "/dashboard/approvals", "", &list, "Sec-Fetch-Site", "cross-site"), http.StatusForbidden, "another site's page may list them: status")
}

// A page gets the calls that wait, and learns that one was answered.
func TestApprovalEvents(t *testing.T) {
	s := open(t)
	next := s.watch()
	if first := next(); first.Approvals == nil || len(first.Approvals) != 0 {
		t.Errorf("at first: %+v", first.Approvals)
	}
	s.router.Approvals().Ask(t.Context(), approval.Request{Server: "github", Tool: "create_issue", Arguments: json.RawMessage("{}")}, nil)
	u := until(next, func(u update) bool { return len(u.Approvals) == 1 })
	expect.OK(t, s.router.Approvals().Decide(u.Approvals[0].ID, approval.Accept, ""))
	until(next, func(u update) bool { return u.Approvals != nil && len(u.Approvals) == 0 })
}
