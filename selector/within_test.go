package selector

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector/internal/rank"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

var office = []string{
	"books:update_invoice Change the status of an invoice",
	"books:list_invoices List the invoices of a customer",
	"memory:save Keep a note for later",
	"sky:get_forecast The weather of the next days",
	"deploy:rollback_release Restore the previous version of a service",
	"chat:post_message Send a message to a channel",
}

// A without is a [registry.Filter]: all but the servers. It fixes the argument owner of the
// tools that have it.
type without []string

func (w without) Server(name string) bool     { return !slices.Contains(w, name) }
func (without) Item(registry.Item) bool       { return true }
func (without) Claim(server, uri string) bool { return true }
func (without) Tool(t *registry.NormalizedTool) *registry.NormalizedTool {
	if !strings.Contains(string(t.InputSchema), `"owner"`) {
		return t
	}
	clone := *t
	clone.ServerSchema, clone.InputSchema, clone.Fixed = t.InputSchema, json.RawMessage(`{"type":"object"}`), json.RawMessage(`{"owner":"acme"}`)
	return &clone
}

// TestWithin searches a catalog that hides the tool that each source of candidates would find.
func TestWithin(t *testing.T) {
	lines := slices.Concat(browser, git, []string{
		"secret:browser_take_screenshot Take a screenshot of the current page of the secret browser #browser #screenshot #secrecy",
		"secret:git_log Shows the commit logs #git #secrecy",
		"secret:launch Launch the zeppelin #secrecy",
	})
	for _, test := range []struct {
		name   string
		query  Query
		hidden string // that is found in the whole catalog
	}{
		{"words", Query{Task: "launch the zeppelin"}, "secret:launch"},
		{"equal tools", Query{Task: "show the commit logs"}, "secret:git_log"},
		{"capabilities", Query{Capabilities: []string{"secrecy"}}, "secret:launch"},
		{"capabilities and words", Query{Task: "screenshot", Capabilities: []string{"browser", "secrecy"}}, "secret:browser_take_screenshot"},
		{"a server", Query{Task: "commit logs", Servers: []string{"secret"}}, "secret:git_log"},
		{"vectors", Query{Task: "set off with an airship", Limit: 20}, "secret:launch"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, r := filled(t, lines...)
			whole, err := s.Find(t.Context(), test.query)
			if err != nil || !strings.Contains(shown(whole), test.hidden) {
				t.Fatalf("found %s, %v", shown(whole), err)
			}
			test.query.Catalog = r.Snapshot().Filtered(without{"secret"}, nil)
			found, err := s.Find(t.Context(), test.query)
			if told := shown(found); err != nil || strings.Contains(told, "secret:") {
				t.Errorf("found %s, %v", told, err)
			}
			if slices.Contains(test.query.Capabilities, "secrecy") && !slices.Contains(found.Partial, "secrecy") {
				t.Errorf("the capabilities that lack are %q", found.Partial)
			}
			selected, err := s.Select(t.Context(), test.query)
			if err != nil || selected.Tool != nil && selected.Tool.Server == "secret" {
				t.Errorf("selected %v, %v", selected.Tool, err)
			}
		})
	}
}

// shown returns the IDs that a ranking shows.
func shown(r Ranking) string {
	var all []string
	for _, c := range r.Candidates {
		all = append(append(all, c.Item().ID()), c.IDs()...)
	}
	return strings.Join(all, " ")
}

