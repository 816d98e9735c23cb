package dashboard

import (
	"slices"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/doctor"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/server"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// CaseOf returns what [doctor.Examine] judges a router by: the configuration, its
// servers, what is known of their tools, and how these are named.
func CaseOf(c config.Config, servers []adapter.ServerInfo, catalog *registry.Snapshot, names *server.ToolNames, w doctor.World) doctor.Case {
	found := doctor.Case{
		Config: c, Catalog: catalog, World: w,
		Name:  func(t *registry.NormalizedTool) (string, string) { return names.Exposed(t), names.Altered(t) },
		Finds: func(name string) bool { _, err := names.Resolve(name); return err == nil },
	}
	for _, s := range servers {
		found.Servers = append(found.Servers, s.Status)
	}
	return found
}

// doctors keep what was said of servers that do not work: to look for programs takes
// time.
type doctors struct {
	mu   sync.Mutex           // guards what follows
	said map[string]diagnosis // by server
}

// A diagnosis is what was said of a server as it was.
type diagnosis struct {
	state        supervisor.State
	since        time.Time
	error        string
	entry        config.Server
	problem, fix string
}

// diagnose returns why a server does not work, and what to do about it; nothing if it
// works, or is on the way. What is wrong with an entry its own problems say.
func (d *Dashboard) diagnose(s adapter.ServerInfo) (problem, fix string) {
	switch s.State {
	case supervisor.Failed, supervisor.NeedsAuth, supervisor.Misconfigured, supervisor.Self:
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
	was, ok := d.said[s.Name]
	if ok && was.state == s.State && was.since.Equal(s.Since) && was.error == s.LastError && was.entry.Equal(entry) {
		return was.problem, was.fix
	}
	now := diagnosis{state: s.State, since: s.Since, error: s.LastError, entry: entry}
	c.Servers = c.Servers[i : i+1]
	snapshot := d.router.Snapshot()
	report := doctor.Examine(CaseOf(c, []adapter.ServerInfo{s}, snapshot, d.exposed(snapshot), doctor.System{}))
	if i := slices.IndexFunc(report.Findings, func(f doctor.Finding) bool { return f.Server == s.Name }); i >= 0 {
		now.problem, now.fix = plain(report.Findings[i].Problem), plain(report.Findings[i].Fix)
	}
	if s.State == supervisor.Misconfigured {
		now.problem = ""
	}
	if d.said == nil {
		d.said = make(map[string]diagnosis)
	}
	d.said[s.Name] = now
	return now.problem, now.fix
}

// dismiss forgets what was said of servers that are no more.
func (d *doctors) dismiss(gone func(server string) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for server := range d.said {
		if gone(server) {
			delete(d.said, server)
		}
	}
}
