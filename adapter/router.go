package adapter

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/adapter/internal/inprocess"
	"github.com/mcp-metarouter/metarouter/adapter/internal/offerstore"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/approval"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// Options are what a Router needs besides its configuration. The zero value works.
type Options struct {
	// Name is that of the router as a provider; "mcp" if empty.
	Name string

	// DataDir is where the catalog, servers' logs and eras are kept, readable by
	// its owner alone. "" keeps nothing.
	DataDir string

	// Guard is the command line that runs [process.RunGuard], of a program that calls
	// [process.Open] first; empty means that servers may outlive a program that is killed: their
	// stdin ends, and most end with it. Close leaves none with or without a guard.
	// [Embed] makes the program its own guard.
	Guard []string

	// GuardProcess is a process of Guard that [process.StartGuard] has started; nil for
	// none. Run uses it, so that servers start sooner.
	GuardProcess *GuardProcess

	// Reporter is the path of a program that calls [process.Report]; without one
	// npx stays between servers and the router.
	Reporter string

	// Sole says that the router has one client only, which is passed to
	// [Parts.Attach]. Servers may then ask it for anything without a session of
	// its own.
	Sole bool

	// Legacy reports whether the router has clients now, and all of them speak revisions up to
	// 2025-11-25; nil if that is not known. A server that speaks newer ones too needs one process for them.
	Legacy func() bool

	// HeadStart is how long the servers are not started yet if the tools of all of them are known:
	// so that clients are answered first, and do not compete with them for the machine.
	HeadStart time.Duration

	// Bundled is the command line that, with a server's name and arguments behind it,
	// runs one of the servers that come with metarouter. Entries whose command is
	// "metarouter" mean these; see [Open] for what becomes of them if it is empty.
	Bundled []string

	// Observer is notified of all calls and searches; may be nil.
	Observer selector.Observer

	// Tracer makes spans of all calls; nil for none.
	Tracer trace.Tracer

	// Watched says that somebody is shown how the servers start, so that the log need
	// not say so.
	Watched bool

	// OnSecrets is called with values to which references of entries such as
	// ${keyring:NAME} were resolved, before they are used; nil if no one needs to know.
	OnSecrets func(values []string)

	// OnToken is called with tokens of logins before they are sent, and now and then
	// again while they are in use; nil if no one needs to know.
	OnToken func(token string)

	// Audit records approvals, and logins at remote servers; nil records nothing.
	Audit AuditRecorder

	// OnDemand starts no server until it is called, or Settled is to find out
	// what tools it has.
	OnDemand bool

	// NodeKey is the file with the key of this node in a cluster, made if it does not exist; "" is
	// "node.nk" in the user's config folder.
	NodeKey string

	// onNode makes the node of a cluster in tests; nil is [cluster.New].
	onNode func(*Router, *othersCatalog) clusterNode

	Version string      // of the router, which servers see
	Log     *zap.Logger // nil is silence
}

// A Router routes to the servers of a configuration.
type Router struct {
	options    Options
	current    *holder
	writer     *catalogWriter
	registry   *registry.Registry
	selector   *selector.Selector
	executor   *execute.Executor
	supervisor *supervisor.Supervisor
	fleet      *fleet
	catalog    *catalog
	learning   *learning
	sorting    *sorting
	assistance *assistance
	meanings   *meanings
	approvals  *approval.Desk
	logins     *login.Logins
	notices    loginNotices // of logins
	members    *membership  // of a cluster
	changed    changeSignal // for scopes, as are levels
	levels     levels
	life       life
}

