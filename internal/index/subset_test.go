package index

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A some is a [registry.Filter]: the tools for which it returns true.
type some func(t *registry.NormalizedTool) bool

func (some) Server(string) bool            { return true }
func (some) Claim(server, uri string) bool { return true }

func (f some) Item(i registry.Item) bool { return i.Tool == nil || f(i.Tool) }

func (some) Tool(t *registry.NormalizedTool) *registry.NormalizedTool { return t }

// share returns a filter that has one tool of n.
func share(n int) some {
	return func(t *registry.NormalizedTool) bool {
		sum := 0
		for _, b := range []byte(t.ID) {
			sum = 31*sum + int(b)
		}
		return sum%n == 0
	}
}

// TestSubset compares what is found within a filtered catalog with what is found in the whole one
// and then filtered, by words and by meaning; if it is small, with what is found in an index that
// has only its items.
func TestSubset(t *testing.T) {
	const all = 1400
	r := open(t)
	for server, tools := range catalog(all) {
		replace(t, r, server, tools...)
	}
	queries := []string{"wb1 wc2 wa0", "we0", "wa1 wa2 wa3 wa4 wb5", "wd2 wd3", "unknown"}
	check := func(name string, filter some) {
		c, err := r.Tools(t.Context())
		expect.OK(t, err)
		within := c.Within(r.Registry.Snapshot().Filtered(filter, nil))
		few := open(t)
		for server, tools := range catalog(all) {
			replace(t, few, server, slices.DeleteFunc(tools, func(t registry.NormalizedTool) bool { return !filter(&t) })...)
		}
		fewer, err := few.Tools(t.Context())
		expect.OK(t, err)
		if within.Len() > 2*all || within.Len() == 0 {
			t.Fatalf("%s: %d items are within", name, within.Len())
		}
		for _, text := range queries {
			for _, limit := range []int{1, 10, all} {
				q := Query{Words: Words(text), Limit: 2 * all}
				whole, err := c.Search(t.Context(), q)
				expect.OK(t, err)
				whole = slices.DeleteFunc(whole, func(h Hit) bool { return !filter(h.Tool) })
				if within.Len() <= maxPart {
					if whole, err = fewer.Search(t.Context(), q); err != nil {
						t.Fatal(err)
					}
				}
				q.Within, q.Limit = within, limit
				got, err := c.Search(t.Context(), q)
				want := whole[:min(limit, len(whole))]
				unit := 1.0 // scores compare the hits of one search
				if len(got) > 0 && len(want) > 0 {
					unit = want[0].Score / got[0].Score
				}
				if err != nil || !slices.EqualFunc(got, want, func(a, b Hit) bool {
					return a.Tool.ID == b.Tool.ID && math.Abs(a.Score*unit/b.Score-1) < 1e-6
				}) {
					t.Errorf("%s: %q: %v, %v; want %v", name, text, listed(got), err, listed(want))
				}
			}
		}
		n := 0
		for _, d := range c.Documents() {
			if within.Has(d) != filter(d.Tool) {
				t.Fatalf("%s: Has(%s) is %v", name, d.Tool.ID, within.Has(d))
			}
			if filter(d.Tool) {
				n++
			}
		}
		expect.Equal(t, n, within.Len(), "%s: items are within", name)
		if own := within.Collection(); (own != c) != (n <= maxPart) {
			t.Errorf("%s: %d items have a collection of their own: %v", name, n, own != c)
		} else if own != c && !(maps.Equal(own.docFreq, fewer.docFreq) && own.length == fewer.length) {
			t.Errorf("%s: words are not as rare, or items as long, as in an index that has only these", name)
		}
	}
	check("half", share(2))
	check("some", share(4))
	check("few", share(50))
	check("all", share(1))
}

// TestSubsetAfterEdit searches a collection whose index was changed since: bleve then numbers its
// items in another way.
func TestSubsetAfterEdit(t *testing.T) {
	r := open(t)
	replace(t, r, "first", tool("first", "a", "nothing"))
	_, err := r.Tools(t.Context())
	expect.OK(t, err)
	replace(t, r, "s", tool("s", "hidden", "copy"), tool("s", "shown", "copy"))
	c, err := r.Tools(t.Context())
	expect.OK(t, err)
	within := c.Within(r.Snapshot().Filtered(named("shown"), nil))
	check := func() {
		t.Helper()
		found, err := c.Search(t.Context(), Query{Words: Words("copy"), Within: within})
		if err != nil || len(found) != 1 || found[0].Tool.ID != "s:shown" {
			t.Errorf("found %v, %v", listed(found), err)
		}
	}
	check()
	replace(t, r, "first")
	_, err = r.Tools(t.Context())
	expect.OK(t, err)
	check()
}

