package admin

import (
	"errors"
	"sync"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/doctor"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// runDoctor answers POST /dashboard/doctor. The servers have the PATH and the variables of the router, not
// of the command.
func runDoctor(q *query) (any, error) {
	ctx, r := q.Context(), q.router
	var trying sync.WaitGroup
	for _, s := range r.Servers() { // those that failed before, too: the cause may have been fixed
		if s.State == status.Failed || s.State == status.NeedsAuth {
			trying.Go(func() { _ = r.Await(ctx, s.Name) })
		}
	}
	r.Try(ctx)
	if trying.Wait(); ctx.Err() != nil {
		return nil, ctx.Err()
	}
	c, snapshot := r.Config().Examine(), r.Snapshot()
	names := q.exposed(snapshot)
	found := doctor.Case{
		Config: c, Catalog: snapshot, World: doctor.Look(q.options.DataDir),
		Finds: func(name string) bool { _, ok := names.Only(name); return ok },
	}
	for _, s := range r.Servers() {
		found.Servers = append(found.Servers, s.Status)
	}
	if why := q.judgement(); why != nil {
		found.Edit = q.explain(why)
		if w, ok := errors.AsType[*configfile.Waiting](found.Edit); ok {
			found.Edit, found.Approve = w.Untrusted, w.Command
		}
	}
	found.Issuers = doctor.AskIssuers(ctx, c.Router.HTTP)
	found.Cluster = doctor.AskCluster(ctx, c.Router.Cluster, q.options.Version)
	if live, ok := r.ClusterReport(); ok && found.Cluster != nil {
		found.Cluster.AddDenied(live)
	}
	d := doctor.Examine(found)
	for i, f := range d.Findings {
		d.Findings[i].Details = masked(q.mask, f.Details)
	}
	if text, err := config.LoadText(r.Configured().Files...); !q.alone() && (err != nil || text.Text.Digest() != r.Configured().Text.Digest()) {
		d.Packages = nil // they run for other entries than the files have now
	}
	return d, ctx.Err()
}

// diagnose returns why a server does not work, and advice. For a misconfigured entry it returns no problem,
// since the page shows the problems of the configuration.
func (a *API) diagnose(s adapter.ServerInfo) (problem, fix string) {
	c := a.router.Config()
	entry, err := configfile.Server(c, s.Name)
	if err != nil {
		return "", ""
	}
	all := doctor.ExamineServer(doctor.Case{Config: c, Catalog: a.router.Snapshot(), World: doctor.Look("")}, entry, s.Status)
	if len(all) > 0 {
		problem, fix = plain.Text(all[0].Problem), plain.Text(all[0].Fix)
	}
	if s.State == status.Misconfigured {
		problem = ""
	}
	return problem, fix
}
