package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/daemon"
	"github.com/mcp-metarouter/metarouter/server"
)

// ask has a running router of the same files carry out the command, or every such
// router. done is false if there is none, or it is not to be asked.
func (a *app) ask(ctx context.Context, c config.Config, all bool) (done bool, err error) {
	if a.standalone || a.router != nil {
		return false, nil
	}
	command := daemon.Command{Program: program(), Args: a.args, Input: a.input}
	o, done, err := daemon.Run(ctx, daemon.PlaceOf(a.data, c.Files), command, all)
	switch {
	case ctx.Err() != nil:
		return true, errInterrupted
	case err != nil || !done:
		return done, err
	}
	a.stderr.Write(o.Stderr)
	if _, err := a.stdout.Write(o.Stdout); err != nil {
		return true, err
	}
	if o.Code != 0 {
		return true, &exitError{code: o.Code}
	}
	return true, nil
}

// carryOut has the router carry out the commands of other processes.
func (a *app) carryOut(mux *http.ServeMux, r *adapter.Router) {
	daemon.Commands(mux, program(), func(ctx context.Context, c daemon.Command) daemon.Outcome {
		var stdout, stderr bytes.Buffer
		b := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, args: c.Args, data: a.data, input: c.Input, router: r}
		code := exitCode(b.execute(ctx), &stderr)
		return daemon.Outcome{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Code: code}
	})
}

// commands is a door for the commands of other processes, and for pages that they
// pass on.
func (a *app) commands(c config.Config, pages *http.ServeMux, log *zap.Logger) door {
	return func(ctx context.Context, r *adapter.Router, _ *server.Server) error {
		mux := http.NewServeMux()
		a.carryOut(mux, r)
		mux.Handle("/", during(ctx, pages))
		if err := daemon.Serve(ctx, daemon.PlaceOf(a.data, c.Files), mux); err != nil {
			log.Warn("commands can't ask this router", zap.Error(err))
		}
		return nil
	}
}

// during has requests end with ctx.
func during(ctx context.Context, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bounded, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		h.ServeHTTP(w, r.WithContext(bounded))
	})
}

// program tells this build of the program from others. It is what the program's
// file was like at first: a newer one may come in its place.
var program = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return version
	}
	info, err := os.Stat(path)
	if err != nil {
		return version
	}
	return fmt.Sprintf("%s %s %d %d", version, path, info.Size(), info.ModTime().UnixNano())
})
