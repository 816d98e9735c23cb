package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// everything returns a router of a server that offers one of each kind.
func everything(t *testing.T) *fakeRouter {
	t.Helper()
	r := newFake()
	_, err := r.Replace("lib", registry.Offer{
		Tools: []registry.NormalizedTool{tool("lib", "essay")},
		Prompts: []registry.Prompt{{
			ID: "lib:essay", Server: "lib", Name: "essay", Description: "Writes an essay. At length.",
			Definition: []byte(`{"x":1,"name":"essay","arguments":[{"name":"topic","required":true},{"name":"tone","description":"How"}]}`),
		}},
		Resources: []registry.Resource{{
			ID: "lib:file:///tides", Server: "lib", URI: "file:///tides", Name: "tides", Title: "Tide tables",
			Definition: []byte(`{"uri":"file:///tides","name":"tides","size":1.0}`),
		}},
		Templates: []registry.Template{{
			ID: "lib:weather://{city}", Server: "lib", URI: "weather://{city}", Name: "weather",
			Definition: []byte(`{"uriTemplate":"weather://{city}","name":"weather"}`),
		}},
	})
	expect.OK(t, err)
	snapshot := r.Snapshot()
	r.ranking.Sure = true
	r.ranking.Candidates = []selector.Candidate{
		{Prompt: snapshot.Prompts()[0], Score: 4, Confidence: 0.8},
		{Tool: snapshot.Tools()[0], Score: 3, Confidence: 0.7},
		{Resource: snapshot.Resources()[0], Score: 2, Confidence: 0.6},
		{Template: snapshot.Templates()[0], Score: 1, Confidence: 0.5},
	}
	return r
}

func TestFindOtherKinds(t *testing.T) {
	r := everything(t)
	s := newAlone(r, Options{Mode: exposure.Search})
	result := calls[found](t, s, "find_tools", `{"query":"x","kinds":["tool","resource","prompt"]}`)
	expect.Equal(t, strings.Join(r.query.Kinds, " "), "tool resource prompt", "asked for")
	text := result.Content[0].Text
	for _, want := range []string{
		`{"id":"lib:essay","kind":"prompt","name":"` + s.catalog.View().Prompts.Exposed(r.Snapshot().Prompts()[0]) + `","arguments":[{"name":"topic","required":true},{"name":"tone","description":"How"}],"description":"Writes an essay. At length.","score":4,"confidence":0.8}`,
		`{"id":"lib:essay","signature":"essay({ n?: number }) — Does essay.","score":3,"confidence":0.7}`,
		`{"id":"lib:file:///tides","kind":"resource","uri":"file:///tides","description":"Tide tables","score":2,"confidence":0.6}`,
		`{"id":"lib:weather://{city}","kind":"template","uri_template":"weather://{city}","description":"weather","score":1,"confidence":0.5}`,
	} {
		expect.Contains(t, text, want, "the answer")
	}

	r.servers = []status.Server{info("lib", "ready", 1)}
	for servers, want := range map[string]string{`"lib"`: "", `"Lib"`: "", `"lib","lab"`: `No server has the name "lab": use the name of a server, or leave "servers" out.`} {
		expect.Equal(t, strings.TrimSpace(calls[found](t, s, "find_tools", `{"query":"x","servers":[`+servers+`]}`).StructuredContent.Hint), want)
	}
	for _, budget := range []int{1, 40, 80, 120} {
		got := calls[found](t, s, "find_tools", fmt.Sprintf(`{"query":"x","kinds":["prompt"],"budget_tokens":%d}`, budget)).StructuredContent
		if len(got.Tools) == 0 || len(got.Tools)+got.Omitted != 4 || got.Tools[0].Kind != "prompt" || got.Tools[0].Name == "" {
			t.Errorf("budget %d: %+v", budget, got)
		}
	}

	r.ranking.Sure, r.ranking.Abstained = false, true
	got := calls[found](t, s, "find_tools", `{"query":"x","kinds":["resource"]}`).StructuredContent
	if !got.Abstained || len(got.Tools) != 4 || got.Tools[2].URI != "file:///tides" {
		t.Errorf("abstained: %+v", got)
	}
}

