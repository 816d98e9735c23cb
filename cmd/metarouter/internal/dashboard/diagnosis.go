package dashboard

import (
	"slices"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/doctor"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/server"
)

// CaseOf returns the case of a router for [doctor.Examine]: the configuration, the
// servers, and the tools with their names.
func CaseOf(c config.Config, servers []adapter.ServerInfo, catalog *registry.Snapshot, names *server.ToolNames, w doctor.World) doctor.Case {
	found := doctor.Case{
		Config: c, Catalog: catalog, World: w,
		Name:  func(t *registry.NormalizedTool) (string, string) { return names.Exposed(t), names.Altered(t) },
		Finds: func(name string) bool { _, ok := names.Only(name); return ok },
	}
	for _, s := range servers {
		found.Servers = append(found.Servers, s.Status)
	}
	return found
}

// doctors caches the diagnoses of servers that do not work, since looking for programs
// takes time.
type doctors struct {
	mu    sync.Mutex           // guards cache
	cache map[string]diagnosis // by server
}

// A diagnosis is the doctor's first finding on a server in a certain state.
type diagnosis struct {
	state        status.State
	since        time.Time
	error        string
	entry        config.Server
	problem, fix string
}

// diagnose returns why a server does not work and what to do about it, or "" if it works
// or is starting. For a misconfigured entry it returns no problem, since the page shows the
// problems of the configuration.
func (d *Dashboard) diagnose(s adapter.ServerInfo) (problem, fix string) {
	switch s.State {
	case status.Failed, status.NeedsAuth, status.Misconfigured, status.Self:
	default:
		return "", ""
	}
	c := d.router.Config()
	i := slices.IndexFunc(c.Servers, func(e config.Server) bool { return e.Name == s.Name })
	if i < 0 {
		return "", ""
	}
	entry := c.Servers[i]
	d.doctors.mu.Lock()
	defer d.doctors.mu.Unlock()
	was, ok := d.cache[s.Name]
	if ok && was.state == s.State && was.since.Equal(s.Since) && was.error == s.LastError && was.entry.Equal(entry) {
		return was.problem, was.fix
	}
	now := diagnosis{state: s.State, since: s.Since, error: s.LastError, entry: entry}
	c.Servers = c.Servers[i : i+1]
	snapshot := d.router.Snapshot()
	report := doctor.Examine(CaseOf(c, []adapter.ServerInfo{s}, snapshot, d.exposed(snapshot), doctor.System{}))
	if i := slices.IndexFunc(report.Findings, func(f doctor.Finding) bool { return f.Server == s.Name }); i >= 0 {
		now.problem, now.fix = plain.Text(report.Findings[i].Problem), plain.Text(report.Findings[i].Fix)
	}
	if s.State == status.Misconfigured {
		now.problem = ""
	}
	if d.cache == nil {
		d.cache = make(map[string]diagnosis)
	}
	d.cache[s.Name] = now
	return now.problem, now.fix
}

// dismiss removes the diagnoses of removed servers.
func (d *doctors) dismiss(gone func(server string) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for server := range d.cache {
		if gone(server) {
			delete(d.cache, server)
		}
	}
}
