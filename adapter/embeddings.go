package adapter

import (
	"context"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/embeddings"
	"github.com/mcp-metarouter/metarouter/internal/encoder"
	"github.com/mcp-metarouter/metarouter/internal/endpoint"
	"github.com/mcp-metarouter/metarouter/registry"
)

// meanings has the vectors of the tools by the program's own model or the one of "embeddings". It
// implements [selector.Meanings].
type meanings struct {
	registry *registry.Registry
	folder   string // of vectors; "" keeps none
	log      *zap.Logger
	now      atomic.Pointer[embeddings.Set] // of the model in use

	begun, settled context.Context // end at the first search, and when no search waits for vectors any more
	begin, settle  context.CancelFunc
}

func newMeanings(r *registry.Registry, o Options) *meanings {
	m := &meanings{registry: r, folder: vectorFolder(o), log: o.Log}
	m.begun, m.begin = context.WithCancel(context.Background())
	m.settled, m.settle = context.WithCancel(context.Background())
	return m
}

// vectorFolder is where vectors are kept; "" keeps nothing.
func vectorFolder(o Options) string {
	if o.DataDir == "" {
		return ""
	}
	return filepath.Join(o.DataDir, "embeddings")
}

// Task implements [selector.Meanings].
func (m *meanings) Task(ctx context.Context, texts []string) ([]encoder.Vector, *embeddings.Set) {
	m.begin()
	if m.settled.Err() == nil {
		select {
		case <-m.settled.Done():
		case <-time.After(firstWait):
			m.settle()
		case <-ctx.Done():
		}
	}
	set := m.now.Load()
	if set == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, embeddings.TaskTime)
	defer cancel()
	v, err := set.Model.Task(ctx, texts)
	if err != nil {
		m.log.Debug("the model has no vectors for a task in time; the search goes on without it", zap.Error(err))
		return nil, nil
	}
	return v, set
}

// run makes vectors by the model of the configuration in use, until ctx ends.
func (m *meanings) run(ctx context.Context, current *holder) error {
	return current.whileEqual(ctx, func(r config.Router) any { return r.Embeddings }, func(ctx context.Context, s *setup) error {
		defer m.now.Store(nil)
		e := s.config.Router.Embeddings
		if e == nil {
			select {
			case <-m.begun.Done(): // a router that finds nothing needs no vectors
				m.follow(ctx, embeddings.Builtin(), nil)
			case <-ctx.Done():
			}
			return nil
		}
		client, err := endpoint.New(e.URL, e.Model, e.Headers)
		if err != nil {
			m.log.Warn("the model of \"embeddings\" can't be asked", zap.Error(err))
			m.settle()
			<-ctx.Done()
			return nil
		}
		defer client.Close()
		m.follow(ctx, client, client.Late)
		return nil
	})
}

const (
	firstWait  = 500 * time.Millisecond // of the first search, for the vectors of the tools
	gatherTime = time.Second            // after a change of the tools
	retryTime  = 30 * time.Second       // after a failure
)

// follow makes the vectors of the tools, again after each change, until ctx ends.
func (m *meanings) follow(ctx context.Context, model embeddings.Model, late <-chan struct{}) {
	store := embeddings.Open(model, m.folder)
	var made []embeddings.Tool
	for wait := time.Duration(0); ; {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		wait = gatherTime
		changed := m.registry.Changed()
		if tools := embeddings.Tools(m.registry.Snapshot().Tools()); made == nil || !slices.Equal(tools, made) {
			set, err := store.Build(ctx, tools)
			if err != nil && ctx.Err() == nil {
				m.log.Warn("not all vectors of tools are made and saved; until they are made, tools are found by words alone", zap.Error(err))
			}
			if set == nil {
				m.settle()
				wait = retryTime
				continue
			}
			m.now.Store(set)
			if len(tools) > 0 {
				m.settle()
			}
			made = tools
		}
		select {
		case <-changed:
		case <-late:
			_ = store.Wake(ctx) // the next search says whether it works
		case <-ctx.Done():
		}
	}
}
