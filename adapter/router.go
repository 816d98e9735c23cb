package adapter

import (
	"cmp"
	"context"
	"errors"
	"net"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/adapter/internal/catalog"
	"github.com/mcp-metarouter/metarouter/adapter/internal/scope"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/approval"
	"github.com/mcp-metarouter/metarouter/internal/encoder"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/script"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// Options are the options of a Router besides its configuration. The zero value works.
type Options struct {
	// Name is the router's name as a provider; "mcp" if empty.
	Name string

	// DataDir is where the catalog, vectors, servers' logs and eras are kept, readable by
	// its owner alone. "" keeps nothing.
	DataDir string

	// Guard is the command line of a program that calls [process.Open] first, and
	// then [process.RunGuard]. Without it, servers may outlive a program that is killed:
	// most end with their stdin, but nothing forces them. Close ends all in any case.
	// [Embed] makes the program its own guard.
	Guard []string

	// Reporter is the path of a program that calls [process.Report]; without one
	// npx stays between servers and the router.
	Reporter string

	// Legacy reports whether the router has clients now, and all of them speak revisions up to
	// 2025-11-25; nil if that is not known. A server that speaks newer ones too needs one process for them.
	Legacy func() bool

	// Bundled is the command line that runs a bundled server, with the server's name and
	// arguments behind it. See [Open].
	Bundled []string

	// Observer is notified of all calls and searches; may be nil.
	Observer selector.Observer

	// Tracer makes spans of all calls; may be nil.
	Tracer trace.Tracer

	// OnSecrets is called with the values of references such as ${keyring:NAME}, before they
	// are used; may be nil.
	OnSecrets func(values []string)

	// OnToken is called with tokens of logins before they are sent, and now and then again
	// while they are in use; may be nil.
	OnToken func(token string)

	// Audit records approvals, and logins at remote servers; nil records nothing.
	Audit AuditRecorder

	Play process.Player // plays commands in this process, for tests; may be nil

	// OnDemand starts a server at its first call only, or if Settled needs its tools.
	OnDemand bool

	// EncodeTime is how long a search may encode tools that have no vector yet; 0 means 300 ms. After that it goes by words alone.
	EncodeTime time.Duration

	// NodeKey is the file with the key of this node in a cluster, made if need be; "" is "node.nk" in the user's config folder.
	NodeKey string

	// ServeNode serves another node until ctx or conn ends; nil if the router shares no server.
	ServeNode func(ctx context.Context, view *NodeView, conn net.Conn)

	// onNode makes the node of a cluster in tests; nil is [cluster.New].
	onNode func(*Router, *services) clusterNode

	Version string      // of the router, which servers see
	Log     *zap.Logger // nil is silence
}

// A Router routes to the servers of a configuration. It has the methods of a [ProviderAdapter], of a
// [View] without any limit, also if there is a profile "default", and those of its administrators,
// for frontends such as the MCP server of package server. A program that hands out work needs only
// the first.
type Router struct {
	*View
	*accounts
	administration

	options    Options
	current    *holder
	writer     *catalog.Writer
	registry   *registry.Registry
	selector   *selector.Selector
	executor   *execute.Executor
	supervisor *supervisor.Supervisor
	sessions   sessions
	sorting    *sorting
	approvals  *approval.Desk
	scripts    *script.Engine
	members    *membership // of a cluster
	listeners  signal.Listeners[func(server string, owner session.Client, m session.Message)]
	changed    signal.Change // of the catalog or the configuration, for views
	levels     levels
	life       life
}

// New returns a router of the configuration. It knows the tools of the stored catalog.
// Servers start once Run is called.
func New(c config.Config, o Options) *Router {
	o.Log, o.Name = cmp.Or(o.Log, zap.NewNop()), cmp.Or(o.Name, "mcp")
	r := &Router{options: o, registry: registry.New(), current: newHolder(c), approvals: approval.NewDesk(o.Log, o.Audit), scripts: script.New(o.folder("scripts", "engine"))}
	t := catalog.NewTagger(c.Router.Capabilities)
	r.writer = catalog.NewWriter(o.OnDemand, t, r.registry, o.DataDir, o.Log)
	logins := login.New(login.Options{
		Store: ownLogins(), Log: o.Log, Audit: o.Audit,
		PublicURL: func() string { return r.current.load().config.Router.HTTP.PublicURL },
	})
	r.supervisor = supervisor.New(r.writer, supervisor.Options{
		DataDir: o.DataDir, Guard: o.Guard, Play: o.Play, Reporter: o.Reporter, Version: o.Version, Legacy: o.Legacy, Inside: o.listScripts, OnMessage: r.hear, OnSecrets: o.OnSecrets, OnToken: o.OnToken, Logins: logins,
	}, o.Log)
	r.accounts = &accounts{current: r.current, supervisor: r.supervisor, logins: logins, notices: loginNotices{life: signal.NewLife()}}
	r.members = newMembership(r)
	r.sessions = sessions{r}
	r.sorting = &sorting{folder: o.folder("embeddings"), onDemand: o.OnDemand, log: o.Log}
	r.sorting.adopt(c, t)
	r.executor = execute.New(execute.Options{
		Registry: r.registry, Sessions: r.sessions, Node: r.members.name, Observer: o.Observer, Tracer: o.Tracer, Log: o.Log.Named("selector"),
	})
	r.selector = selector.New(r.registry, selector.Options{
		Executor: r.executor, Vectors: encoder.OpenStore(encoder.Tool, o.folder("embeddings")), Observer: o.Observer, Log: o.Log, EncodeTime: o.EncodeTime,
		FindThreshold: func() float64 { return r.current.load().config.Router.FindThreshold },
	})
	r.View, r.administration = scoped{r, scope.Everything(whole{r.current, r.registry})}.view(), administration{r}
	r.writer.Configure(c)
	if c.Router.Cluster != nil {
		r.members.join()
	}
	return r
}

// Run keeps the servers running until ctx ends or [Router.Close] is called. It puts each configuration
// from edits, which may be nil, into use: servers with an unchanged entry go on undisturbed. Run may
// be called once, and not after [Open] or [Start], which call it.
func (r *Router) Run(ctx context.Context, edits <-chan config.Config) error {
	ctx, end, err := r.life.begin(ctx)
	if err != nil {
		return err
	}
	err = run(ctx, r, edits)
	end(err)
	return err
}

func run(ctx context.Context, r *Router, edits <-chan config.Config) error {
	defer r.accounts.notices.close()
	defer r.accounts.logins.Close()
	defer r.scripts.Close()
	configs := make(chan config.Config, 1)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.selector.Run(ctx) })
	g.Go(func() error { r.sorting.run(ctx, r.current); return nil })
	servers, stopServers := context.WithCancel(context.WithoutCancel(ctx)) // they outlive the node, which may have calls for others under way
	g.Go(func() error { return r.supervisor.Run(servers, configs) })
	g.Go(func() error {
		started := r.current.load().file.Router
		for {
			select {
			case c, open := <-edits:
				if !open {
					edits = nil // no more come
					continue
				}
				before, after := r.current.edit(c)
				logEdit(r.options.Log, started, before, after)
			case <-ctx.Done():
				return nil
			}
		}
	})
	g.Go(func() error {
		defer stopServers()
		defer r.members.leave()
		return supply(ctx, r, configs)
	})
	g.Go(func() error { notifyOfChanges(ctx, r); return nil })
	g.Go(func() error { r.accounts.endUnused(ctx, r.options.Log.Named("logins")); return nil })
	g.Go(func() error { r.writer.Saves.Run(ctx); return nil })
	defer r.writer.Saves.Rest()
	return g.Wait()
}