// In direct mode, find_tools is listed if the options say so, and names each tool as the list does.
func TestFindInDirectMode(t *testing.T) {
	r := everything(t)
	for name, c := range map[string]struct {
		o     Options
		lists bool
		want  string
	}{
		"prefixed":         {Options{FindTools: true}, true, "lib__essay"},
		"bare":             {Options{FindTools: true, Names: exposure.Bare}, true, "essay"},
		"as itself":        {Options{FindTools: true, Names: exposure.Own, Itself: "lib"}, false, "essay"},
		"within the limit": {Options{FindTools: true, FindAbove: 1000}, false, "lib__essay"},
		"not asked for":    {Options{}, false, "lib__essay"},
	} {
		c.o.Mode = exposure.Direct
		s := newAlone(r, c.o)
		page, _ := s.catalog.View().Tools.Page("")
		listed := strings.Contains(string(page), `"name":"`+c.want+`"`)
		if finds := strings.Contains(string(page), "load it by this name"); !listed || finds != c.lists {
			t.Errorf("%s: %s", name, page)
		}
		got := calls[found](t, s, "find_tools", `{"query":"x"}`).StructuredContent.Tools
		if len(got) != 4 || got[1].Name != c.want || got[1].InputSchema != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// The instructions of a server come with its first hit, cut, and with its first definition, whole.
func TestInstructionsOfServers(t *testing.T) {
	r := everything(t)
	words := strings.Repeat("é", 400)
	o := registry.Offer{Tools: []registry.NormalizedTool{tool("lib", "essay"), tool("lib", "poem")}, Instructions: words}
	_, err := r.Replace("lib", o)
	expect.OK(t, err)
	_, err = r.Replace("quiet", registry.Offer{Tools: []registry.NormalizedTool{tool("quiet", "essay")}})
	expect.OK(t, err)
	r.ranking.Candidates = nil
	for _, tool := range r.Snapshot().Tools() {
		r.ranking.Candidates = append(r.ranking.Candidates, selector.Candidate{Tool: tool})
	}
	s := newAlone(r, Options{Mode: exposure.Search})
	type answer struct {
		Tools []struct {
			Instructions string `json:"server_instructions"`
		}
	}
	read := func(tool, args string) (all []string) {
		for _, one := range calls[answer](t, s, tool, args).StructuredContent.Tools {
			all = append(all, one.Instructions)
		}
		return all
	}
	expect.List(t, read("find_tools", `{"query":"x"}`), []string{strings.Repeat("é", 248) + "…", "", ""})
	expect.List(t, read("find_tools", `{"query":"x","budget_tokens":100}`), []string{"", "", ""})
	expect.List(t, read("describe_tools", `{"ids":["lib:gone","lib:poem","lib:essay","quiet:essay"]}`), []string{"", words, "", ""})
	expect.List(t, read("describe_tools", `{"ids":["lib","quiet"]}`), []string{words, ""})
}

func TestDescribeOtherKinds(t *testing.T) {
	r := everything(t)
	s := newAlone(r, Options{Mode: exposure.Search})
	got := calls[struct{ Tools []description }](t, s, "describe_tools", `{"ids":["lib:file:///tides","lib:weather://{city}","lib:essay"]}`).StructuredContent.Tools
	want := []description{
		{ID: "lib:file:///tides", Kind: "resource", Definition: r.Snapshot().Resources()[0].Definition},
		{ID: "lib:weather://{city}", Kind: "template", Definition: r.Snapshot().Templates()[0].Definition},
		{ID: "lib:essay", Definition: r.Snapshot().Tools()[0].Definition}, // the id is both a tool's
		{ID: "lib:essay", Kind: "prompt", Definition: catalog.Renamed(r.Snapshot().Prompts()[0].Definition, "name", s.catalog.View().Prompts.Exposed(r.Snapshot().Prompts()[0]))},
	}
	expect.Equal(t, fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
	fails(t, s, "call_tool", `{"tool":"lib:file:///tides"}`, "unknown tool")
}
