package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/vectors"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// A sighting is how the tools were ranked for a query, and on what grounds.
type sighting struct {
	query  *selector.Example
	found  []selector.Candidate
	scores selector.Scores
}

const sightLimit = 150

// An asked says how else queries are to be asked.
type asked struct {
	vain       bool                                          // the servers that a query needs are not there
	experience func(c *corpus, fold int) selector.Experience // nil: nothing was learned from use
}

// evaluateAll ranks the tools for the queries of all corpora, each with the model
// of its fold.
func evaluateAll(ctx context.Context, corpora []*corpus, model func(c *corpus, fold int) *vectors.Model, folds int, o asked) (map[*corpus][]sighting, error) {
	seen := make(map[*corpus][]sighting)
	for _, c := range corpora {
		seen[c] = make([]sighting, len(c.queries))
		for fold := range folds {
			r, err := register(c.tools)
			if err != nil {
				return nil, err
			}
			options := selector.Options{Vectors: model(c, fold)}
			if o.experience != nil {
				options.Experience = o.experience(c, fold)
			}
			s := selector.New(r, options)
			for i := range c.queries {
				if c.fold[i]%folds != fold {
					continue
				}
				q := &c.queries[i]
				ask := selector.Query{Task: q.Text, Limit: sightLimit}
				if o.vain {
					ask.Servers, ask.Limit = c.serversWithout(q), judgedCandidates
				}
				found, err := s.Find(ctx, ask)
				if err != nil {
					return nil, err
				}
				seen[c][i] = sighting{q, found.Candidates, q.Score(ids(found.Candidates))}
			}
			s.Close()
		}
	}
	return seen, nil
}

// serversWithout returns the servers that the query does not need.
func (c *corpus) serversWithout(q *selector.Example) (others []string) {
	known := make(map[string]bool)
	for i := range c.tools {
		if server := c.tools[i].Server; !known[server] && !q.Needs(server) {
			known[server] = true
			others = append(others, server)
		}
	}
	return others
}

func ids(candidates []selector.Candidate) (all []string) {
	for _, c := range candidates {
		all = append(all, c.IDs()...)
	}
	return all
}

// report prints the scores by corpus, and their means over the corpora.
func report(title string, corpora []*corpus, seen map[*corpus][]sighting) {
	fmt.Printf("%s\n%-16s %6s %6s %7s %6s\n", title, "", "R@1", "R@5", "nDCG@10", "MRR")
	var means []selector.Scores
	row := func(name string, s selector.Scores) {
		fmt.Printf("%-16s %6.3f %6.3f %7.3f %6.3f\n", name, s.Recall1, s.Recall5, s.NDCG10, s.MRR)
	}
	for _, c := range corpora {
		var all []selector.Scores
		for _, s := range seen[c] {
			all = append(all, s.scores)
		}
		mean := selector.MeanScores(all)
		row(c.name, mean)
		if c.name != smallest {
			means = append(means, mean)
		}
	}
	row("mean", selector.MeanScores(means))
}

// smallest is a corpus too small to count in the mean.
const smallest = "mcpproxy-golden"

// check trains without some of the queries at a time, and ranks for those: parts
// of each corpus, and whole families of corpora.
func (t *trainer) check(ctx context.Context) error {
	parts := make([]*vectors.Model, t.folds)
	for fold := range parts {
		m, err := t.model(fmt.Sprintf("part-%d-of-%d", fold, t.folds), selection{query: func(c *corpus, i int) bool { return c.fold[i]%t.folds != fold }})
		if err != nil {
			return err
		}
		parts[fold] = m
	}
	seen, err := evaluateAll(ctx, t.corpora, func(_ *corpus, fold int) *vectors.Model { return parts[fold] }, t.folds, asked{})
	if err != nil {
		return err
	}
	report(fmt.Sprintf("queries left out, in %d parts", t.folds), t.corpora, seen)
	if err := t.write("parts", seen); err != nil {
		return err
	}

	families := make(map[string]*vectors.Model)
	for _, left := range t.corpora {
		if families[left.family] != nil {
			continue
		}
		theirs := make(map[string]bool)
		for _, c := range t.corpora {
			if c.family == left.family && (c.name != c.family || c.learned && c.name != "large") {
				for i := range c.tools {
					theirs[c.tools[i].ID] = true
				}
			}
		}
		m, err := t.model("without-"+left.family, selection{
			query:    func(c *corpus, _ int) bool { return c.family != left.family },
			leaveOut: func(c *corpus, tool *registry.NormalizedTool) bool { return c.family == left.family && theirs[tool.ID] },
			row:      func(r *row) bool { return left.family != "large" || !r.ofMCP() },
		})
		if err != nil {
			return err
		}
		families[left.family] = m
	}
	apart, err := evaluateAll(ctx, t.corpora, func(c *corpus, _ int) *vectors.Model { return families[c.family] }, 1, asked{})
	if err != nil {
		return err
	}
	report("corpora left out", t.corpora, apart)
	if err := t.write("corpora", apart); err != nil {
		return err
	}
	fitWeights(t.corpora, seen, apart)
	used, err := evaluateAll(ctx, t.corpora, func(_ *corpus, fold int) *vectors.Model { return parts[fold] }, t.folds,
		asked{experience: func(c *corpus, fold int) selector.Experience { return past(c, fold, t.folds) }})
	if err != nil {
		return err
	}
	report("queries left out, the others having been asked before", t.corpora, used)
	fitWeights(t.corpora, used)
	without, err := evaluateAll(ctx, t.corpora, func(_ *corpus, fold int) *vectors.Model { return parts[fold] }, t.folds, asked{vain: true})
	if err != nil {
		return err
	}
	smallWith, smallWithout, err := evaluateSmall(ctx, t.corpora, func(_ *corpus, fold int) *vectors.Model { return parts[fold] }, t.folds)
	if err != nil {
		return err
	}
	return t.trust(ctx, []judged{{"large catalogs", seen, without}, {"small catalogs", smallWith, smallWithout}}, apart, families)
}

