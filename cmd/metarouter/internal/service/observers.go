package service

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/telemetry"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/selector"
)

// observers receive the events of a router. They must be closed.
type observers struct {
	traces  *telemetry.Traces // nil if no traces are sent
	access  *telemetry.AccessLog
	metrics *telemetry.Metrics // nil before addPages
	api     *admin.API         // nil before addPages
	audit   *audit.Log         // nil without a log, and for a command
	mask    telemetry.Mask
}

// openObservers returns the observers that the configuration and the environment ask for, without an audit log. The error is
// about the configuration.
func openObservers(c config.Config, version string, log *zap.Logger) (o *observers, err error) {
	o = new(observers)
	o.mask.Learn(c)
	if o.access, err = telemetry.OpenAccessLog(c, &o.mask, log); err != nil {
		return nil, err
	}
	o.traces = telemetry.OpenTraces(version, log)
	return o, nil
}

func (o *observers) addPages(c config.Config, a admin.Options) {
	a.Mask = &o.mask
	o.api = admin.New(c, a)
	o.metrics = telemetry.NewMetrics(a.Version)
	o.metrics.CountDropped(o.access)
}

// observeRouter sets the observers in the options of a router.
func (o *observers) observeRouter(options *adapter.Options) {
	options.Observer, options.Tracer = o, o.traces.Tracer()
	options.OnSecrets, options.OnToken = o.mask.Add, o.mask.AddToken
}

// lastTelemetry is how long the last log lines and spans may take to be written.
const lastTelemetry = 5 * time.Second

// close writes the last log lines and sends the last spans.
func (o *observers) close() {
	ctx, cancel := context.WithTimeout(context.Background(), lastTelemetry)
	defer cancel()
	o.access.Close(ctx)
	o.audit.Close(ctx)
	o.traces.Close(ctx)
}

// Executed implements [selector.Observer].
func (o *observers) Executed(e selector.Execution) {
	o.access.Executed(e)
	if o.metrics != nil {
		o.metrics.Executed(e)
		o.api.Executed(e)
	}
}

// Searched implements [selector.Observer].
func (o *observers) Searched(s selector.Search) {
	if o.metrics != nil {
		o.metrics.Searched(s)
	}
}

// openAudit opens the log that the configuration asks for; nil without one. Only a file that it names must be usable: a
// router that keeps the log by default starts without it, and says so.
func openAudit(c config.Config, data string, mask func(string) string, log *zap.Logger) (*audit.Log, error) {
	o := configfile.AuditOptions(c, data)
	if o.File == "" {
		return nil, nil
	}
	o.Mask, o.Log = mask, log
	l, err := audit.Open(o)
	if err != nil && c.Router.Audit.File != "" {
		return nil, fmt.Errorf("metarouter.audit: %w", err)
	}
	if err != nil {
		log.Error(`there is no audit log, since its file can't be used; name another one as "audit" in "metarouter", or write false`, zap.Error(err))
	}
	return l, nil
}

// An editRecord records which edits of the configuration are in use, and which are not. It belongs to the
// goroutine of the pipeline.
type editRecord struct {
	record audit.Recorder
	last   config.Config
	why    string // the last edit is not in use
}

// applied records that the router uses an edited configuration.
func (r *editRecord) applied(c config.Config) {
	r.record.Record(audit.Event{Action: audit.Edit, Outcome: audit.OK, From: "file", Target: filesOf(c), Reason: summary(r.last, c)})
	r.last = c
}

// judged records why the files' present text is not in use; nil if it is.
func (r *editRecord) judged(err error) {
	why := ""
	if err != nil {
		why = err.Error()
	}
	if why != "" && why != r.why {
		r.record.Record(audit.Event{Action: audit.Edit, Outcome: audit.Refused, From: "file", Target: filesOf(r.last), Reason: "the edit is not in use: " + why})
	}
	r.why = why
}

// started records that the router has started, and returns the function that records its end.
func (r *editRecord) started(version string) (ended func()) {
	r.record.Record(audit.Event{Action: audit.Router, Outcome: audit.OK, Target: filesOf(r.last), Reason: fmt.Sprintf("metarouter %s started; hash %s", version, r.last.Text.Digest())})
	began := time.Now()
	return func() {
		r.record.Record(audit.Event{Action: audit.Router, Outcome: audit.OK, Reason: fmt.Sprintf("ended after %v", time.Since(began).Round(time.Second))})
	}
}

func filesOf(c config.Config) string { return strings.Join(c.Files, ", ") }

// summary says in a few words how two configurations differ, by names alone, and identifies the
// text of the second one by its hash.
func summary(before, after config.Config) string {
	var settings []string
	was, is := reflect.ValueOf(before.Router), reflect.ValueOf(after.Router)
	for i := range was.NumField() {
		f := was.Type().Field(i)
		if f.IsExported() && f.Name != "Profiles" && !reflect.DeepEqual(was.Field(i).Interface(), is.Field(i).Interface()) {
			settings = append(settings, cmp.Or(f.Tag.Get("key"), strings.ToLower(f.Name)))
		}
	}
	return prose.Clauses("hash "+after.Text.Digest(), changes("servers", byName(before), byName(after)),
		changes("profiles", before.Router.Profiles, after.Router.Profiles), listed("settings changed", settings))
}

// listed returns names after their heading; "" without names.
func listed(heading string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return heading + ": " + prose.List(names, 10)
}

func byName(c config.Config) map[string]config.Server {
	all := make(map[string]config.Server)
	for _, s := range c.Servers {
		all[s.Name] = s
	}
	return all
}

// changes names the things that only one of two maps has, and those that differ.
func changes[T any](things string, before, after map[string]T) string {
	var added, removed, changed []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if is, ok := after[name]; !ok {
			removed = append(removed, name)
		} else if !reflect.DeepEqual(before[name], is) {
			changed = append(changed, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, ok := before[name]; !ok {
			added = append(added, name)
		}
	}
	return prose.Clauses(listed(things+" added", added), listed(things+" removed", removed), listed(things+" changed", changed))
}
