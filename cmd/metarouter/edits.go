package main

import (
	"context"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/service"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/trust"
	"github.com/mcp-metarouter/metarouter/server"
)

// askAboutEdits returns a listener that asks the person at the terminal about each edit that
// waits. A yes approves the text that was shown, and no other.
func askAboutEdits(env *environment, said *admin.Edits, log *zap.Logger) service.Listener {
	return func(ctx context.Context, _ *adapter.Parts, _ *server.Servers) error {
		answered := "" // the digest of the last text that was answered for
		for {
			u, changed := said.Waiting()
			if u == nil || u.Text.Digest() == answered {
				select {
				case <-changed:
				case <-ctx.Done():
					return nil
				}
				continue
			}
			yes, err := trust.Ask(ctx, env.Console, u)
			if err != nil {
				return nil // the router ends, or the terminal has gone
			}
			switch still, _ := said.Waiting(); {
			case still == nil:
				env.Note("No answer is needed any more.")
				continue
			case still.Text.Digest() != u.Text.Digest():
				env.Note("The file has changed since it was shown, so nothing was approved.")
				continue
			case yes:
				if err := u.Text.Trust(env.files.Data); err != nil {
					log.Warn("the edit is not approved", zap.Error(err))
				}
			default:
				env.Note("The edit is not in use. To approve it later, run: %s", env.files.TrustCommand(u.Text.Files[0]))
			}
			answered = u.Text.Digest()
		}
	}
}
