package adapter

import (
	"context"
	"reflect"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter/internal/catalog"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/capability"
	"github.com/mcp-metarouter/metarouter/internal/classify"
	"github.com/mcp-metarouter/metarouter/internal/taglist"
)

// tagCategories returns the tags of the taxonomy and of the servers' entries as categories, for a
// configuration without categories, in alphabetical order.
func tagCategories(c config.Config, t *capability.Taxonomy) []config.Category {
	var all []config.Category
	for _, tag := range taglist.Clean(append(t.Tags(), entryTags(c)...)) {
		all = append(all, config.Category{Name: tag, Keywords: t.Words(tag)})
	}
	return all
}

// entryTags returns the tags of the servers' entries.
func entryTags(c config.Config) (tags []string) {
	for _, s := range c.Servers {
		tags = append(tags, s.Capabilities...)
	}
	return taglist.Clean(tags)
}

// basis returns the parts of a configuration on which its classifier depends.
func basis(c config.Config) []any {
	if of := c.Router.Classification; of != nil && len(of.Categories) > 0 {
		return []any{of}
	}
	return []any{c.Router.Classification, c.Router.Capabilities, entryTags(c)}
}

// sorting holds the classifier of the configuration.
type sorting struct {
	folder   string // of vectors; "" keeps none
	onDemand bool   // texts are not expected
	log      *zap.Logger

	now atomic.Pointer[classify.Classifier]
}

// adopt makes the classifier of a configuration.
func (s *sorting) adopt(c config.Config, t *catalog.Tagger) {
	s.now.Store(classify.New(c.Router.Classification, tagCategories(c, t.Taxonomy), s.folder, s.log))
}

// run trains the classifier, and makes another one when an edit changes the categories or the rules, until ctx ends.
func (s *sorting) run(ctx context.Context, current *holder) {
	now := current.load()
	for {
		if !s.onDemand {
			s.now.Load().Train(ctx)
		}
		for old := basis(now.config); reflect.DeepEqual(basis(now.config), old); {
			select {
			case <-now.replaced:
				now = current.load()
			case <-ctx.Done():
				return
			}
		}
		s.adopt(now.config, catalog.NewTagger(now.config.Router.Capabilities))
	}
}
