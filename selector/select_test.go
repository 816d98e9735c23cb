package selector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector/internal/rank"
	"github.com/mcp-metarouter/metarouter/selector/internal/text"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A line is a tool of a test's catalog: "server:tool description #tag #tag".
func parseTool(line string) registry.NormalizedTool {
	id, rest, _ := strings.Cut(line, " ")
	server, name, _ := strings.Cut(id, ":")
	t := registry.NormalizedTool{ID: id, Server: server, Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}
	for word := range strings.FieldsSeq(rest) {
		if tag, ok := strings.CutPrefix(word, "#"); ok {
			t.Capabilities = append(t.Capabilities, tag)
		} else {
			t.Description += word + " "
		}
	}
	return t
}

// picker returns a selector of the tools on the lines.
func picker(t testing.TB, lines ...string) *Selector {
	t.Helper()
	s, _ := filled(t, lines...)
	return s
}

// filled returns a selector of the tools on the lines, and their registry.
func filled(t testing.TB, lines ...string) (*Selector, *registry.Registry) {
	t.Helper()
	r := registry.New()
	servers := make(map[string][]registry.NormalizedTool)
	for _, line := range lines {
		tool := parseTool(line)
		servers[tool.Server] = append(servers[tool.Server], tool)
	}
	for server, tools := range servers {
		_, err := r.Replace(server, registry.Offer{Tools: tools})
		expect.OK(t, err)
	}
	s := New(r, Options{})
	t.Cleanup(func() { expect.OK(t, s.Close()) })
	return s, r
}

var browser = []string{
	"playwright:browser_close Close the page #browser",
	"playwright:browser_resize Resize the browser window #browser",
	"playwright:browser_console_messages Returns all console messages #browser",
	"playwright:browser_navigate Navigate to a URL #browser #navigation #web",
	"playwright:browser_navigate_back Go back to the previous page #browser #navigation",
	"playwright:browser_take_screenshot Take a screenshot of the current page. You can't perform actions based on the screenshot, use browser_snapshot for actions. #browser #screenshot",
	"playwright:browser_snapshot Capture accessibility snapshot of the current page, this is better than screenshot #browser #screenshot",
	"playwright:browser_click Perform click on a web page #browser #web",
	"playwright:browser_type Type text into editable element #browser",
	"playwright:browser_wait_for Wait for text to appear or disappear or a specified time to pass #browser",
}

var git = []string{
	"git:git_status Shows the working tree status #git",
	"git:git_diff Shows differences between branches or commits #git",
	"git:git_commit Records changes to the repository #git",
	"git:git_log Shows the commit logs #git",
	"git:git_create_branch Creates a new branch from an optional base branch #git",
}

func TestSelect(t *testing.T) {
	fake := []string{
		"fake:browser_navigate Navigate to a URL #browser",
		"fake:browser_screenshot Capture the page #browser #screenshot",
		"fake:browser_click Click an element #browser",
	}
	for _, test := range []struct {
		name    string
		catalog []string
		query   Query
		want    string // "" for no sure answer
		partial []string
	}{
		{"screenshot", browser, Query{Task: "Take a screenshot", Capabilities: []string{"browser", "screenshot"}}, "playwright:browser_take_screenshot", nil},
		{"screenshot without capabilities", browser, Query{Task: "Take a screenshot"}, "playwright:browser_take_screenshot", nil},
		{"screenshot of a fake", fake, Query{Task: "Take a screenshot", Capabilities: []string{"browser", "screenshot"}}, "fake:browser_screenshot", nil},
		{"chatty", append(git, browser...), Query{Task: "Hi, could you please help me see the log of my commits?"}, "git:git_log", nil},
		{"one word", append(git, browser...), Query{Task: "diff"}, "git:git_diff", nil},
		{"synonym", append(git, browser...), Query{Task: "press a button of the web page"}, "playwright:browser_click", nil},
		{"shouted", append(git, browser...), Query{Task: "CREATE A BRANCH"}, "git:git_create_branch", nil},
		{"one server of two", append([]string{"other:git_log Shows the commit logs"}, git...), Query{Task: "commit log", Servers: []string{"other"}}, "other:git_log", nil},
		{"a server in other letters", append([]string{"other:git_log Shows the commit logs"}, git...), Query{Task: "commit log", Servers: []string{"Other"}}, "other:git_log", nil},
		{"its capabilities", append([]string{"other:log Shows logs #git"}, git...), Query{Capabilities: []string{"git"}, Servers: []string{"OTHER"}}, "other:log", nil},
		{"nothing fits", append(git, browser...), Query{Task: "bake a chocolate cake"}, "", nil},
		{"empty", git, Query{}, "", nil},
		{"no words", git, Query{Task: "?!…"}, "", nil},
		{"empty catalog", nil, Query{Task: "commit", Capabilities: []string{"git"}}, "", []string{"git"}},
		{"capabilities alone", browser, Query{Capabilities: []string{"Screenshot", "browser"}}, "playwright:browser_snapshot", nil},
		{"task of other words", fake, Query{Task: "photograph what is shown", Capabilities: []string{"screenshot"}}, "fake:browser_screenshot", nil},
		{"not all capabilities", browser, Query{Task: "navigate to a website", Capabilities: []string{"browser", "web", "pdf"}}, "playwright:browser_navigate", []string{"pdf"}},
		{"unknown capability", git, Query{Task: "show the commit log", Capabilities: []string{"vcs"}}, "", []string{"vcs"}},
		{"unknown capability alone", git, Query{Capabilities: []string{"vcs"}}, "", []string{"vcs"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := picker(t, test.catalog...).Select(t.Context(), test.query)
			expect.OK(t, err)
			id := ""
			if got.Sure {
				id = got.Tool.ID
			}
			if id != test.want || got.Abstained != (got.Tool == nil) || got.Abstained && got.Sure || !slices.Equal(got.Partial, test.partial) {
				t.Errorf("selected %q (%.2f), abstained %v, partial %q; want %q, partial %q; alternatives %v",
					id, got.Confidence, got.Abstained, got.Partial, test.want, test.partial, got.Alternatives)
			}
			checkCandidates(t, got.Alternatives)
		})
	}
}

