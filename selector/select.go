package selector

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/internal/taglist"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector/internal/rank"
	"github.com/mcp-metarouter/metarouter/selector/internal/text"
)

// A Query searches for the tools that suit a task.
type Query struct {
	Task         string   // in plain words of any language and length; may be empty
	Capabilities []string // tags that the tool must have; see [Selector.Find]
	Servers      []string // if not empty, only tools of these servers
	Limit        int      // the most candidates to return; 0 means 10

	// Kinds are the kinds to search for, such as registry.KindPrompt; without any, tools. A
	// template is a resource, too. Capabilities narrow the search for tools only.
	Kinds []string

	// Arguments of the call to come, a JSON object, tell which server is meant if several have the
	// same tool; may be nil. A tool that lacks an argument that other tools take is not found.
	Arguments json.RawMessage

	// Catalog has the items that may be found; nil is the whole catalog of the registry. Its
	// items are items of the registry, but for tools whose arguments are fixed.
	Catalog *registry.Snapshot

	whole string // the task of which Task is a step; "" if it is no step
}

// A Ranking is the answer to a Query.
type Ranking struct {
	Candidates []Candidate // best first

	// Sure says that the confidence in the first candidate is at least FindThreshold of the
	// [Options], and that in the next one at most 0.8 of it. If not, the candidates are the nearest.
	Sure bool

	// Abstained says that this confidence is below 0.1: no candidate is an answer.
	Abstained bool

	// By is how the candidates were found: "ranking", or "words" if not all of them have a vector yet, or the encoder does not know the language. It is
	// "" without candidates.
	By string

	// Partial holds the capabilities of the Query that the first tool lacks, sorted.
	Partial []string
}

// Values of By of a [Ranking].
const (
	byRanking = "ranking"
	ByWords   = "words"
)

// A Selection is the tool to use for a task.
type Selection struct {
	Tool              *registry.NormalizedTool  // nil if Abstained
	Score, Confidence float64                   // of Tool; see [Candidate]
	Features          [rank.NumFeatures]float64 // likewise
	Alternatives      []Candidate               // the next best; if Abstained, the nearest
	Sure, Abstained   bool                      // as in [Ranking]
	By                string                    // likewise
	Partial           []string                  // capabilities of the Query that Tool lacks

	// Places are the equal tools of several servers, Tool first; nil if there is only Tool.
	// Ambiguous says that nothing tells which of them is meant.
	Places    []*registry.NormalizedTool
	Ambiguous bool
}

// DefaultFindThreshold is the confidence at which a [Ranking] is sure, if that in the next tool is at
// most 0.8 of it.
const DefaultFindThreshold = rank.DefaultFindThreshold

const (
	defaultLimit  = 10
	maxCandidates = 100 // by words, that are ranked
	maxNearest    = 50  // by meaning
	fewest        = 5   // that are listed though nothing fits, if there are so many
)

// Select returns the tool that suits the task best, and up to five alternatives. It
// ignores Limit and Kinds.
func (s *Selector) Select(ctx context.Context, q Query) (Selection, error) {
	q.Limit, q.Kinds = 6, nil
	r, err := s.Find(ctx, q)
	if err != nil {
		return Selection{}, err
	}
	return r.selection(), nil
}

// selection returns the first candidate as the choice, unless the ranking abstains.
func (r Ranking) selection() Selection {
	if r.Abstained {
		return Selection{Alternatives: r.Candidates[:min(len(r.Candidates), 5)], Abstained: true, Partial: r.Partial}
	}
	best := r.Candidates[0]
	return Selection{
		Tool:         best.Tool,
		Score:        best.Score,
		Confidence:   best.Confidence,
		Features:     best.Features,
		Alternatives: r.Candidates[1:],
		Sure:         r.Sure,
		By:           r.By,
		Partial:      r.Partial,
		Places:       best.Places,
		Ambiguous:    best.Ambiguous,
	}
}