// A ranking is the tools that were found for a query, best first.
type ranking struct {
	ID     string   `json:"id"`
	Ranked []string `json:"ranked"`
}

// write keeps the rankings of each corpus in a file, for other programs to score.
func (t *trainer) write(what string, seen map[*corpus][]sighting) error {
	if t.rankings == "" {
		return nil
	}
	for c, all := range seen {
		var lines []byte
		for _, s := range all {
			line, err := json.Marshal(ranking{s.query.ID, ids(s.found)})
			if err != nil {
				return err
			}
			lines = append(append(lines, line...), '\n')
		}
		if err := os.WriteFile(filepath.Join(t.rankings, c.name+"."+what+".jsonl"), lines, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// fitWeights looks for weights of the features that do best for both kinds of queries
// left out, changing one at a time.
func fitWeights(corpora []*corpus, kinds ...map[*corpus][]sighting) {
	w := selector.Weights()
	best := objectives(corpora, kinds, w)
	for round, better := 0, true; better && round < 8; round++ {
		better = false
		for f := range w {
			for _, by := range []float64{0, 0.5, 0.8, 1.25, 2} {
				x := w
				if x[f] *= by; w[f] == 0 {
					x[f] = by
				}
				if o := objectives(corpora, kinds, x); o > best+minGain {
					best, w, better = o, x, true
				}
			}
		}
		fmt.Printf("round %d: %.4f with %.3g\n", round, best, w)
	}
	for _, seen := range kinds {
		fmt.Printf("%.4f as they were, %.4f then\n", objective(corpora, seen, selector.Weights()), objective(corpora, seen, w))
	}
}

// minGain is what a change of weights must bring.
const minGain = 1e-4

func objectives(corpora []*corpus, kinds []map[*corpus][]sighting, w [numFeatures]float64) (sum float64) {
	for _, seen := range kinds {
		sum += objective(corpora, seen, w) / float64(len(kinds))
	}
	return sum
}

// objective is the mean of nDCG@10 and Recall@5 over the corpora.
func objective(corpora []*corpus, seen map[*corpus][]sighting, w [numFeatures]float64) float64 {
	total, n := 0.0, 0.0
	for _, c := range corpora {
		if c.name == smallest {
			continue
		}
		sum := 0.0
		for _, s := range seen[c] {
			scores := s.query.Score(reranked(s.found, w))
			sum += (scores.NDCG10 + scores.Recall5) / 2
		}
		total += sum / math.Max(1, float64(len(seen[c])))
		n++
	}
	return total / n
}

// reranked returns the ten best by other weights.
func reranked(found []selector.Candidate, w [numFeatures]float64) []string {
	type scored struct {
		id    string
		score float64
	}
	best := make([]scored, 0, 11)
	for _, c := range found {
		s := scored{id: c.Tool.ID}
		for f, x := range c.Features {
			s.score += w[f] * x
		}
		i := len(best)
		for i > 0 && (best[i-1].score < s.score || best[i-1].score == s.score && best[i-1].id > s.id) {
			i--
		}
		if i < 10 {
			best = append(best[:i], append([]scored{s}, best[i:]...)...)
			best = best[:min(len(best), 10)]
		}
	}
	ids := make([]string, len(best))
	for i, b := range best {
		ids[i] = b.id
	}
	return ids
}

// A judged is queries with and without the servers that they need.
type judged struct {
	name          string
	with, without map[*corpus][]sighting
}

// trust fits the confidence to queries left out, and says how good it is for
// them and for corpora left out.
func (t *trainer) trust(ctx context.Context, kinds []judged, apart map[*corpus][]sighting, families map[string]*vectors.Model) error {
	apartWithout, err := evaluateAll(ctx, t.corpora, func(c *corpus, _ int) *vectors.Model { return families[c.family] }, 1, asked{vain: true})
	if err != nil {
		return err
	}
	var all []verdict
	for _, k := range kinds {
		reliability(k.name+", queries left out, as it is", t.corpora, k.with, confidenceOf)
		all = append(all, verdicts(t.corpora, k.with, k.without)...)
	}
	w := logistic(all)
	sum := func(signs [numEvidence]float64) float64 {
		s := w[numEvidence]
		for i, x := range signs {
			s += w[i] * x
		}
		return s
	}
	const least, step, knots = -4.0, 0.5, 17
	confidences := calibrate(all, func(v verdict) float64 { return sum(v.signs) }, least, step, knots)
	fmt.Printf("signs %.3g\nconfidences %.3g\n", w, confidences)
	belief := func(c selector.Candidate) float64 {
		at := min(max(0, (sum(c.Evidence)-least)/step), knots-1)
		i := min(int(at), knots-2)
		return confidences[i] + (confidences[i+1]-confidences[i])*(at-float64(i))
	}
	a := answerable(t.corpora, kinds)
	fmt.Printf("signs of there being an answer %.3g\n", a)
	for _, k := range append(slices.Clone(kinds), judged{"corpora left out", apart, apartWithout}) {
		fmt.Println(k.name)
		abstaining(t.corpora, k.with, k.without, func(c selector.Candidate) float64 {
			sum := a[numEvidence]
			for i, x := range c.Evidence {
				sum += a[i] * x
			}
			return 1 / (1 + math.Exp(-sum))
		})
	}
	for _, k := range append(kinds, judged{"corpora left out", apart, apartWithout}) {
		reliability(k.name+", fitted", t.corpora, k.with, belief)
	}
	return nil
}

const (
	smallCatalogs  = 40 // of each corpus and fold
	smallQueries   = 12 // of each, with and without the tools that they need
	smallestNumber = 15 // of tools
	greatestNumber = 150
)

// evaluateSmall ranks the tools of small catalogs, such as people have: parts of
// each corpus, with the servers that some queries need and others do not.
func evaluateSmall(ctx context.Context, corpora []*corpus, model func(c *corpus, fold int) *vectors.Model, folds int) (with, without map[*corpus][]sighting, err error) {
	with, without = make(map[*corpus][]sighting), make(map[*corpus][]sighting)
	random := rand.New(rand.NewPCG(5, 6))
	for _, c := range corpora {
		byServer := make(map[string][]registry.NormalizedTool)
		for _, t := range c.tools {
			byServer[t.Server] = append(byServer[t.Server], t)
		}
		servers := slices.Sorted(maps.Keys(byServer))
		for n := range smallCatalogs * folds {
			fold := n % folds
			var queries []*selector.Example
			for _, i := range random.Perm(len(c.queries)) {
				if c.fold[i]%folds == fold {
					queries = append(queries, &c.queries[i])
				}
			}
			size := smallestNumber + random.IntN(greatestNumber-smallestNumber)
			chosen := make(map[string]bool)
			var tools []registry.NormalizedTool
			add := func(server string) {
				if !chosen[server] && byServer[server] != nil {
					chosen[server] = true
					tools = append(tools, byServer[server]...)
				}
			}
			asked := 0
			for _, q := range queries {
				if asked < smallQueries && len(tools) < size {
					for _, r := range q.Relevant {
						add(r.Server)
					}
					asked++
				}
			}
			for _, i := range random.Perm(len(servers)) {
				if len(tools) < size {
					add(servers[i])
				}
			}
			r, err := register(tools)
			if err != nil {
				return nil, nil, err
			}
			s := selector.New(r, selector.Options{Vectors: model(c, fold)})
			vain := 0
			for i, q := range queries {
				needs := false
				for _, r := range q.Relevant {
					needs = needs || chosen[r.Server]
				}
				if needs && i >= smallQueries || !needs && vain >= smallQueries {
					continue
				}
				found, err := s.Find(ctx, selector.Query{Task: q.Text, Limit: judgedCandidates})
				if err != nil {
					return nil, nil, err
				}
				to := with
				if !needs {
					to = without
					vain++
				}
				to[c] = append(to[c], sighting{q, found.Candidates, q.Score(ids(found.Candidates))})
			}
			s.Close()
		}
	}
	return with, without, nil
}

// past is the experience of someone who has asked the queries of the other folds
// and called the tools that they need.
func past(c *corpus, fold, folds int) selector.Experience {
	s, err := selector.OpenUsage("", c.name, zap.NewNop())
	if err != nil {
		panic(err) // there is no file
	}
	for i := range c.queries {
		if q := &c.queries[i]; c.fold[i]%folds != fold {
			for _, r := range q.Relevant {
				s.Record(selector.Use{Client: "someone", Words: taskWords(q), Tool: r.Server + ":" + r.Name})
			}
		}
	}
	return s
}
