package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/mcp-metarouter/metarouter/internal/vectors"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A left is models of words that have not learned from some queries.
type left struct {
	parts    []*vectors.Model          // by the fold of the queries
	families map[string]*vectors.Model // by the family of corpora, without its tools too
}

func (l *left) part(_ *corpus, fold int) *vectors.Model { return l.parts[fold] }
func (l *left) apart(c *corpus, _ int) *vectors.Model   { return l.families[c.family] }

// known returns the model of this name, and trains only if there is a vocabulary.
func (t *trainer) known(name string, s selection) (*vectors.Model, error) {
	if t.vocabulary == nil {
		if _, err := os.Stat(filepath.Join(t.models, name+".bin")); err != nil {
			return nil, fmt.Errorf("-models: %w; train the models first: write check instead of fit", err)
		}
	}
	return t.model(name, s)
}

// leaveOut trains without some of the queries at a time: parts of each corpus, and whole
// families of corpora with their tools.
func (t *trainer) leaveOut() (*left, error) {
	l := &left{families: make(map[string]*vectors.Model)}
	for fold := range t.folds {
		m, err := t.known(fmt.Sprintf("part-%d-of-%d", fold, t.folds), selection{query: func(c *corpus, i int) bool { return c.fold[i]%t.folds != fold }})
		if err != nil {
			return nil, err
		}
		l.parts = append(l.parts, m)
	}
	for _, c := range t.corpora {
		if l.families[c.family] != nil {
			continue
		}
		m, err := t.known("without-"+c.family, t.without(c.family))
		if err != nil {
			return nil, err
		}
		l.families[c.family] = m
	}
	return l, nil
}

// without selects what is not of a family of corpora.
func (t *trainer) without(family string) selection {
	theirs := make(map[string]bool)
	for _, c := range t.corpora {
		if c.family == family && (c.name != c.family || c.learned && c.name != "large") {
			for i := range c.tools {
				theirs[c.tools[i].ID] = true
			}
		}
	}
	return selection{
		query:    func(c *corpus, _ int) bool { return c.family != family },
		leaveOut: func(c *corpus, tool *registry.NormalizedTool) bool { return c.family == family && theirs[tool.ID] },
		row:      func(r *row) bool { return family != "large" || !r.ofMCP() },
	}
}
