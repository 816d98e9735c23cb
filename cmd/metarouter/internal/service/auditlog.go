package service

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/prose"
)

type auditLog struct {
	data string
	mask func(string) string
	log  *zap.Logger

	last config.Config // the configuration of the current log; belongs to the goroutine that edits

	mu      sync.RWMutex // guards current
	current *audit.Log   // nil without a log
}

// start opens the log that the configuration asks for. Only a file that it names must be usable: a
// router that keeps the log by default starts without it, and says so.
func (l *auditLog) start(c config.Config) (err error) {
	l.last = c
	if l.current, err = l.open(configfile.AuditOptions(c, l.data)); err == nil {
		return nil
	}
	if c.Router.Audit.File != "" {
		return fmt.Errorf("metarouter.audit: %w", err)
	}
	l.log.Error(`there is no audit log, since its file can't be used; name another one as "audit" in "metarouter", or write false`, zap.Error(err))
	return nil
}

// open opens a log; nil if the configuration asks for no log.
func (l *auditLog) open(o audit.Options) (*audit.Log, error) {
	if o.File == "" {
		return nil, nil
	}
	o.Mask, o.Log = l.mask, l.log
	return audit.Open(o)
}

// Record records an event, if there is a log.
func (l *auditLog) Record(e audit.Event) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.current != nil {
		l.current.Record(e)
	}
}

// edit goes on with the log of an edited configuration. If that can't be opened, the current log
// stays in use. Both logs say where the other one is.
func (l *auditLog) edit(c config.Config) {
	if c.Router.Audit == l.last.Router.Audit {
		return
	}
	o, was := configfile.AuditOptions(c, l.data), configfile.AuditOptions(l.last, l.data).File
	next, err := l.open(o)
	if err != nil {
		l.log.Error(`the edit of "audit" can't be used; the audit log stays as it was`, zap.Error(err))
		return
	}
	l.last = c
	l.mu.Lock()
	before := l.current
	l.current = next
	l.mu.Unlock()
	moved := func(reason string) audit.Event {
		return audit.Event{Action: audit.Edit, Outcome: audit.OK, From: "file", Target: "audit", Reason: reason}
	}
	if next != nil && before != nil && was != o.File {
		next.Record(moved("the audit log was in " + was + " until now"))
	}
	switch {
	case before == nil:
		return
	case next == nil:
		before.Record(moved("the audit log ends here: the configuration turned it off"))
	case was != o.File:
		before.Record(moved("the audit log continues in " + o.File))
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastTelemetry)
	defer cancel()
	before.Close(ctx)
}

func (l *auditLog) close(ctx context.Context) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.current != nil {
		l.current.Close(ctx)
	}
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
	parts := append([]string{"hash " + after.Text.Digest()}, admin.Edited(before, after)...)
	if names := settingsThatDiffer(before.Router, after.Router); len(names) > 0 {
		parts = append(parts, "settings changed: "+prose.List(names, 10))
	}
	return strings.Join(parts, "; ")
}

// settingsThatDiffer returns the names of the keys of "metarouter" that differ, besides profiles.
func settingsThatDiffer(a, b config.Router) (names []string) {
	before, after := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range before.NumField() {
		f := before.Type().Field(i)
		if !f.IsExported() || f.Name == "Profiles" || reflect.DeepEqual(before.Field(i).Interface(), after.Field(i).Interface()) {
			continue
		}
		names = append(names, cmp.Or(f.Tag.Get("key"), strings.ToLower(f.Name)))
	}
	return names
}