// Find ranks the items that suit the task: tools, or items of Kinds.
//
// If tools have all the capabilities of the query, these are the candidates. If no tool
// does, the tools with the most of them are, and Partial lists the missing ones. If no tool
// has any, the task alone decides. Without a task, the tools with the capabilities are in
// the order of their IDs. An empty query abstains.
func (s *Selector) Find(ctx context.Context, q Query) (Ranking, error) {
	began := time.Now()
	found, err := s.find(ctx, q)
	if s.observer != nil {
		s.observer.Searched(Search{Query: q, Took: time.Since(began), Found: len(found.Candidates), Abstained: found.Abstained, Err: err})
	}
	return found, err
}

func (s *Selector) find(ctx context.Context, q Query) (Ranking, error) {
	if n := max(len(q.Kinds), len(q.Capabilities), len(q.Servers)); n > taglist.Max {
		return Ranking{}, fmt.Errorf("find: a list of %d names is too long; send at most %d", n, taglist.Max)
	}
	limit := cmp.Or(max(q.Limit, 0), defaultLimit)
	q.Limit = max(limit, 2) // whether the first is sure depends on the next
	t := text.Parse(q.Task)
	others := slices.DeleteFunc(slices.Clone(q.Kinds), func(kind string) bool { return kind == registry.KindTool })
	var found, tools Ranking
	var err error
	if len(others) > 0 {
		found, err = s.findOthers(ctx, q, others, t)
	}
	if err == nil && (len(others) == 0 || len(others) < len(q.Kinds)) {
		tools, err = s.findTools(ctx, q, t)
	}
	if err != nil {
		return Ranking{}, err
	}
	r := judge(merge(tools, found, q.Limit), q, t.Plain != "", s.threshold())
	r.Candidates = r.Candidates[:min(len(r.Candidates), limit)]
	return r, nil
}

// findOthers ranks prompts, resources and templates, as far as kinds has them.
func (s *Selector) findOthers(ctx context.Context, q Query, kinds []string, t text.Task) (Ranking, error) {
	c, err := s.index.Others(ctx)
	if err != nil {
		return Ranking{}, fmt.Errorf("find %s: %w", strings.Join(kinds, ", "), err)
	}
	r, err := s.search(ctx, c, t, index.Query{Capabilities: kinds, AtLeast: 1, Servers: q.Servers, Within: c.Within(q.Catalog)}, nil)
	if err != nil {
		return Ranking{}, fmt.Errorf("find %s: %w", strings.Join(kinds, ", "), err)
	}
	r.Candidates = r.Candidates[:min(len(r.Candidates), q.Limit)]
	return r, nil
}

// search ranks the items of a collection that have words of the task, or that mean about the
// same. args, of the call to come, may be nil.
func (s *Selector) search(ctx context.Context, c *index.Collection, t text.Task, request index.Query, args json.RawMessage) (r Ranking, err error) {
	within := request.Within.Collection()
	t.Correct(request.Within.Correct)
	request.Words, request.Limit = t.Words, maxCandidates
	hits, err := c.Search(ctx, request)
	if err != nil {
		return r, err
	}
	documents := make([]*index.Document, 0, len(hits)+maxNearest)
	for _, hit := range hits {
		documents = append(documents, hit.Document)
	}
	add := func(d *index.Document) {
		if !slices.Contains(documents, d) {
			documents = append(documents, d)
		}
	}
	var p rank.Prior
	if near := s.nearness(ctx, c, t); near != nil {
		p.Nearness, r.By = near.of, byRanking
		for _, d := range near.nearest(request) {
			add(d)
		}
	} else if t.Plain != "" {
		r.By = ByWords
		for _, d := range request.Within.All {
			if len(documents) >= fewest {
				break
			}
			if request.Admits(d) {
				add(d)
			}
		}
	}
	documents, p.Complete = takers(request, documents, args)
	p.Crowd = request.Within.Len()
	if r.Candidates = rank.Rank(t, documents, within, p); len(r.Candidates) == 0 {
		r.By = ""
	}
	return r, context.Cause(ctx)
}