// New returns a router of the configuration. It knows the tools of the stored catalog.
// Servers start once Run is called.
func New(c config.Config, o Options) *Router {
	o.Log, o.Name = cmp.Or(o.Log, zap.NewNop()), cmp.Or(o.Name, "mcp")
	r := &Router{options: o, registry: registry.New(), current: newHolder(c), approvals: approval.NewDesk(o.Log, o.Audit)}
	t := newTagger(c.Router.Capabilities, o.Log)
	r.writer = newCatalogWriter(o.OnDemand, t, r.registry, offerstore.NewStore(o.DataDir, o.Log), o.Log)
	r.logins = login.New(login.Options{
		Store: ownLogins(), Log: o.Log, Audit: o.Audit,
		PublicURL: func() string { return r.current.load().config.Router.HTTP.PublicURL },
	})
	listener := new(listening)
	r.supervisor = supervisor.New(r.writer, supervisor.Options{
		DataDir: o.DataDir, Guard: o.Guard, GuardProcess: o.GuardProcess, Reporter: o.Reporter, Version: o.Version, Sole: o.Sole, Legacy: o.Legacy, OnMessage: listener.hear, OnSecrets: o.OnSecrets, OnToken: o.OnToken, Logins: r.logins,
	}, o.Log)
	r.members = newMembership(r, listener)
	servers := sessions{r.supervisor, r.current, r.members}
	r.sorting = newSorting(c, t, servers, r.writer, o)
	r.assistance = &assistance{current: r.current, log: o.Log}
	r.meanings = newMeanings(r.registry, o)
	r.learning = newLearning(c, o)
	r.executor = execute.New(execute.Options{
		Registry: r.registry, Sessions: servers, Node: r.members.name, Observer: o.Observer, Tracer: o.Tracer, Log: o.Log.Named("selector"),
	})
	r.selector = selector.New(r.registry, selector.Options{
		Executor: r.executor, Experience: r.learning, Classifier: r.sorting, Meanings: r.meanings, Observer: o.Observer, Log: o.Log,
		FindThreshold: func() float64 { return r.current.load().config.Router.FindThreshold },
	})
	r.fleet = &fleet{r.current, r.supervisor, r.members, servers, r.executor, r.registry, o.Sole, listener}
	r.catalog = &catalog{r.current, r.registry, r.writer, r.fleet, o.OnDemand}
	r.writer.configure(c)
	r.writer.recall(c.Servers)
	if c.Router.Cluster != nil {
		r.members.join()
	}
	return r
}

// sessions are the servers' sessions, and how to call them.
type sessions struct {
	*supervisor.Supervisor
	current *holder
	members *membership
}

// Session implements [execute.Sessions].
func (s sessions) Session(ctx context.Context, server string, from session.Client) (session.Session, error) {
	if node := s.members.with(server); node != nil {
		return node.Session(ctx, server, from)
	}
	if replica := s.members.replica(server); replica != "" {
		return s.Session(ctx, replica, from)
	}
	return s.Supervisor.Session(ctx, server, from)
}

// State implements [execute.Sessions].
func (s sessions) State(server string) status.State {
	if node := s.members.with(server); node != nil {
		return node.State(server)
	}
	if replica := s.members.replica(server); replica != "" {
		return s.State(replica)
	}
	return s.Supervisor.State(server)
}

// Policy implements [execute.Sessions].
func (s sessions) Policy(server string) execute.Policy {
	setup := s.current.load()
	if p, ok := setup.policies[server]; ok {
		p.Service = s.members.services.grouping().services[server]
		return p
	}
	if p, ok := s.members.policy(server, setup.config.Router.MaxResultTokens); ok {
		return p
	}
	if node := s.members.node(); node != nil {
		if terms, ok := node.Terms(server); ok {
			return policyOf(terms, s.members.name(), setup.config.Router.MaxResultTokens)
		}
	}
	return execute.Policy{Timeout: 5 * time.Minute}
}

