package admin

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/doctor"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/port"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/telemetry"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// runDoctor answers POST /dashboard/doctor. The servers have the PATH and the variables of the router, not
// of the command.
func runDoctor(q *query) (any, error) {
	ctx, r := q.Context(), q.router
	startAgain(ctx, r)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	c, snapshot := r.Config().Examine(), r.Snapshot()
	found := caseOf(c, r.Servers(), snapshot, q.exposed(snapshot), doctor.System{DataDir: q.options.DataDir})
	if _, why := q.options.Edits.Now(); why != nil {
		found.Edit = q.explain(why)
	}
	found.Assist = doctor.AskAssist(ctx, c.Router.Assist)
	found.Embeddings = doctor.AskEmbeddings(ctx, c.Router.Embeddings)
	found.Issuers = doctor.AskIssuers(ctx, c.Router.HTTP)
	found.Cluster = doctor.AskCluster(ctx, c.Router.Cluster, q.options.Version)
	found.Traces = telemetry.CheckTraces()
	if live, _, ok := r.ClusterReport(); ok && found.Cluster != nil {
		found.Cluster.AddDenied(live)
	}
	found.Port = portInUse(ctx, c, !q.alone() || q.has("standalone"))
	d := doctor.Examine(found)
	if text, err := config.LoadText(r.Configured().Files...); !q.alone() && (err != nil || text.Text.Digest() != r.Configured().Text.Digest()) {
		d.Packages = nil // they run for other entries than the files have now
	}
	return d, ctx.Err()
}

// startAgain starts the servers that do not run, including those that failed before,
// since the cause may have been fixed.
func startAgain(ctx context.Context, r *adapter.Parts) {
	var trying sync.WaitGroup
	for _, s := range r.Servers() {
		if s.State == status.Failed || s.State == status.NeedsAuth {
			trying.Go(func() { _ = r.Await(ctx, s.Name) })
		}
	}
	r.Try(ctx)
	trying.Wait()
}

// portInUse returns the address at which the configuration is to be served over HTTP, if a
// program listens there that does not serve it. It looks only if the configuration sets the
// address or a client has an entry for it. mayServe says that another router may serve it.
func portInUse(ctx context.Context, c config.Config, mayServe bool) *doctor.Port {
	address := c.Router.HTTP.Addr
	defaults, _ := config.Load() // of no files
	p := &doctor.Port{Address: address, Set: address != defaults.Router.HTTP.Addr, Clients: clientsWith(address)}
	if !p.Set && len(p.Clients) == 0 {
		return nil
	}
	holder, used := port.InUse(ctx, address)
	if !used || holder.PID == os.Getpid() {
		return nil
	}
	ours, _ := os.Executable()
	p.Router = holder.Path != "" && holder.Path == ours || strings.TrimSuffix(holder.Program, ".exe") == "metarouter"
	if p.Router && mayServe {
		return nil
	}
	p.Holder, p.Next = holder.String(), port.Next(ctx, address)
	if holder.PID != 0 {
		p.End = fmt.Sprintf("kill %d", holder.PID)
		if runtime.GOOS == "windows" {
			p.End = fmt.Sprintf("taskkill /PID %d", holder.PID)
		}
	}
	return p
}

// clientsWith returns the clients with an entry for the address in their files.
func clientsWith(address string) (titles []string) {
	place, err := clients.ThisSystem()
	if err != nil {
		return nil
	}
	for _, client := range clients.All() {
		read, err := clients.Read(clients.FirstExisting(client.Files(place)...))
		if err != nil || !read.Exists {
			continue
		}
		c, err := config.ReadText(read.Path, read.Data)
		if err == nil && slices.ContainsFunc(c.Servers, func(s config.Server) bool { return sameAddress(s.URL, address) }) {
			titles = append(titles, client.Title)
		}
	}
	return titles
}

// sameAddress reports whether a URL leads to an address of this machine.
func sameAddress(link, address string) bool {
	u, err := url.Parse(link)
	host, port, bad := net.SplitHostPort(address)
	if err != nil || bad != nil || u.Host == "" || u.Port() != port {
		return false
	}
	local := func(host string) bool {
		ip := net.ParseIP(host)
		return host == "" || host == "localhost" || ip.IsLoopback() || ip.IsUnspecified()
	}
	return u.Hostname() == host || local(u.Hostname()) && local(host)
}