// TestWithinIsRight compares the answers within a part of the catalog with those of a selector that
// has only that part.
func TestWithinIsRight(t *testing.T) {
	s, r := filled(t, slices.Concat(browser, git, office)...)
	only := picker(t, git...)
	catalog := r.Snapshot().Filtered(without{"playwright", "books", "memory", "sky", "deploy", "chat"}, nil)
	for task, sure := range map[string]bool{
		"show the commit logs": true, "create a branch": true, "which files differ between two commits?": true,
		"take a screenshot": false, "the weather of the next days": false, "list the invoices of a customer": false,
	} {
		got, err := s.Select(t.Context(), Query{Task: task, Catalog: catalog})
		expect.OK(t, err)
		want, err := only.Select(t.Context(), Query{Task: task})
		if err != nil || got.Sure != sure || want.Sure != sure || sure && got.Tool.ID != want.Tool.ID {
			t.Errorf("%q: %v with %.2f, by itself %v with %.2f, %v", task, got.Tool, got.Confidence, want.Tool, want.Confidence, err)
		}
		found, err := s.Find(t.Context(), Query{Task: task, Catalog: catalog})
		if err != nil || len(found.Candidates) > 0 && found.Candidates[0].Evidence[rank.CrowdEvidence] != math.Log(float64(1+len(git))) {
			t.Errorf("%q: hidden tools count among those to choose from: %v, %v", task, found.Candidates[0].Evidence, err)
		}
	}
}

// TestWithinIsExact compares the confidences within small parts of the catalog with those of
// selectors that have only that part.
func TestWithinIsExact(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	word := func() string { return fmt.Sprintf("%c%cmo%cka", 'b'+rnd.IntN(20), 'a'+rnd.IntN(3), 'a'+rnd.IntN(20)) }
	words := func(n int) string {
		var all []string
		for range n {
			all = append(all, word())
		}
		return strings.Join(all, " ")
	}
	lines := slices.Concat(browser, git, office)
	for i := range 90 {
		lines = append(lines, fmt.Sprintf("server%d:%s_%d Use it to %s #web", i/10, strings.ReplaceAll(words(2), " ", "_"), i, words(3+rnd.IntN(9))))
	}
	s, r := filled(t, lines...)
	expect.OK(t, s.Encode(t.Context()))
	tasks := []string{"show the commit logs", "take a screenshot of the page", "list the invoices of a customer", "shwo the comit logs"}
	for range 4 {
		tasks = append(tasks, words(1+rnd.IntN(6)), words(2)+"x and the "+words(1))
	}
	for _, size := range []int{0, 1, 3, 20, 60} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			part := make(map[string]bool)
			var theirs []string
			for _, i := range rnd.Perm(len(lines))[:size] {
				theirs = append(theirs, lines[i])
				part[parseTool(lines[i]).ID] = true
			}
			only := picker(t, theirs...)
			expect.OK(t, only.Encode(t.Context()))
			catalog := r.Snapshot().Filtered(having(part), nil)
			for _, task := range tasks {
				q := Query{Task: task, Limit: 20}
				want, err := only.Find(t.Context(), q)
				expect.OK(t, err)
				q.Catalog = catalog
				got, err := s.Find(t.Context(), q)
				if err != nil || got.Sure != want.Sure || got.Abstained != want.Abstained || !slices.EqualFunc(got.Candidates, want.Candidates, func(a, b Candidate) bool {
					return a.Tool.ID == b.Tool.ID && math.Abs(a.Score-b.Score) < 1e-9 && math.Abs(a.Confidence-b.Confidence) < 1e-9
				}) {
					t.Errorf("%q: %s, %v; by itself %s", task, scored(got), err, scored(want))
				}
			}
		})
	}
}

// A having is a [registry.Filter]: the tools with these IDs.
type having map[string]bool

func (having) Server(string) bool            { return true }
func (h having) Item(i registry.Item) bool   { return h[i.ID()] }
func (having) Claim(server, uri string) bool { return true }

func (having) Tool(t *registry.NormalizedTool) *registry.NormalizedTool { return t }

// scored returns the candidates with their scores.
func scored(r Ranking) string {
	var all []string
	for _, c := range r.Candidates {
		all = append(all, fmt.Sprintf("%s %.6f %.6f", c.Item().ID(), c.Score, c.Confidence))
	}
	return strings.Join(all, ", ")
}