// Run keeps the servers running until ctx ends or [Router.Close] is called. It puts each
// configuration that comes from edits into use: a server whose entry is as before goes on
// undisturbed. edits may be nil. When Run returns, nothing that it started is left. It may
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
	defer r.assistance.close()
	defer r.notices.close()
	defer r.logins.Close()
	configs := make(chan config.Config, 1)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.selector.Run(ctx) })
	g.Go(func() error { return r.learning.run(ctx, r.current) })
	g.Go(func() error { return r.sorting.run(ctx, r.current) })
	g.Go(func() error { return r.meanings.run(ctx, r.current) })
	servers, stopServers := context.WithCancel(context.WithoutCancel(ctx)) // they outlive the node, which may have calls for others under way
	g.Go(func() error { return r.supervisor.Run(servers, configs) })
	if !r.options.OnDemand && !r.options.Watched {
		g.Go(func() error { logStarts(ctx, r.supervisor, r.options.Log); return nil })
	}
	g.Go(func() error {
		started := r.current.load().file.Router
		for {
			select {
			case c := <-edits:
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
	g.Go(func() error { r.changed.run(ctx, r); return nil })
	g.Go(func() error { r.writer.prune(); return nil })
	g.Go(func() error { r.writer.runSaves(ctx); return nil })
	defer r.writer.saveRest()
	return g.Wait()
}

// supply gives the supervisor each configuration that is in use.
func supply(ctx context.Context, r *Router, configs chan<- config.Config) error {
	r.members.follow(ctx, r.current.load().config.Router.Cluster)
	if r.catalog.Complete() {
		select {
		case <-time.After(r.options.HeadStart):
		case <-ctx.Done():
		}
	}
	tags := r.current.load().config.Router.Capabilities
	for {
		now := r.current.load()
		c := now.config
		if !reflect.DeepEqual(tags, c.Router.Capabilities) {
			tags = c.Router.Capabilities
			r.writer.setTagger(newTagger(tags, r.options.Log), c.Servers)
		}
		r.members.follow(ctx, c.Router.Cluster)
		r.writer.configure(c)
		r.writer.recall(c.Servers)
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

// Changed returns a channel that is closed at the next change of the tools, or of anything
// else that the servers offer.
func (r *Router) Changed() <-chan struct{} { return r.registry.Changed() }

// Tools returns all tools, by ID.
func (r *Router) Tools() []*NormalizedTool { return r.registry.Snapshot().Tools() }

// FindByCapability returns the tools that have the tag, by ID.
func (r *Router) FindByCapability(tag string) []*NormalizedTool {
	return r.registry.Snapshot().FindByCapability(tag)
}

// Find ranks the tools that suit a query.
func (r *Router) Find(ctx context.Context, q Query) (Ranking, error) { return r.selector.Find(ctx, q) }

// Select picks the tool for a query.
func (r *Router) Select(ctx context.Context, q Query) (Selection, error) {
	return r.selector.Select(ctx, q)
}

// Explain returns what the scores of tools that were found for a task are made of.
func (r *Router) Explain(ctx context.Context, task string, candidates []Candidate) ([]Explanation, error) {
	return r.selector.Explain(ctx, task, candidates)
}

// Execute runs a tool; see [execute.Executor.Execute].
func (r *Router) Execute(ctx context.Context, c Call) (Result, error) {
	if c.Tool == nil {
		return Result{}, inprocess.NoTool(r.options.Name, "")
	}
	return r.executor.Execute(ctx, c)
}

// Learn notes that a client called a tool after it had searched for a task, so that the tool
// ranks higher for such tasks. It fills in the words of u. The influence of one client is
// limited.
func (r *Router) Learn(ctx context.Context, u selector.Use) {
	if store := r.learning.store.Load(); store != nil {
		if u, ok := r.selector.Credit(ctx, u); ok {
			store.Record(u)
		}
	}
}

// Match returns what was learned from use, as evidence for a task of these words. It makes
// a Router a [selector.Experience].
func (r *Router) Match(words []string, now time.Time) map[string]float64 {
	return r.learning.Match(words, now)
}

// Settled returns when the tools of each server are known or the server has failed, or
// when ctx ends. In a cluster it waits a few seconds for the servers of other nodes, too; the
// error says why some may be missing.
func (r *Router) Settled(ctx context.Context) error { return r.catalog.Settled(ctx) }

// Health returns how each server is. Disabled servers are left out; a server that starts
// at its first call is up. Health waits for nothing, since servers are watched all the
// time.
func (r *Router) Health(context.Context) Health {
	var parts []Health
	for _, s := range r.fleet.Servers() {
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
		h.State, h.Reason = Down, "it is closed"
		if err != nil {
			h.Reason = err.Error()
		}
	}
	return h
}

// Close ends the router with all its servers, and returns when nothing of it is left. Its
// error is the one by which the router ended before, if it did.
func (r *Router) Close() error {
	if begun, err := r.life.close(); begun {
		return err
	}
	r.assistance.close()
	return r.selector.Close()
}
