package adapter

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/usage"
)

// learning learns from uses of tools while the configuration asks for it.
type learning struct {
	dataDir string
	log     *zap.Logger
	store   atomic.Pointer[usage.Store] // nil while nothing is learned
}

func newLearning(c config.Config, o Options) *learning {
	l := &learning{dataDir: o.DataDir, log: o.Log}
	if c.Router.Learning {
		l.open(c)
	}
	return l
}

func (l *learning) open(c config.Config) {
	s, err := usage.Open(l.dataDir, c.Files, l.log)
	if err != nil {
		l.log.Warn("can't read what was learned from use", zap.Error(err))
	}
	l.store.Store(s)
}

// run saves learned uses, and follows the key "learning", until ctx ends.
func (l *learning) run(ctx context.Context, current *holder) error {
	return current.whileEqual(ctx, func(r config.Router) any { return r.Learning }, func(part context.Context, now *setup) error {
		switch {
		case !now.config.Router.Learning:
			l.store.Store(nil)
		case l.store.Load() == nil:
			l.open(now.config)
		}
		err := l.store.Load().Run(part)
		if err != nil && ctx.Err() == nil { // the router goes on
			l.log.Warn("can't save what was learned from use", zap.Error(err))
			return nil
		}
		return err
	})
}

// Match implements [selector.Experience].
func (l *learning) Match(words []string, now time.Time) map[string]float64 {
	return l.store.Load().Match(words, now)
}
