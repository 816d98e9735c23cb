package selector

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/registry"
)

// A Query asks for what suits a task.
type Query struct {
	Task         string   // in plain words of any language and length; may be empty
	Capabilities []string // tags that the tool must bear; see [Selector.Find]
	Servers      []string // if not empty, only tools of these servers
	Limit        int      // the most candidates to return; 0 means 10

	// Kinds are what to look for, such as registry.KindPrompt; none means tools.
	// Templates are resources, too. Capabilities are those of tools alone.
	Kinds []string
}

// A Ranking is the answer to a Query.
type Ranking struct {
	Candidates []Candidate // best first

	// Abstained is set where no tool suits the task. The candidates, if there are
	// any, are then the nearest.
	Abstained bool

	// Partial holds the capabilities asked for that the first tool lacks, sorted.
	// It is empty where it bears them all.
	Partial []string
}

// A Selection is the tool to use for a task.
type Selection struct {
	Tool              *registry.NormalizedTool // nil if Abstained
	Score, Confidence float64                  // of Tool; see [Candidate]
	Features          [NumFeatures]float64     // likewise
	Alternatives      []Candidate              // the next best; if Abstained, the nearest
	Abstained         bool                     // no tool suits the task
	Partial           []string                 // capabilities asked for that Tool lacks
}

const (
	defaultLimit  = 10
	maxCandidates = 100  // by words, that are ranked
	maxNearest    = 50   // by meaning
	minHope       = 0.15 // in there being a right tool, below which the selector abstains
)

// Select returns the tool that suits the task best, and up to five
// alternatives. Limit and Kinds are not looked at.
func (s *Selector) Select(ctx context.Context, q Query) (Selection, error) {
	q.Limit, q.Kinds = 6, nil
	r, err := s.Find(ctx, q)
	if err != nil {
		return Selection{}, err
	}
	if r.Abstained {
		return Selection{Alternatives: r.Candidates[:min(len(r.Candidates), 5)], Abstained: true, Partial: r.Partial}, nil
	}
	best := r.Candidates[0]
	return Selection{
		Tool:         best.Tool,
		Score:        best.Score,
		Confidence:   best.Confidence,
		Features:     best.Features,
		Alternatives: r.Candidates[1:],
		Partial:      r.Partial,
	}, nil
}

func (s *Selector) find(ctx context.Context, q Query) (Ranking, error) {
	if q.Limit <= 0 {
		q.Limit = defaultLimit
	}
	t := parse(q.Task)
	others := slices.DeleteFunc(slices.Clone(q.Kinds), func(kind string) bool { return kind == registry.KindTool })
	if len(others) == 0 {
		return s.findTools(ctx, q, t)
	}
	found, err := s.findOthers(ctx, q, others, t)
	if err != nil || len(others) == len(q.Kinds) {
		return found, err
	}
	tools, err := s.findTools(ctx, q, t)
	if err != nil {
		return Ranking{}, err
	}
	return merge(tools, found, q.Limit), nil
}

// findOthers ranks what is no tool, of the given kinds.
func (s *Selector) findOthers(ctx context.Context, q Query, kinds []string, t task) (Ranking, error) {
	c, err := s.registry.Others(ctx)
	if err != nil {
		return Ranking{}, fmt.Errorf("find %s: %w", strings.Join(kinds, ", "), err)
	}
	ranked, err := search(ctx, c, t, registry.Query{Capabilities: kinds, AtLeast: 1, Servers: q.Servers}, belief{})
	if err != nil {
		return Ranking{}, fmt.Errorf("find %s: %w", strings.Join(kinds, ", "), err)
	}
	return Ranking{
		Candidates: ranked[:min(len(ranked), q.Limit)],
		Abstained:  hopeless(ranked),
	}, nil
}

// hopeless reports whether no candidate is likely to be right.
func hopeless(ranked []Candidate) bool {
	return len(ranked) == 0 || ranked[0].Score == 0 || Hope(ranked[0].Signs) < minHope
}

// search ranks what a collection has for the task: what has its words, what means
// the same, and what did well before.
func search(ctx context.Context, c *registry.Collection, t task, request registry.Query, b belief) ([]Candidate, error) {
	t.correct(c)
	nearest := make(chan []*registry.Document, 1)
	byMeaning := request
	byMeaning.Limit = maxNearest
	go func() { nearest <- c.Nearest(c.Meaning(t.text), byMeaning) }()
	request.Words, request.Limit = searchWords(t.words), maxCandidates
	hits, err := c.Search(ctx, request)
	alike := <-nearest
	if err != nil {
		return nil, err
	}
	documents := make([]*registry.Document, 0, len(hits)+maxNearest)
	for _, hit := range hits {
		documents = append(documents, hit.Document)
	}
	add := func(d *registry.Document) {
		if !slices.Contains(documents, d) {
			documents = append(documents, d)
		}
	}
	for _, d := range alike {
		add(d)
	}
	for id, x := range b.use { // in any order: they are ranked
		if tool, ok := c.Snapshot.Tool(id); ok && x > 0 {
			if d, ok := c.Document(registry.Item{Tool: tool}); ok && request.Admits(d) {
				add(d)
			}
		}
	}
	return rank(t, documents, c, b), nil
}

