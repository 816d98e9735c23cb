package service

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A default file that can't be used does not stop the router, a named one does.
func TestOpenAudit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	expect.OK(t, os.WriteFile(file, nil, 0o600))
	l, err := openAudit(config.Config{}, file, nil, zap.NewNop())
	expect.OK(t, err)
	l.Record(audit.Event{})
	expect.OK(t, l.Close(t.Context()))
	_, err = openAudit(config.Config{Router: config.Router{Audit: config.Audit{File: filepath.Join(file, "below")}}}, "", nil, zap.NewNop())
	expect.Error(t, err, "metarouter.audit: ")
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
	after.Router.Audit.Off = true
	_, got, _ := strings.Cut(summary(before, after), "; ")
	want := "servers added: d; servers removed: c; servers changed: a; profiles added: new; profiles removed: old; profiles changed: work; settings changed: mode, audit, http, cluster"
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
