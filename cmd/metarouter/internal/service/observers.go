package service

import (
	"context"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/telemetry"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server"
)

// Observers receive the events of a router. They must be closed.
type Observers struct {
	traces  *telemetry.Traces // nil if no traces are sent
	access  *telemetry.AccessLog
	metrics *telemetry.Metrics // nil before addPages
	api     *admin.API         // nil before addPages
	audit   *audit.Log         // nil without a log
	mask    telemetry.Mask
}

// OpenObservers returns the observers that the configuration and the environment ask for. data is
// the data folder of the default audit log, "" for none. The error is about the configuration.
func OpenObservers(c config.Config, version, data string, log *zap.Logger) (*Observers, error) {
	o := new(Observers)
	o.mask.Learn(c)
	var err error
	if o.audit, err = openAudit(c, data, o.mask.Text, log); err != nil {
		return nil, err
	}
	if o.access, err = telemetry.OpenAccessLog(c, &o.mask, log); err != nil {
		o.audit.Close(context.Background())
		return nil, err
	}
	o.traces = telemetry.OpenTraces(version, log)
	return o, nil
}

func (o *Observers) addPages(c config.Config, a admin.Options) {
	a.Mask = &o.mask
	o.api = admin.New(c, a)
	o.metrics = telemetry.NewMetrics(a.Version)
	o.metrics.CountDropped(o.access)
}

func (o *Observers) callObserver() selector.Observer {
	all := callObservers{o.access}
	if o.metrics != nil {
		all = append(all, o.metrics)
	}
	if o.api != nil {
		all = append(all, o.api)
	}
	return all
}

// ObserveRouter sets the observers in the options of a router.
func (o *Observers) ObserveRouter(options *adapter.Options) {
	options.Observer, options.Tracer = o.callObserver(), o.traces.Tracer()
	options.OnSecrets, options.OnToken = o.mask.Add, o.mask.AddToken
	options.Audit = o.audit.Record
}

func (o *Observers) observeServer(options *server.Options) {
	options.Observer, options.Tracer = o.callObserver(), o.traces.Tracer()
	options.Savings = o.metrics
}

// edited follows an edit of the configuration that is in use now.
func (o *Observers) edited(c config.Config) {
	o.access.Edit(c)
	o.api.Loaded(c)
}

// lastTelemetry is how long the last log lines and spans may take to be written.
const lastTelemetry = 5 * time.Second

// Close writes the last log lines and sends the last spans.
func (o *Observers) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), lastTelemetry)
	defer cancel()
	o.access.Close(ctx)
	o.audit.Close(ctx)
	o.traces.Close(ctx)
}

// register adds the routes of the admin API and, if the router serves over HTTP, of the metrics.
func (o *Observers) register(pages *http.ServeMux, r *adapter.Router, s *server.Servers, overHTTP bool, log *zap.Logger) {
	o.api.Register(pages, r, s)
	if overHTTP {
		pages.Handle("GET /metrics", o.metrics.Handler(r, log))
	}
}

// callObservers are several observers of calls as one.
type callObservers []selector.Observer

// Executed implements [selector.Observer].
func (all callObservers) Executed(e selector.Execution) {
	for _, o := range all {
		o.Executed(e)
	}
}

// Searched implements [selector.Observer].
func (all callObservers) Searched(s selector.Search) {
	for _, o := range all {
		o.Searched(s)
	}
}
