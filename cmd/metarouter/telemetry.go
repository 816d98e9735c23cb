package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/dashboard"
	"github.com/mcp-metarouter/metarouter/internal/telemetry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server"
)

// A watch is who is told of what a router does. It must be closed.
type watch struct {
	traces  *telemetry.Traces    // nil if there are none
	access  *telemetry.AccessLog // likewise
	metrics *telemetry.Metrics   // nil if nobody can ask for them
	board   *dashboard.Dashboard // nil if nobody can look at it
}

// openWatch returns the watch that the configuration and the environment ask for.
func openWatch(c config.Config, log *zap.Logger) (*watch, error) {
	w := &watch{}
	if c.Router.AccessLog.File != "" {
		var err error
		if w.access, err = telemetry.OpenAccessLog(c, log); err != nil {
			return nil, inConfig(c, err)
		}
	}
	w.traces = telemetry.OpenTraces(version, log)
	return w, nil
}

// show adds what people look at. scraped says that there is a door at which metrics can
// be asked for.
func (w *watch) show(c config.Config, scraped bool, log *zap.Logger) {
	w.board = dashboard.New(c, version, selector.Node(), log)
	if !scraped {
		return
	}
	w.metrics = telemetry.NewMetrics(version)
	if w.access != nil {
		w.metrics.CountDropped(w.access)
	}
}

// inConfig is wrong usage: the files ask for what can't be had.
func inConfig(c config.Config, err error) error {
	return usage(fmt.Errorf("%s: %w", strings.Join(c.Files, ", "), err))
}

// observer returns whom a router tells of calls, nil if nobody.
func (w *watch) observer() selector.Observer {
	var all selector.Observers
	if w.access != nil {
		all = append(all, w.access)
	}
	if w.metrics != nil {
		all = append(all, w.metrics)
	}
	if w.board != nil {
		all = append(all, w.board)
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return all
}

// observe has a router tell the watch.
func (w *watch) observe(o *adapter.Options) { o.Observer, o.Tracer = w.observer(), w.traces.Tracer() }

// observeFace has a router's face tell it.
func (w *watch) observeFace(o *server.Options) {
	o.Observer, o.Tracer = w.observer(), w.traces.Tracer()
	if w.metrics != nil {
		o.Savings = w.metrics
	}
}

// learn tells of an edit of the configuration, before it is in use.
func (w *watch) learn(c config.Config) {
	if w.access != nil {
		w.access.Learn(c)
	}
}

// lastTelemetry is how long what was noted may take to leave when all ends.
const lastTelemetry = 5 * time.Second

// close has all that was noted written and sent.
func (w *watch) close() {
	ctx, cancel := context.WithTimeout(context.Background(), lastTelemetry)
	defer cancel()
	if w.access != nil {
		w.access.Close(ctx)
	}
	w.traces.Close(ctx)
}

// register adds what there is to look at to the pages.
func (w *watch) register(pages *http.ServeMux, r *adapter.Router, s *server.Server, log *zap.Logger) {
	w.board.Register(pages, r, s)
	if w.metrics != nil {
		pages.Handle("GET /metrics", w.metrics.Handler(r, log))
	}
}
