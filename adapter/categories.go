package adapter

import (
	"context"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

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

// sorting holds the classifier of the configuration. An outside classifier also labels the
// tools, and classifies the tasks of searches.
type sorting struct {
	servers  classify.Sessions
	writer   *catalog.Writer
	folder   string // of vectors; "" keeps none
	onDemand bool
	log      *zap.Logger

	now     atomic.Pointer[classify.Classifier]
	hurried atomic.Int64 // until when no search waits for the outside server, in Unix nanoseconds
}

func newSorting(c config.Config, t *catalog.Tagger, servers classify.Sessions, w *catalog.Writer, o Options) *sorting {
	s := &sorting{servers: servers, writer: w, folder: vectorFolder(o), onDemand: o.OnDemand, log: o.Log}
	s.adopt(c, t)
	return s
}

// adopt makes the classifier of a configuration.
func (s *sorting) adopt(c config.Config, t *catalog.Tagger) {
	k := classify.New(c.Router.Classification, tagCategories(c, t.Taxonomy), s.servers, s.folder, s.log)
	s.now.Store(k)
	if k.HasOutside() {
		s.writer.Label(k)
	} else {
		s.writer.Label(nil)
	}
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
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return s.now.Load().Run(ctx, s.onDemand) })
		if !s.onDemand {
			g.Go(func() error { return s.writer.RunLabels(ctx) })
		}
		return g.Wait()
	})
}

const (
	// patience is how long a search waits for the outside server before the built-in
	// classifier answers.
	patience = 500 * time.Millisecond

	// hurry is how long no search waits after one has waited in vain.
	hurry = 10 * time.Second
)

// Category implements [selector.Classifier]. Only an outside classifier knows better than the
// words of the task, so there is no category without one.
func (s *sorting) Category(ctx context.Context, task string) (tag string, likely float64) {
	if k := s.now.Load(); k.HasOutside() {
		o, err := s.classify(ctx, k, catalog.Clip(task, k.Limit()))
		if tag = k.Tag(o, err); tag != "" {
			likely = o.Confidence
		}
	}
	return tag, likely
}

func (s *sorting) classify(ctx context.Context, k *classify.Classifier, task string) (classify.Outcome, error) {
	if time.Now().UnixNano() >= s.hurried.Load() {
		limited, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		o, err := k.Classify(limited, task)
		if generation, _ := k.OutsideGeneration(); generation > 0 && limited.Err() != nil && ctx.Err() == nil { // it is slow, not starting
			s.hurried.Store(time.Now().Add(hurry).UnixNano())
		}
		if err == nil {
			return o, nil
		}
	}
	return k.ClassifyBuiltin(ctx, task)
}