// A tool that has nothing of the task but the verb is not run by a route.
func TestSelectVerbAlone(t *testing.T) {
	s := picker(t, append([]string{"files:send_file Send a file to a printer"}, append(git, browser...)...)...)
	got, err := s.Select(t.Context(), Query{Task: "send gmail email"})
	if err != nil || got.Confidence >= 0.5 {
		t.Errorf("selected %+v, error %v", got.Tool, err)
	}
}

func checkCandidates(t *testing.T, candidates []Candidate) {
	t.Helper()
	for i, c := range candidates {
		if !(c.Confidence >= 0 && c.Confidence <= 1) || !(c.Score >= 0) {
			t.Errorf("%s has the score %v and the confidence %v", c.Tool.ID, c.Score, c.Confidence)
		}
		if i > 0 && (c.Score > candidates[i-1].Score || c.Confidence > candidates[i-1].Confidence) {
			t.Errorf("%s comes after %s with more", c.Tool.ID, candidates[i-1].Tool.ID)
		}
	}
}

func TestFind(t *testing.T) {
	s := picker(t, append(git, browser...)...)
	ids := func(r Ranking) []string {
		var all []string
		for _, c := range r.Candidates {
			all = append(all, c.Tool.ID)
		}
		return all
	}
	r, err := s.Find(t.Context(), Query{Capabilities: []string{"git"}, Limit: 3})
	if err != nil || r.Abstained || !slices.Equal(ids(r), []string{"git:git_commit", "git:git_create_branch", "git:git_diff"}) {
		t.Errorf("capability alone: %q, abstained %v, error %v", ids(r), r.Abstained, err)
	}
	r, err = s.Find(t.Context(), Query{Task: "click, commit, and screenshot"})
	if err != nil || len(r.Candidates) == 0 || len(r.Candidates) > defaultLimit {
		t.Errorf("%d candidates, error %v", len(r.Candidates), err)
	}
	r, err = s.Find(t.Context(), Query{Task: "bake a chocolate cake with candles"})
	if err != nil || r.Sure || len(r.Candidates) == 0 {
		t.Errorf("the nearest are %q, sure %v, error %v", ids(r), r.Sure, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := picker(t, git...).Find(ctx, Query{Task: "commit"}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

// library returns a selector of tools, prompts, resources and templates.
func library(t *testing.T) *Selector {
	s, r := filled(t, append(git, browser...)...)
	o := registry.Offer{}
	for _, p := range [][2]string{{"write_essay", "Write an essay on a topic"}, {"review_commit", "Review the commits of a branch"}} {
		o.Prompts = append(o.Prompts, registry.Prompt{ID: "lib:" + p[0], Server: "lib", Name: p[0], Description: p[1],
			Definition: json.RawMessage(`{"arguments":[{"name":"audience"}]}`)})
	}
	for _, r := range [][2]string{{"file:///docs/harbour.md", "Opening hours of the harbour"}, {"file:///docs/tides.md", "Tide tables"}} {
		o.Resources = append(o.Resources, registry.Resource{ID: "lib:" + r[0], Server: "lib", URI: r[0], Name: r[0], Description: r[1]})
	}
	o.Templates = []registry.Template{{ID: "lib:weather://{city}", Server: "lib", URI: "weather://{city}", Name: "weather", Description: "Weather of a city"}}
	_, err := r.Replace("lib", o)
	expect.OK(t, err)
	return s
}

func TestFindKinds(t *testing.T) {
	s := library(t)
	all := []string{"tool", "prompt", "resource"}
	for _, test := range []struct {
		name   string
		query  Query
		want   string // the first candidate
		unsure bool
	}{
		{"tools are the default", Query{Task: "commit log"}, "tool git:git_log", false},
		{"tools", Query{Task: "commit log", Kinds: []string{"tool"}}, "tool git:git_log", false},
		{"prompt", Query{Task: "write an essay", Kinds: []string{"prompt"}}, "prompt lib:write_essay", false},
		{"argument of a prompt", Query{Task: "audience essay", Kinds: []string{"prompt"}}, "prompt lib:write_essay", false},
		{"resource", Query{Task: "tide tables", Kinds: []string{"resource"}}, "resource lib:file:///docs/tides.md", false},
		{"template", Query{Task: "weather of the city", Kinds: []string{"resource"}}, "template lib:weather://{city}", false},
		{"template alone", Query{Task: "weather of the city", Kinds: []string{"template"}}, "template lib:weather://{city}", false},
		{"a tool is no resource", Query{Task: "take a screenshot", Kinds: []string{"prompt", "resource"}}, "", true},
		{"all kinds: a tool", Query{Task: "take a screenshot", Kinds: all}, "tool playwright:browser_take_screenshot", false},
		{"all kinds: a resource", Query{Task: "harbour hours", Kinds: all}, "resource lib:file:///docs/harbour.md", false},
		{"all kinds: nothing", Query{Task: "bake a chocolate cake", Kinds: all}, "", true},
		{"capabilities are of tools", Query{Task: "tide tables", Capabilities: []string{"git"}, Kinds: []string{"resource"}}, "resource lib:file:///docs/tides.md", false},
		{"another server", Query{Task: "tide tables", Servers: []string{"git"}, Kinds: []string{"resource"}}, "", true},
		{"no words", Query{Kinds: []string{"resource"}}, "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := s.Find(t.Context(), test.query)
			expect.OK(t, err)
			first := ""
			if r.Sure {
				item := r.Candidates[0].Item()
				first = item.Kind() + " " + item.ID()
			}
			if first != test.want || r.Sure == test.unsure || len(r.Partial) > 0 {
				t.Errorf("found %q, sure %v, partial %q; want %q, unsure %v", first, r.Sure, r.Partial, test.want, test.unsure)
			}
		})
	}
	if got, err := s.Select(t.Context(), Query{Task: "tide tables", Kinds: all}); err != nil || got.Sure {
		t.Errorf("selected %+v, error %v", got, err)
	}
}

func TestFindMergesKinds(t *testing.T) {
	s := library(t)
	q := Query{Task: "review commit of a branch", Limit: 4}
	tools, err := s.Find(t.Context(), q)
	expect.OK(t, err)
	q.Kinds = []string{"resource", "tool", "prompt"}
	r, err := s.Find(t.Context(), q)
	if err != nil || len(r.Candidates) != 4 || r.Abstained {
		t.Fatalf("%+v, error %v", r, err)
	}
	kinds := map[string]int{}
	for i, c := range r.Candidates {
		kinds[c.Item().Kind()]++
		if i > 0 && c.Confidence > r.Candidates[i-1].Confidence {
			t.Errorf("%s comes after one with less", c.Item().ID())
		}
		if c.Tool != nil && !slices.ContainsFunc(tools.Candidates, func(t Candidate) bool { return t.Tool == c.Tool && t.Score == c.Score && t.Confidence == c.Confidence }) {
			t.Errorf("%s has another rank among all than among tools", c.Tool.ID)
		}
	}
	if kinds["tool"] == 0 || kinds["prompt"] == 0 {
		t.Errorf("found %v", kinds)
	}
	q.Task = "bake a chocolate cake with candles"
	if r, err = s.Find(t.Context(), q); err != nil || r.Sure || len(r.Candidates) == 0 {
		t.Errorf("the nearest of all kinds: %+v, error %v", r, err)
	}
}

func TestFindLongTask(t *testing.T) {
	s := picker(t, append(git, browser...)...)
	var task strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&task, "word%d ", i)
	}
	task.WriteString(". Show the commit log")
	r, err := s.Find(t.Context(), Query{Task: task.String()})
	if err != nil || len(r.Candidates) == 0 || r.Candidates[0].Tool.ID != "git:git_log" {
		t.Errorf("%+v, error %v", r, err)
	}
	// Cut in the middle of a rune.
	_, err = s.Find(t.Context(), Query{Task: "x" + strings.Repeat("語", text.MaxTask)})
	expect.OK(t, err)
}

func TestRankIsDeterministic(t *testing.T) {
	var first []Candidate
	for i := range 5 {
		var lines []string
		for _, server := range []string{"c", "a", "b"} {
			for j := range 20 {
				lines = append(lines, fmt.Sprintf("%s:tool_%d reads the file number %d", server, j, j%3))
			}
		}
		if i%2 == 1 {
			slices.Reverse(lines)
		}
		s := picker(t, lines...)
		c, err := s.index.Tools(t.Context())
		expect.OK(t, err)
		hits, err := c.Search(t.Context(), index.Query{Words: index.Words("file")})
		if err != nil || len(hits) != len(lines) {
			t.Fatalf("%d hits, error %v", len(hits), err)
		}
		var docs []*index.Document
		for _, hit := range hits {
			docs = append(docs, hit.Document)
		}
		if i%2 == 1 {
			slices.Reverse(docs)
		}
		ranked := rank.Rank(text.Parse("read a tool file of a"), docs, c, rank.Prior{})
		checkCandidates(t, ranked)
		if i == 0 {
			first = ranked
		}
		for j := range ranked {
			if ranked[j].Tool.ID != first[j].Tool.ID || ranked[j].Score != first[j].Score || ranked[j].Confidence != first[j].Confidence {
				t.Fatalf("run %d has %s at %d, the first had %s", i, ranked[j].Tool.ID, j, first[j].Tool.ID)
			}
		}
	}
}

func FuzzFind(f *testing.F) {
	for _, task := range []string{
		"", " ", "a", "the", "please", "log", "+git_log -commit", `name:"browser`, "browser* OR (click~2)^9", "/[a-/",
		"\x00\xff", "截取屏幕截图", "Öffne die Seite", strings.Repeat("commit ", 5000), `{"match_all":{}}`, "1 2 3",
	} {
		f.Add(task, "browser", 3)
	}
	f.Add("log", " GIT ", -1)
	s := picker(f, append(git, browser...)...)
	f.Fuzz(func(t *testing.T, task, capability string, limit int) {
		q := Query{Task: task, Capabilities: []string{capability, "browser"}, Limit: limit}
		r, err := s.Find(t.Context(), q)
		expect.OK(t, err)
		checkCandidates(t, r.Candidates)
		if limit > 0 && len(r.Candidates) > limit {
			t.Errorf("%d candidates, limit %d", len(r.Candidates), limit)
		}
		if len(r.Candidates) == 0 {
			t.Error("no candidate, though tools bear one of the capabilities")
		}
		if _, err := s.Select(t.Context(), Query{Task: task}); err != nil {
			t.Error(err)
		}
		for _, w := range text.Parse(task).Words {
			if utf8.ValidString(task) && len(task) < text.MaxTask && !utf8.ValidString(w) {
				t.Errorf("word %q", w)
			}
		}
	})
}

func BenchmarkFind(b *testing.B) {
	verbs := strings.Fields("create delete list update search send read write open close merge export import convert plot")
	nouns := strings.Fields(`invoice calendar ticket branch page file folder email message chart table column user account
		order payment weather map route song video image note task project server cluster pod log metric alert device light
		recipe flight hotel stock coin paper gene patient course quiz game player score team match vehicle sensor valve pump`)
	for _, n := range []int{1_000, 14_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			lines := make([]string, n)
			for i := range lines {
				// 20 tools a server, each with words of its own beside shared ones.
				verb, noun, other := verbs[i%len(verbs)], nouns[i/7%len(nouns)], nouns[i/3%len(nouns)]
				lines[i] = fmt.Sprintf("server%d:%s_%s_%d Use this tool to %s a %s that belongs to the %s, with option%d and setting%d given as text",
					i/20, verb, noun, i, verb, noun, other, i%997, i%409)
			}
			s := picker(b, lines...)
			if _, err := s.index.Tools(b.Context()); err != nil {
				b.Fatal(err)
			}
			for i := 0; b.Loop(); i++ {
				q := Query{Task: fmt.Sprintf("please %s the %s of my %s with option%d", verbs[i%len(verbs)], nouns[i%len(nouns)], nouns[i*7%len(nouns)], i%997)}
				_, err := s.Find(b.Context(), q)
				expect.OK(b, err)
			}
		})
	}
}
