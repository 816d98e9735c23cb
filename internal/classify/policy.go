package classify

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/config"
)

// A policy turns probabilities into an [Outcome], by the threshold, the fallback and the
// rules of a configuration. It is immutable.
type policy struct {
	config     config.Classification
	categories []config.Category
	own        [][]rule // by category
	rules      []rule
	fallback   int // index, or -1
}

// A rule is a rule of the configuration with its patterns compiled.
type rule struct {
	config.Rule
	patterns []*regexp.Regexp
}

// newPolicy returns the policy of c for the categories. A fallback that is not one of
// them has no effect.
func newPolicy(c config.Classification, categories []config.Category) *policy {
	p := &policy{config: c, categories: categories, rules: compile(c.Rules)}
	p.fallback = slices.IndexFunc(categories, func(k config.Category) bool { return c.Fallback != "" && k.Name == c.Fallback })
	for _, k := range categories {
		p.own = append(p.own, compile(k.Rules))
	}
	return p
}

// compile skips a rule with an invalid pattern; config has rejected such rules.
func compile(rules []config.Rule) []rule {
	var compiled []rule
next:
	for _, r := range rules {
		c := rule{Rule: r}
		for _, p := range r.Patterns {
			x, err := regexp.Compile(p)
			if err != nil {
				continue next
			}
			c.patterns = append(c.patterns, x)
		}
		compiled = append(compiled, c)
	}
	return compiled
}

// decide returns the result for a text with these probabilities of the categories, of which there
// is one at least. It changes the probabilities, from which Class, Confidence and Entropy of the
// result come.
func (p *policy) decide(text string, q []float64) Outcome {
	a := Outcome{Class: slices.Index(q, slices.Max(q)), UseReasoning: p.config.UseReasoning, Probabilities: q, Entropy: entropy(q)}
	if q[a.Class] < p.config.Threshold && p.fallback >= 0 {
		fallBack(q, p.fallback)
		a.Class, a.Entropy = p.fallback, entropy(q)
	}
	category := p.categories[a.Class]
	a.Category, a.Confidence, a.Model = category.Name, q[a.Class], cmp.Or(category.Model, p.config.Model)
	if category.UseReasoning != nil {
		a.UseReasoning = *category.UseReasoning
	}
	p.apply(text, &a)
	return a
}

// margin keeps a probability the largest after rounding.
const margin = 1.01

// fallBack adds to the fallback the probability that no other category fits, and takes it
// from all in proportion. That probability is 1 minus the largest of the others, and at
// least large enough to make the fallback the largest.
func fallBack(q []float64, fallback int) {
	own := q[fallback]
	q[fallback] = 0
	best := slices.Max(q)
	q[fallback] = own
	lead := max(margin*best-own, 0)
	added := max(1-best, lead/(1+lead)) // added + (1-added)*own = (1-added)*margin*best
	for i := range q {
		q[i] *= 1 - added
	}
	q[fallback] += added
}

// apply lets matching rules set the model and the use of reasoning. The first rule that
// sets one of them wins.
func (p *policy) apply(text string, a *Outcome) {
	words := len(strings.Fields(text))
	for _, r := range slices.Backward(slices.Concat(p.own[a.Class], p.rules)) { // so that the first one has the last word
		if !r.applies(text, words, a) {
			continue
		}
		a.Model = cmp.Or(r.Model, a.Model)
		if r.UseReasoning != nil {
			a.UseReasoning = *r.UseReasoning
		}
	}
}

func (r rule) applies(text string, words int, a *Outcome) bool {
	return (len(r.Categories) == 0 || slices.Contains(r.Categories, a.Category)) &&
		(r.ConfidenceBelow == 0 || a.Confidence < r.ConfidenceBelow) &&
		words >= r.MinWords &&
		(r.MaxWords == 0 || words <= r.MaxWords) &&
		(len(r.patterns) == 0 || slices.ContainsFunc(r.patterns, func(x *regexp.Regexp) bool { return x.MatchString(text) }))
}

// entropy is Shannon's, in bits.
func entropy(p []float64) float64 {
	h := 0.0
	for _, x := range p {
		if x > 0 {
			h -= x * math.Log2(x)
		}
	}
	return max(h, 0)
}
