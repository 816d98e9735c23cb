package admin

import (
	"slices"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/doctor"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
)

// caseOf returns the case of a router for [doctor.Examine].
func caseOf(c config.Config, servers []status.Server, catalog *registry.Snapshot, names *exposure.ToolNames, w doctor.World) doctor.Case {
	found := doctor.Case{
		Config: c, Catalog: catalog, World: w,
		Finds: func(name string) bool { _, ok := names.Only(name); return ok },
	}
	for _, s := range servers {
		found.Servers = append(found.Servers, s.Status)
	}
	return found
}

// diagnose returns why a server does not work, and advice. For a misconfigured entry it returns no problem,
// since the page shows the problems of the configuration.
func (a *API) diagnose(s status.Server) (problem, fix string) {
	c := a.router.Config()
	i := slices.IndexFunc(c.Servers, func(e config.Server) bool { return e.Name == s.Name })
	if i < 0 {
		return "", ""
	}
	c.Servers = c.Servers[i : i+1]
	snapshot := a.router.Snapshot()
	report := doctor.Examine(caseOf(c, []status.Server{s}, snapshot, a.exposed(snapshot), doctor.Look("")))
	if i := slices.IndexFunc(report.Findings, func(f doctor.Finding) bool { return f.Server == s.Name }); i >= 0 {
		problem, fix = plain.Text(report.Findings[i].Problem), plain.Text(report.Findings[i].Fix)
	}
	if s.State == status.Misconfigured {
		problem = ""
	}
	return problem, fix
}
