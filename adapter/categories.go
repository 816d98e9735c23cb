package adapter

import (
	"context"
	"reflect"
	"slices"
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
	tags := t.Tags()
	for _, s := range c.Servers {
		tags = append(tags, taglist.Clean(s.Capabilities)...)
	}
	slices.Sort(tags)
	var all []config.Category
	for _, tag := range slices.Compact(tags) {
		all = append(all, config.Category{Name: tag, Keywords: t.Words(tag)})
	}
	return all
}

// sorting holds the classifier of the configuration.
type sorting struct {
	servers  classify.Sessions
	folder   string // of vectors; "" keeps none
	onDemand bool
	log      *zap.Logger

	now atomic.Pointer[classify.Classifier]
}

func newSorting(c config.Config, t *catalog.Tagger, servers classify.Sessions, o Options) *sorting {
	s := &sorting{servers: servers, folder: vectorFolder(o), onDemand: o.OnDemand, log: o.Log}
	s.adopt(c, t)
	return s
}

// adopt makes the classifier of a configuration.
func (s *sorting) adopt(c config.Config, t *catalog.Tagger) {
	s.now.Store(classify.New(c.Router.Classification, tagCategories(c, t.Taxonomy), s.servers, s.folder, s.log))
}

// run runs the classifier, and follows the keys "classification" and "capabilities", until
// ctx ends.
func (s *sorting) run(ctx context.Context, current *holder) error {
	type keys struct {
		classification *config.Classification
		capabilities   map[string][]string
	}
	part := func(r config.Router) any { return keys{r.Classification, r.Capabilities} }
	inUse := part(current.load().config.Router)
	return current.whileEqual(ctx, part, func(ctx context.Context, now *setup) error {
		if next := part(now.config.Router); !reflect.DeepEqual(inUse, next) {
			inUse = next
			s.adopt(now.config, catalog.NewTagger(now.config.Router.Capabilities, s.log))
		}
		return s.now.Load().Run(ctx, s.onDemand)
	})
}
