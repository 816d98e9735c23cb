package pin

import (
	"context"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
)

// maxAsked is how many package managers are asked at the same time: each is a process of
// 100 MB.
const maxAsked = 4

// FindAll returns the pins of these servers of a configuration, which is only read as text. It
// notes which packages can't be pinned. start says how npm and uv are asked for an entry. runs
// are the npm packages that are known to run, by server.
func FindAll(ctx context.Context, out *console.Console, c config.Config, servers []string, start func(config.Server) (Start, error), runs map[string]string) map[string]Pin {
	pins := make(map[string]Pin)
	failed := make(map[string]error)
	var mu sync.Mutex // guards both
	var g errgroup.Group
	g.SetLimit(maxAsked)
	for _, s := range c.Servers {
		if s.Disabled || !slices.Contains(servers, s.Name) {
			continue
		}
		g.Go(func() error {
			var p Pin
			how, err := start(s)
			if err == nil {
				p, err = Find(ctx, s, how, runs[s.Name])
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				pins[s.Name] = p
			case !errors.Is(err, ErrPinned):
				failed[s.Name] = err
			}
			return nil
		})
	}
	_ = g.Wait()
	for _, s := range c.Servers {
		if err := failed[s.Name]; err != nil {
			out.Note("not pinned: %s: %v", s.Name, err)
		}
	}
	return pins
}