// TestWithinOthers searches prompts and resources.
func TestWithinOthers(t *testing.T) {
	s, r := filled(t)
	for _, server := range []string{"open", "secret"} {
		_, err := r.Replace(server, registry.Offer{
			Prompts:   []registry.Prompt{{ID: server + ":review", Server: server, Name: "review", Description: "Review the code"}},
			Resources: []registry.Resource{{ID: server + ":x:" + server, Server: server, URI: "x:" + server, Name: "code to review"}},
		})
		expect.OK(t, err)
	}
	q := Query{Task: "review the code", Kinds: []string{registry.KindPrompt, registry.KindResource}}
	found, err := s.Find(t.Context(), q)
	if err != nil || len(found.Candidates) != 4 {
		t.Fatalf("found %s, %v", shown(found), err)
	}
	q.Catalog = r.Snapshot().Filtered(without{"secret"}, nil)
	if found, err = s.Find(t.Context(), q); err != nil || len(found.Candidates) != 2 || strings.Contains(shown(found), "secret") {
		t.Errorf("found %s, %v", shown(found), err)
	}
}

// TestWithinPlan plans a task whose second step only a hidden tool can do.
func TestWithinPlan(t *testing.T) {
	s, r := filled(t, slices.Concat(git, []string{"secret:post_message Post a message to a channel"})...)
	q := Query{Task: "show the commit logs, then post a message to the channel"}
	if plan, err := s.Plan(t.Context(), q); err != nil || len(plan) != 2 {
		t.Fatalf("%+v, %v", plan, err)
	}
	q.Catalog = r.Snapshot().Filtered(without{"secret"}, nil)
	if plan, err := s.Plan(t.Context(), q); err != nil || len(plan) != 0 {
		t.Errorf("%+v, %v", plan, err)
	}
}

// TestWithinHasFixed finds tools as the catalog has them, also in their other places.
func TestWithinHasFixed(t *testing.T) {
	s, r := filled(t)
	for _, server := range []string{"a", "b", "secret"} {
		one := registry.NormalizedTool{ID: server + ":list_issues", Server: server, Name: "list_issues", Description: "List the issues",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"owner":{"type":"string"}}}`), Hints: registry.Hints{ReadOnly: new(true), OpenWorld: new(false)}}
		_, err := r.Replace(server, registry.Offer{Tools: []registry.NormalizedTool{one}})
		expect.OK(t, err)
	}
	s.executor = execute.New(execute.Options{Registry: r, Sessions: fleet{}, Log: zap.NewNop()})
	catalog := r.Snapshot().Filtered(without{"secret"}, nil)
	found, err := s.Select(t.Context(), Query{Task: "list the issues", Catalog: catalog})
	if err != nil || found.Tool == nil || len(found.Places) != 2 {
		t.Fatalf("%+v, %v", found, err)
	}
	for _, tool := range append(found.Places, found.Tool) {
		if theirs, ok := catalog.Tool(tool.ID); !ok || theirs != tool || tool.Fixed == nil {
			t.Errorf("%s is not the catalog's", tool.ID)
		}
	}
	why, err := s.Explain(t.Context(), "list the issues", []Candidate{{Tool: found.Tool}})
	if err != nil || len(why) != 1 || len(why[0].Words) == 0 {
		t.Errorf("explained by %+v, %v", why, err)
	}
	if sameEverywhere(found.Tool) {
		t.Error("a tool that takes an owner is the same everywhere, because a profile fixes the owner")
	}
}

// TestWithinCatalogThatIsOld has a catalog from before an edit.
func TestWithinCatalogThatIsOld(t *testing.T) {
	s, r := filled(t, git...)
	before := r.Snapshot().Filtered(without{}, nil)
	changed := parseTool("git:git_log Shows the commit logs, and deletes them")
	_, err := r.Replace("git", registry.Offer{Tools: []registry.NormalizedTool{changed}})
	expect.OK(t, err)
	found, err := s.Find(t.Context(), Query{Task: "show the commit logs", Catalog: before})
	if err != nil || len(found.Candidates) > 0 {
		t.Errorf("found %s, %v", shown(found), err)
	}
}
