package evaluation

import (
	"math"
	"time"
)

// Scores are the measures of a ranking, each in [0,1], or their means over many rankings.
type Scores struct {
	Recall1  float64 `json:"recall@1"` // share of the needs met within the first 1, 3, 5, 10
	Recall3  float64 `json:"recall@3"`
	Recall5  float64 `json:"recall@5"`
	Recall10 float64 `json:"recall@10"`
	NDCG5    float64 `json:"ndcg@5"` // with gain 1 for each need
	NDCG10   float64 `json:"ndcg@10"`
	MRR      float64 `json:"mrr"`    // 1/position of the first that is right
	MAP10    float64 `json:"map@10"` // mean of the precisions at each hit, over min(needs, 10)
}

// fields returns the members of Scores.
func (s *Scores) fields() []*float64 {
	return []*float64{&s.Recall1, &s.Recall3, &s.Recall5, &s.Recall10, &s.NDCG5, &s.NDCG10, &s.MRR, &s.MAP10}
}

// Mean returns the means of all scores, zeros without scores.
func Mean(all []Scores) (mean Scores) {
	for _, s := range all {
		to := mean.fields()
		for i, x := range s.fields() {
			*to[i] += *x / float64(len(all))
		}
	}
	return mean
}

// Score measures a ranking of tool IDs, best first. A need that several tools meet is met
// by the first of them.
func (q *Example) Score(ranked []string) Scores {
	group := make(map[string]int) // of each tool that meets a need
	alternatives := make(map[string]int)
	needs := 0
	for _, r := range q.Relevant {
		id := r.Server + ":" + r.Name
		if _, known := group[id]; known {
			continue
		}
		if g, known := alternatives[r.Alternative]; known && r.Alternative != "" {
			group[id] = g
			continue
		}
		alternatives[r.Alternative] = needs
		group[id] = needs
		needs++
	}
	if needs == 0 {
		return Scores{}
	}
	hits := make([]float64, len(ranked)) // 1 where a need is met for the first time
	met := make([]bool, needs)
	for i, id := range ranked {
		if g, ok := group[id]; ok && !met[g] {
			met[g], hits[i] = true, 1
		}
	}
	recall := func(k int) float64 { return sum(hits, k) / float64(needs) }
	return Scores{
		Recall1: recall(1), Recall3: recall(3), Recall5: recall(5), Recall10: recall(10),
		NDCG5: ndcg(hits, needs, 5), NDCG10: ndcg(hits, needs, 10),
		MRR: reciprocal(hits), MAP10: precision(hits, needs, 10),
	}
}

func sum(hits []float64, k int) (n float64) {
	for _, h := range hits[:min(k, len(hits))] {
		n += h
	}
	return n
}

func ndcg(hits []float64, needs, k int) float64 {
	gained, ideal := 0.0, 0.0
	for i := range k {
		discount := math.Log2(float64(i + 2))
		if i < len(hits) {
			gained += hits[i] / discount
		}
		if i < needs {
			ideal += 1 / discount
		}
	}
	return gained / ideal
}

func reciprocal(hits []float64) float64 {
	for i, h := range hits {
		if h > 0 {
			return 1 / float64(i+1)
		}
	}
	return 0
}

func precision(hits []float64, needs, k int) float64 {
	total, found := 0.0, 0.0
	for i, h := range hits[:min(k, len(hits))] {
		if h > 0 {
			found++
			total += found / float64(i+1)
		}
	}
	return total / float64(min(needs, k))
}

// A Report is how well tools were found for examples.
type Report struct {
	Tools       int           // in the catalog
	Examples    int           // that were searched for
	Scores                    // means over the examples
	Median, P99 time.Duration // of one search
	Rankings    []Ranking     // one for each example
}