// listed returns hits as lines.
func listed(hits []Hit) (lines []string) {
	for _, h := range hits {
		lines = append(lines, fmt.Sprintf("%s %v", h.Tool.ID, h.Score))
	}
	return lines
}

// TestSubsetOfOthers has a filtered catalog of prompts and resources.
func TestSubsetOfOthers(t *testing.T) {
	r := open(t)
	_, err := r.Replace("s", registry.Offer{
		Prompts:   []registry.Prompt{{ID: "s:a", Server: "s", Name: "a"}, {ID: "s:b", Server: "s", Name: "b"}},
		Resources: []registry.Resource{{ID: "s:x:a", Server: "s", URI: "x:a", Name: "a"}, {ID: "s:x:b", Server: "s", URI: "x:b", Name: "b"}},
		Templates: []registry.Template{{ID: "s:t:b", Server: "s", URI: "t:b", Name: "b"}},
		Skills:    []registry.Skill{{ID: "s:k:b", Server: "s", URI: "k:b", Name: "b"}},
	})
	expect.OK(t, err)
	c, err := r.Others(t.Context())
	expect.OK(t, err)
	within := c.Within(r.Snapshot().Filtered(named("b"), nil))
	var ids []string
	for _, d := range within.All {
		ids = append(ids, d.ID())
	}
	if got := strings.Join(ids, " "); got != "s:b s:x:b s:k:b s:t:b" || within.Len() != 4 {
		t.Errorf("within are %s", got)
	}
}

// A named is a [registry.Filter]: items whose ID ends so.
type named string

func (named) Server(string) bool            { return true }
func (named) Claim(server, uri string) bool { return true }
func (n named) Item(i registry.Item) bool   { return strings.HasSuffix(i.ID(), string(n)) }

func (named) Tool(t *registry.NormalizedTool) *registry.NormalizedTool { return t }

// TestSubsetOfClones has tools in the catalog that profiles made of those in the index, and one
// that was replaced since.
func TestSubsetOfClones(t *testing.T) {
	r := open(t)
	replace(t, r, "s", tool("s", "a", "copy"), tool("s", "b", "copy"), tool("s", "c", "copy"))
	c, err := r.Tools(t.Context())
	expect.OK(t, err)
	before := r.Snapshot().Filtered(fixing("s:a"), nil)
	within := c.Within(before)
	a, _ := r.Snapshot().Tool("s:a")
	clone, _ := before.Tool("s:a")
	if d, ok := c.Document(registry.Item{Tool: a}); !ok || !within.Has(d) || within.Tool(a) != clone || clone == a {
		t.Error("the tool with fixed arguments is not within")
	}
	changed := tool("s", "a", "copy")
	changed.InputSchema = []byte(`{"type":"object","properties":{"x":{}}}`)
	replace(t, r, "s", changed, tool("s", "b", "copy"), tool("s", "c", "another"))
	if c, err = r.Tools(t.Context()); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, d := range c.Within(before).All {
		ids = append(ids, d.Tool.ID)
	}
	expect.Equal(t, strings.Join(ids, " "), "s:b", "within the catalog of before")
}

// A fixing is a [registry.Filter] that has all, and fixes an argument of the tool with the ID.
type fixing string

func (fixing) Server(string) bool            { return true }
func (fixing) Claim(server, uri string) bool { return true }
func (fixing) Item(registry.Item) bool       { return true }

func (f fixing) Tool(t *registry.NormalizedTool) *registry.NormalizedTool {
	if t.ID != string(f) {
		return t
	}
	clone := *t
	clone.Fixed, clone.ServerSchema = []byte(`{"owner":"acme"}`), t.InputSchema
	return &clone
}

// TestCorrectWithin misspells a word that only a hidden tool has.
func TestCorrectWithin(t *testing.T) {
	r := open(t)
	replace(t, r, "s", tool("s", "a", "zyxwvution of all"), tool("s", "b", "nothing"))
	c, err := r.Tools(t.Context())
	expect.OK(t, err)
	word := Words("zyxwvution")[0]
	wrong := word[:len(word)-1] + "q"
	if got := c.Correct(wrong); got != word {
		t.Fatalf("%s is %s, want %s", wrong, got, word)
	}
	for name, want := range map[string]string{"a": word, "b": wrong} {
		expect.Equal(t, c.Within(r.Snapshot().Filtered(named(name), nil)).Correct(wrong), want, "within %s, %s", name, wrong)
	}
}
