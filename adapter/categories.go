package adapter

import (
	"context"
	"reflect"
	"slices"
	"sync/atomic"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

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

// run runs the classifier, and makes another one when an edit changes the keys "classification" or "capabilities", until ctx
// ends.
func (s *sorting) run(ctx context.Context, current *holder) error {
	now := current.load()
	for {
		bounded, cancel := context.WithCancel(ctx)
		var running errgroup.Group
		running.Go(func() error { return s.now.Load().Run(bounded, s.onDemand) })
		old := now.config.Router
		for next := old; ctx.Err() == nil && reflect.DeepEqual(next.Classification, old.Classification) && reflect.DeepEqual(next.Capabilities, old.Capabilities); next = now.config.Router {
			select {
			case <-now.replaced:
				now = current.load()
			case <-ctx.Done():
			}
		}
		cancel()
		if err := running.Wait(); err != nil || ctx.Err() != nil {
			return err
		}
		s.adopt(now.config, catalog.NewTagger(now.config.Router.Capabilities, s.log))
	}
}
