package supervisor

import (
	"context"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/reference"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/resolve"
)

// WithSecrets returns the configuration with the secrets to which tokens and issuers of "http" refer, as
// [config.Config.WithSecrets] does. It reads all of them, and runs their commands each time with a process guard.
func WithSecrets(ctx context.Context, c config.Config, guard []string, log *zap.Logger) config.Config {
	run := func(ctx context.Context, command process.Command, stderr *process.Tail, file *process.LogFile) ([]byte, string, error) {
		ending := make(chan struct{})
		starter := process.NewStarter(guard, ending, log)
		if err := starter.Open(); err != nil {
			return nil, "", err
		}
		defer starter.Close()
		defer close(ending)
		return starter.Run(ctx, command, stderr, file)
	}
	resolver := resolve.New(ownSecrets(), run)
	return c.WithSecrets(func(text string, references []reference.Reference) (string, error) {
		resolved, err := resolver.Server(nil, nil).Resolve(ctx, config.Server{URL: text, References: references})
		return resolved.URL, err
	})
}
