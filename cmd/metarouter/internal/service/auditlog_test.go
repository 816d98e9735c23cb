package service

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// The log follows the configuration; each file says where the other one is.
func TestAuditFollowsEdits(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) config.Config {
		return config.Config{Router: config.Router{Audit: config.Audit{File: filepath.Join(dir, name), MaxSize: 1 << 20, MaxFiles: 2}}}
	}
	l := auditLog{log: zap.NewNop()}
	expect.OK(t, l.start(at("one")))
	l.Record(audit.Event{Action: audit.Control, Outcome: audit.OK, Target: "first"})
	l.edit(at("one"))
	l.edit(at("two"))
	l.Record(audit.Event{Action: audit.Control, Outcome: audit.OK, Target: "second"})
	expect.OK(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	l.edit(at("folder")) // can't be used
	l.Record(audit.Event{Action: audit.Control, Outcome: audit.OK, Target: "third"})
	off := at("two")
	off.Router.Audit.Off = true
	l.edit(off)
	l.Record(audit.Event{Action: audit.Control, Outcome: audit.OK, Target: "fourth"})
	l.edit(at("one"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l.close(ctx)
	for name, want := range map[string]string{"one": "first|audit", "two": "audit|second|third|audit"} {
		entries, err := audit.Last(t.Context(), filepath.Join(dir, name), 10)
		var got []string
		for _, e := range entries {
			got = append(got, e.Target)
		}
		if err != nil || strings.Join(got, "|") != want {
			t.Errorf("%s: %q, %v, want %s", name, got, err, want)
		}
	}
	unusable := auditLog{log: zap.NewNop(), data: filepath.Join(dir, "one")}
	if err := unusable.start(config.Config{}); err != nil || unusable.current != nil {
		t.Errorf("the default file can't be used: %v", err)
	}
	unusable.Record(audit.Event{})
}

func TestSummary(t *testing.T) {
	server := func(name, command string) config.Server { return config.Server{Name: name, Command: command} }
	before := config.Config{Servers: []config.Server{server("a", "x"), server("b", "x"), server("c", "x")}, Router: config.Router{
		Mode: "auto", Cluster: &config.Cluster{Name: "a", Share: []string{"x"}}, HTTP: config.HTTP{Addr: "127.0.0.1:1"}, Profiles: map[string]config.Profile{"old": {}, "same": {}, "work": {}},
	}}
	after := config.Config{Servers: []config.Server{server("a", "y"), server("b", "x"), server("d", "x")}, Router: config.Router{
		Mode: "direct", Cluster: &config.Cluster{URLs: []string{"y"}, Name: "a", Trusted: []string{"k"}}, HTTP: config.HTTP{Addr: "127.0.0.1:2", PublicURL: "https://a.example", Issuers: make([]config.Issuer, 1), TLSKey: "k"}, Profiles: map[string]config.Profile{"new": {}, "same": {}, "work": {ReadOnly: true}},
	}}
	after.Router.Cluster.TLS.CA = "c"
	_, got, _ := strings.Cut(summary(before, after), "; ")
	want := "servers added: d; servers removed: c; servers changed: a; profiles added: new; profiles removed: old; profiles changed: work; settings changed: mode, http, cluster"
	expect.Equal(t, got, want)
	var recorded []audit.Event
	r := &editRecord{record: func(e audit.Event) { recorded = append(recorded, e) }, last: before}
	bad := errors.New("a mistake")
	r.judged(nil)
	r.judged(bad)
	r.judged(bad)
	r.judged(nil)
	r.applied(after)
	r.judged(bad)
	if len(recorded) != 3 || recorded[0].Outcome != audit.Refused || recorded[1].Outcome != audit.OK || recorded[2].Reason != "the edit is not in use: a mistake" {
		t.Errorf("%+v", recorded)
	}
}
