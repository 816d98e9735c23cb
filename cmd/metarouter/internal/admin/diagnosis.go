package admin

import (
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/doctor"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
)

// caseOf returns the case of a router for [doctor.Examine].
func caseOf(c config.Config, servers []adapter.ServerInfo, catalog *registry.Snapshot, names *exposure.ToolNames, w doctor.World) doctor.Case {
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

// A diagnosis is the doctor's first finding on a server in a certain state. It is kept, since a search for
// programs takes time.
type diagnosis struct {
	state        status.State
	since        time.Time
	error        string
	entry        config.Server
	problem, fix string
}

// diagnose returns why a server does not work, and advice. For a misconfigured entry it returns no problem,
// since the page shows the problems of the configuration.
func (a *API) diagnose(s adapter.ServerInfo) (problem, fix string) {
	c := a.router.Config()
	i := slices.IndexFunc(c.Servers, func(e config.Server) bool { return e.Name == s.Name })
	if i < 0 {
		return "", ""
	}
	entry := c.Servers[i]
	kept, _ := a.diagnoses.Load(s.Name)
	if was, ok := kept.(diagnosis); ok && was.state == s.State && was.since.Equal(s.Since) && was.error == s.LastError && reflect.DeepEqual(was.entry, entry) {
		return was.problem, was.fix
	}
	now := diagnosis{state: s.State, since: s.Since, error: s.LastError, entry: entry}
	c.Servers = c.Servers[i : i+1]
	snapshot := a.router.Snapshot()
	report := doctor.Examine(caseOf(c, []adapter.ServerInfo{s}, snapshot, a.exposed(snapshot), doctor.System{}))
	if i := slices.IndexFunc(report.Findings, func(f doctor.Finding) bool { return f.Server == s.Name }); i >= 0 {
		now.problem, now.fix = plain.Text(report.Findings[i].Problem), plain.Text(report.Findings[i].Fix)
	}
	if s.State == status.Misconfigured {
		now.problem = ""
	}
	a.diagnoses.Store(s.Name, now)
	return now.problem, now.fix
}

// forget removes the kept values of servers.
func forget(kept *sync.Map, these func(server string) bool) {
	kept.Range(func(server, _ any) bool {
		if these(server.(string)) {
			kept.Delete(server)
		}
		return true
	})
}