// supply gives the supervisor each configuration that is in use.
func supply(ctx context.Context, r *Router, configs chan<- config.Config) error {
	tags := r.current.load().config.Router.Capabilities
	for {
		now := r.current.load()
		c := now.config
		if !reflect.DeepEqual(tags, c.Router.Capabilities) {
			tags = c.Router.Capabilities
			r.writer.Retag(catalog.NewTagger(tags), c.Servers)
		}
		r.members.follow(ctx, c.Router.Cluster)
		r.writer.Configure(c)
		if r.options.OnDemand {
			c.Servers = slices.Clone(c.Servers)
			for i := range c.Servers {
				c.Servers[i].Lazy = true
			}
		}
		select {
		case configs <- c:
		case <-ctx.Done():
			return nil
		}
		select {
		case <-now.replaced:
		case <-ctx.Done():
			return nil
		}
	}
}

// Name returns Options.Name.
func (r *Router) Name() string { return r.options.Name }

// Changed returns a channel that is closed with the next change of the catalog, not a moment later as that of a
// [View]: a provider of several compares it, and must not have older tools than a caller of Settled.
func (r *Router) Changed() <-chan struct{} { return r.registry.Changed() }

// Tools returns all tools, by ID.
func (r *Router) Tools() []*registry.NormalizedTool { return r.registry.Snapshot().Tools() }

// Tool is [Tool] of the router.
func (r *Router) Tool(id string) (*registry.NormalizedTool, bool) {
	tools := r.registry.Snapshot()
	t, ok := tools.Tool(id)
	if prefix := r.current.load().config.Router.Gateway.Prefix; !ok && prefix != "" {
		if own, cut := strings.CutPrefix(id, prefix); cut {
			return tools.Tool(own)
		}
	}
	return t, ok
}

// FindByCapability returns the tools that have the tag, by ID.
func (r *Router) FindByCapability(tag string) []*registry.NormalizedTool {
	return r.registry.Snapshot().FindByCapability(tag)
}

// Health returns the health of each server that is not disabled, at once. A server that starts at its
// first call is up.
func (r *Router) Health(context.Context) Health {
	var parts []Health
	for _, s := range r.Servers() {
		h := Health{Name: s.Name, State: Up, Reason: s.LastError, Tools: s.Tools}
		switch s.State {
		case status.Ready, status.Idle:
			h.Reason = ""
		case status.Starting, status.Restarting:
			h.State = Starting
		case status.Disabled, status.Self:
			continue
		default:
			h.State = Down
		}
		parts = append(parts, h)
	}
	h := CombineHealth(r.Name(), len(r.Tools()), parts)
	if ended, err := r.life.ended(); ended {
		h.State, h.Reason = Down, cmp.Or(err, errors.New("it is closed")).Error()
	}
	return h
}

// Close ends the router with all its servers. The error is the reason if the router ended before.
func (r *Router) Close() error {
	if begun, err := r.life.close(); begun {
		return err
	}
	return r.selector.Close()
}

// folder returns a folder below DataDir; "" keeps nothing.
func (o Options) folder(names ...string) string {
	if o.DataDir == "" {
		return ""
	}
	return filepath.Join(append([]string{o.DataDir}, names...)...)
}