// merge joins two rankings by confidence: scores compare candidates of one of them.
// One that abstains has nothing to say beside one that doesn't.
func merge(tools, others Ranking, limit int) Ranking {
	switch {
	case others.Abstained && !tools.Abstained:
		return tools
	case tools.Abstained && !others.Abstained:
		return others
	}
	all := slices.Concat(tools.Candidates, others.Candidates)
	slices.SortStableFunc(all, func(a, b Candidate) int { return cmp.Compare(b.Confidence, a.Confidence) })
	tools.Candidates = all[:min(len(all), limit)]
	return tools
}

// findTools ranks tools.
func (s *Selector) findTools(ctx context.Context, q Query, t task) (Ranking, error) {
	c, err := s.registry.Collection(ctx)
	if err != nil {
		return Ranking{}, fmt.Errorf("find tools: %w", err)
	}
	tags := registry.Tags(q.Capabilities)
	bearers, borne := bearingMost(c.Snapshot, tags, q.Servers)
	request := registry.Query{Servers: q.Servers}
	if borne > 0 {
		request.Capabilities, request.AtLeast = tags, borne
	}
	ranked, err := search(ctx, c, t, request, s.belief(ctx, q.Task, t))
	if err != nil {
		return Ranking{}, fmt.Errorf("find tools: %w", err)
	}
	if len(tags) > 0 {
		ranked = appendMissing(ranked, bearers, q.Limit)
		weighCapabilities(ranked, float64(borne)/float64(len(tags)), len(bearers))
	}

	answer := Ranking{Candidates: ranked[:min(len(ranked), q.Limit)], Partial: tags}
	switch {
	case len(ranked) == 0:
		answer.Abstained = true
	case len(t.words) > 0: // else the bearers of the capabilities are the answer
		// That a tool bears what was asked for is a sign, too.
		answer.Abstained = hopeless(ranked) && (borne == 0 || ranked[0].Confidence < minHope)
	}
	if len(ranked) > 0 {
		answer.Partial = slices.DeleteFunc(tags, func(tag string) bool {
			return slices.Contains(ranked[0].Tool.Capabilities, tag)
		})
	}
	return answer, nil
}

// belief returns what is known of a task beside its words.
func (s *Selector) belief(ctx context.Context, text string, t task) (b belief) {
	if len(t.words) == 0 {
		return b
	}
	if s.experience != nil {
		b.use = s.experience.Match(t.text, time.Now())
	}
	if s.classifier != nil {
		b.category, b.sure = s.classifier.Category(ctx, text)
	}
	return b
}

// bearingMost returns the tools of the servers (of all, if none is named) that
// bear the most of the tags, by ID, and how many they bear: nil and 0 if no tool
// bears any.
func bearingMost(s *registry.Snapshot, tags, servers []string) (bearers []*registry.NormalizedTool, most int) {
	for _, t := range s.Tools() {
		if len(servers) > 0 && !slices.Contains(servers, t.Server) {
			continue
		}
		n := t.Bears(tags)
		if n > most {
			bearers, most = nil, n
		}
		if n > 0 && n == most {
			bearers = append(bearers, t)
		}
	}
	return bearers, most
}

// appendMissing appends the tools that are not ranked yet, until there are limit
// candidates.
func appendMissing(ranked []Candidate, tools []*registry.NormalizedTool, limit int) []Candidate {
	have := make(map[*registry.NormalizedTool]bool, len(ranked))
	for _, c := range ranked {
		have[c.Tool] = true
	}
	for _, t := range tools {
		if len(ranked) >= limit {
			break
		}
		if !have[t] {
			ranked = append(ranked, Candidate{Tool: t})
		}
	}
	return ranked
}

// weighCapabilities adds to each confidence what the capabilities say: to be one
// of few bearers speaks for a tool even where no word does, and to lack some of
// the capabilities against it. share is how many of those asked for the bearers
// bear.
func weighCapabilities(ranked []Candidate, share float64, bearers int) {
	chance := 0.0
	if bearers > 0 {
		chance = 1 / float64(bearers)
	}
	for i := range ranked {
		c := &ranked[i]
		c.Confidence = (1 - (1-c.Confidence)*(1-chance)) * (1 + share) / 2
	}
}
