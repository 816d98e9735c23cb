package main

import (
	"context"
	"net/http"
	"sync"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/daemon"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/service"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/server"
)

// requests returns the handler of the requests of other processes of this user: of commands, and of the
// pages that 'metarouter dashboard' shows.
func requests(ctx context.Context, pages http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	daemon.Answer(mux, program(), admin.ForCommands(pages))
	mux.Handle("/", daemon.During(ctx, pages))
	return mux
}

// listenForCommands returns a listener for the requests of other processes of this user.
func listenForCommands(env *environment, c config.Config, pages http.Handler, log *zap.Logger) service.Listener {
	return func(ctx context.Context, _ *adapter.Parts, _ *server.Servers) error {
		if err := daemon.Serve(ctx, daemon.PlaceOf(env.files.Data, c.Files), requests(ctx, pages)); err != nil {
			log.Warn("other commands can't ask this router", zap.Error(err))
		}
		return nil
	}
}

// program identifies this build of the program.
var program = sync.OnceValue(func() string { return daemon.Program(version) })