// merge joins two rankings by confidence, since scores only compare candidates of one
// ranking.
func merge(tools, others Ranking, limit int) Ranking {
	if len(others.Candidates) == 0 {
		return tools
	}
	all := slices.Concat(tools.Candidates, others.Candidates)
	slices.SortStableFunc(all, func(a, b Candidate) int { return cmp.Compare(b.Confidence, a.Confidence) })
	if all[0].Tool == nil {
		tools.By = others.By
	}
	tools.Candidates = all[:min(len(all), limit)]
	return tools
}

// findTools ranks tools.
func (s *Selector) findTools(ctx context.Context, q Query, t text.Task) (Ranking, error) {
	c, err := s.index.Tools(ctx)
	if err != nil {
		return Ranking{}, fmt.Errorf("find tools: %w", err)
	}
	tags := taglist.Clean(q.Capabilities)
	request := index.Query{Servers: q.Servers, Within: c.Within(q.Catalog)}
	tagged, most := taggedMost(request, tags)
	if most > 0 {
		request.Capabilities, request.AtLeast = tags, most
	}
	answer, err := s.search(ctx, c, t, request, q.Arguments)
	if err != nil {
		return Ranking{}, fmt.Errorf("find tools: %w", err)
	}
	ranked := answer.Candidates
	share := 0.0 // of the tags, that the tools have
	if len(tags) > 0 {
		share = float64(most) / float64(len(tags))
		ranked = appendMissing(c, ranked, tagged, q.Limit)
		weighCapabilities(ranked, share, choices(c, tagged))
	}
	if answer.Partial = tags; len(ranked) > 0 {
		answer.By = cmp.Or(answer.By, byRanking)
	}
	answer.Candidates = ranked[:min(len(ranked), q.Limit)]
	replaceTools(answer.Candidates, request.Within)
	choosePlaces(s.executor, q, answer.Candidates)
	if len(ranked) > 0 {
		answer.Partial = slices.DeleteFunc(tags, func(tag string) bool {
			return slices.Contains(ranked[0].Tool.Capabilities, tag)
		})
	}
	return answer, nil
}

// replaceTools replaces the tools of candidates by those that the catalog of the subset has.
func replaceTools(candidates []Candidate, within index.Subset) {
	for i := range candidates {
		c := &candidates[i]
		c.Tool = within.Tool(c.Tool)
		for k, t := range c.Places {
			c.Places[k] = within.Tool(t)
		}
	}
}

// taggedMost returns the tools that the request admits and that have the most of the tags, by ID, and how many
// they have: nil and 0 if no tool has any.
func taggedMost(request index.Query, tags []string) (tagged []*registry.NormalizedTool, most int) {
	for _, d := range request.Within.All {
		n := taglist.Count(d.Tool.Capabilities, tags)
		if n == 0 || n < most || !request.Admits(d) {
			continue
		}
		if n > most {
			tagged, most = nil, n
		}
		tagged = append(tagged, d.Tool)
	}
	return tagged, most
}

// appendMissing appends the tools that are not ranked yet, unless there are limit
// candidates.
func appendMissing(c *index.Collection, ranked []Candidate, tools []*registry.NormalizedTool, limit int) []Candidate {
	have := make(map[*registry.NormalizedTool]bool, len(ranked))
	if len(ranked) >= limit {
		return ranked
	}
	for _, c := range ranked {
		have[c.Tool] = true
		for _, t := range c.Places {
			have[t] = true
		}
	}
	for _, t := range tools {
		if d, ok := c.Document(registry.Item{Tool: t}); ok && !have[t] {
			ranked = append(ranked, rank.Unranked(d))
		}
	}
	return rank.JoinPlaces(ranked)
}

// weighCapabilities adds the evidence of capabilities to each confidence: a tool is more
// likely if few others have the capabilities, even without a common word, and less likely
// if it lacks some. share is the share of the capabilities that the tools have; tagged is
// how many different tools have them.
func weighCapabilities(ranked []Candidate, share float64, tagged int) {
	chance := 0.0
	if tagged > 0 {
		chance = 1 / float64(tagged)
	}
	for i := range ranked {
		c := &ranked[i]
		c.Confidence = (1 - (1-c.Confidence)*(1-chance)) * (1 + share) / 2
	}
}
