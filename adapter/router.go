package adapter

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/classify"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/discovery"
	"github.com/mcp-metarouter/metarouter/internal/usage"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/session"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// Options are what a Router needs beside its configuration. The zero value
// works.
type Options struct {
	// Name is that of the router as a provider; "mcp" if empty.
	Name string

	// DataDir is where the catalog, servers' logs and eras are kept, readable by
	// its owner alone. "" keeps nothing.
	DataDir string

	// Guard is the command line that runs [supervisor.Guard]; empty means that
	// servers may outlive a program that is killed: their stdin ends, and most end
	// with it, but nothing makes them. Close leaves none with or without a guard.
	// [Embed] makes the program its own guard.
	Guard []string

	// Reporter is the path of a program that calls [supervisor.Report]; without one
	// npx stays between servers and the router.
	Reporter string

	// Sole says that the router has one client only, which is told to
	// [Router.Attach]. Servers may then ask it for anything without a session of
	// its own.
	Sole bool

	// HeadStart is how long the servers are not started yet if the tools of all of
	// them are known: so that clients are answered first, and do not compete with
	// them for the machine.
	HeadStart time.Duration

	// Bundled is the command line that, with a server's name and arguments behind it,
	// runs one of the servers that come with metarouter. Entries whose command is
	// "metarouter" mean these; see [Open] for what becomes of them if it is empty.
	Bundled []string

	// Observer is told of all calls and searches; nil if nobody is.
	Observer selector.Observer

	// Tracer makes spans of all calls; nil for none.
	Tracer trace.Tracer

	// Watched says that somebody is shown how the servers start, so that the log need
	// not say so.
	Watched bool

	// OnDemand starts no server until it is called, or Settled is to find out
	// what tools it has.
	OnDemand bool

	Version string      // of the router, as told to servers
	Log     *zap.Logger // nil is silence
}

// A Router routes to the servers of a configuration.
type Router struct {
	options    Options
	log        *zap.Logger
	file       atomic.Pointer[config.Config] // the configuration as it was read
	config     atomic.Pointer[config.Config] // as it is in use
	switches   switchboard
	policies   atomic.Pointer[map[string]selector.Policy] // by server
	catalog    *catalog
	registry   *registry.Registry
	selector   *selector.Selector
	supervisor *supervisor.Supervisor
	usage      *usage.Store // nil if nothing is to be learned
	classifier *classify.Classifier
	listener   atomic.Pointer[listener]
	life       life
}

// A listener is told what servers say that belongs to no request.
type listener func(server string, owner session.Client, m session.Message)

// New returns a router of the configuration, which knows what the stored catalog
// says. Servers start once Run is called.
func New(c config.Config, o Options) *Router {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Name == "" {
		o.Name = "mcp"
	}
	r := &Router{options: o, log: o.Log, registry: registry.New(o.Log), switches: switchboard{turned: make(chan struct{}, 1)}}
	taxonomy := discovery.NewTaxonomy(c.Router.Capabilities)
	d := discovery.New(taxonomy, o.Log)
	r.catalog = newCatalog(o.OnDemand, c.Router.Capabilities, d, r.registry, registry.NewStore(o.DataDir, o.Log), o.Log)
	r.supervisor = supervisor.New(r.catalog, supervisor.Options{
		DataDir: o.DataDir, Guard: o.Guard, Reporter: o.Reporter, Version: o.Version, Sole: o.Sole, Hear: r.hear,
	}, o.Log)
	r.selector = selector.New(r.registry, r, selector.Node(), o.Log)
	if o.Observer != nil {
		r.selector.Observe(o.Observer)
	}
	if o.Tracer != nil {
		r.selector.Trace(o.Tracer)
	}
	r.classifier = classify.New(c.Router.Classification, tagCategories(c, taxonomy), r, o.Log)
	if r.classifier.HasOutside() {
		r.catalog.labels = newLabels(r.classifier)
		r.selector.Consult(&sorter{Classifier: r.classifier})
	}
	if c.Router.Learning {
		var err error
		if r.usage, err = OpenUsage(c, o.DataDir, o.Log); err != nil {
			o.Log.Warn("can't read what was learned from use", zap.Error(err))
		}
		r.selector.Trust(r.usage)
	}
	r.adopt(c)
	return r
}

// OpenUsage returns what was learned from use under the configuration.
func OpenUsage(c config.Config, dataDir string, log *zap.Logger) (*usage.Store, error) {
	return usage.Open(dataDir, strings.Join(c.Files, "\n"), log)
}

// Run keeps the servers running until ctx ends or [Router.Close] is called, and makes
// them follow the configurations that come in; edits may be nil. When it returns,
// nothing that it started is left. It may be called once, and not after [Open] or
// [Start], which call it.
func (r *Router) Run(ctx context.Context, edits <-chan config.Config) error {
	ctx, end, err := r.life.begin(ctx)
	if err != nil {
		return err
	}
	err = r.run(ctx, edits)
	end(err)
	return err
}

func (r *Router) run(ctx context.Context, edits <-chan config.Config) error {
	configs := make(chan config.Config, 1)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.registry.Run(ctx) })
	g.Go(func() error { return r.usage.Run(ctx) })
	g.Go(func() error { return r.classifier.Run(ctx, r.options.OnDemand) })
	if labels := r.catalog.labels; labels != nil && !r.options.OnDemand {
		g.Go(func() error { return labels.run(ctx, r.catalog.texts, r.catalog.relabel) })
	}
	g.Go(func() error { return r.supervisor.Run(ctx, configs) })
	if !r.options.OnDemand && !r.options.Watched {
		g.Go(func() error { r.progress(ctx); return nil })
	}
	g.Go(func() error {
		c := *r.config.Load()
		if r.Complete() {
			select {
			case <-time.After(r.options.HeadStart):
			case <-ctx.Done():
			}
		}
		for {
			select {
			case configs <- r.prepared(c):
			case <-ctx.Done():
				return nil
			}
			select {
			case c = <-edits:
			case <-r.switches.turned:
				c = *r.file.Load()
			case <-ctx.Done():
				return nil
			}
			c = r.adopt(c)
		}
	})
	return g.Wait()
}

// adopt makes what was read the configuration, and learns of its servers what is
// stored. It returns the configuration as it is in use.
func (r *Router) adopt(file config.Config) config.Config {
	r.file.Store(&file)
	c := r.switches.apply(file)
	before := r.config.Swap(&c)
	all := policies(c.Servers)
	r.policies.Store(&all)
	if before != nil && !reflect.DeepEqual(before.Router, c.Router) {
		r.log.Warn("the edit of \"metarouter\" takes effect at the router's next start; that of the servers is live")
	}
	r.catalog.recall(c.Servers)
	return c
}

// prepared returns c as the supervisor shall see it.
func (r *Router) prepared(c config.Config) config.Config {
	if r.options.OnDemand {
		c.Servers = slices.Clone(c.Servers)
		for i := range c.Servers {
			c.Servers[i].Lazy = true
		}
	}
	return c
}

// Snapshot returns what is known of all tools at this moment.
func (r *Router) Snapshot() *registry.Snapshot { return r.registry.Snapshot() }

// Changed returns a channel that is closed at the next change of the snapshot.
func (r *Router) Changed() <-chan struct{} { return r.registry.Changed() }

// Tools returns all tools, by ID.
func (r *Router) Tools() []*registry.NormalizedTool { return r.registry.Tools() }

// Tool returns the tool of that ID, "server:name".
func (r *Router) Tool(id string) (*registry.NormalizedTool, bool) { return r.registry.Tool(id) }

// FindByCapability returns the tools that bear the tag, by ID.
func (r *Router) FindByCapability(tag string) []*registry.NormalizedTool {
	return r.registry.FindByCapability(tag)
}

// Find ranks the tools that suit a query.
func (r *Router) Find(ctx context.Context, q selector.Query) (selector.Ranking, error) {
	return r.selector.Find(ctx, q)
}

// Select picks the tool for a query.
func (r *Router) Select(ctx context.Context, q selector.Query) (selector.Selection, error) {
	return r.selector.Select(ctx, q)
}

// Plan returns the steps of a task for which different tools are right; see
// [selector.Selector.Plan].
func (r *Router) Plan(ctx context.Context, q selector.Query) ([]selector.Step, error) {
	return r.selector.Plan(ctx, q)
}

// Explain says of tools that were found for a task what their scores are made of.
func (r *Router) Explain(ctx context.Context, task string, candidates []selector.Candidate) ([]selector.Explanation, error) {
	return r.selector.Explain(ctx, task, candidates)
}

// Learn notes that the client called a tool that it had found for the task, so
// that the tool is found sooner for such tasks. What one client does counts only
// so much.
func (r *Router) Learn(client, task, tool string, failed bool) {
	r.usage.Record(usage.Use{Client: client, Words: selector.Words(task), Tool: tool, Failed: failed})
}

// Match returns what was learned from use as evidence for a task of such words, and
// makes a Router a [selector.Experience].
func (r *Router) Match(words []string, now time.Time) map[string]float64 {
	return r.usage.Match(words, now)
}

// Usage returns what was learned from use, nil if nothing is to be learned.
func (r *Router) Usage() *usage.Store { return r.usage }

// Classifier returns what sorts texts into the categories of the configuration, or
// into capability tags if it has none.
func (r *Router) Classifier() *classify.Classifier { return r.classifier }

// Config returns the configuration that is in use: what was turned on or off by hand
// is so in it.
func (r *Router) Config() config.Config { return *r.config.Load() }

// Configured returns the configuration as its files have it.
func (r *Router) Configured() config.Config { return *r.file.Load() }

// Execute runs a tool; see [selector.Selector.Execute].
func (r *Router) Execute(ctx context.Context, c selector.Call) (selector.Result, error) {
	if c.Tool == nil {
		return selector.Result{}, noTool(r.options.Name, "")
	}
	return r.selector.Execute(ctx, c)
}

// Check validates arguments; see [selector.Selector.Check].
func (r *Router) Check(t *registry.NormalizedTool, args json.RawMessage) (fixed json.RawMessage, faults []string) {
	return r.selector.Check(t, args)
}

// Relay sends a request to a server; see [selector.Selector.Relay].
func (r *Router) Relay(ctx context.Context, server string, q session.Request) (json.RawMessage, error) {
	return r.selector.Relay(ctx, server, q)
}

// Session returns a server's session; see [supervisor.Supervisor.Session].
func (r *Router) Session(ctx context.Context, server string, from session.Client) (session.Session, error) {
	return r.supervisor.Session(ctx, server, from)
}

// Subscribe has a server say when a resource changes, to whoever listens. done is
// closed when its session has ended, and with it the subscription; cancel ends it
// before. It fails as [Router.Relay] does.
func (r *Router) Subscribe(ctx context.Context, server, uri string, from session.Client) (done <-chan struct{}, cancel func(), err error) {
	waiting, stop := context.WithTimeout(ctx, selector.StartWait)
	defer stop()
	s, err := r.Session(waiting, server, from)
	if err != nil {
		return nil, nil, &session.Error{Code: session.CodeInternal, Message: err.Error()}
	}
	if cancel, err = s.Subscribe(waiting, uri); err != nil {
		return nil, nil, err
	}
	return s.Done(), cancel, nil
}

// Listen has f told what servers say that belongs to no request, on the goroutine
// that reads from the server, so that f must not block. owner is the only client
// that uses the server's session, nil if several may. Only one listens at a time.
func (r *Router) Listen(f func(server string, owner session.Client, m session.Message)) (stop func()) {
	l := listener(f)
	r.listener.Store(&l)
	return func() { r.listener.CompareAndSwap(&l, nil) }
}

func (r *Router) hear(server string, owner session.Client, m session.Message) {
	if f := r.listener.Load(); f != nil {
		(*f)(server, owner, m)
	}
}

// Attach says who the only client is of a router that is [Options.Sole].
func (r *Router) Attach(home session.Client) {
	if r.options.Sole {
		r.supervisor.Attach(home)
	}
}

// Release ends what servers run for a client that has left.
func (r *Router) Release(home session.Client) { r.supervisor.Release(home) }

// Tell sends a notification to all servers whose session is the client's alone.
func (r *Router) Tell(home session.Client, method string, params json.RawMessage) {
	r.supervisor.Tell(home, method, params)
}

// SetLevel has servers send log messages from the level on, such as "info". It
// waits until they do, but not for long.
func (r *Router) SetLevel(ctx context.Context, level string) { r.supervisor.SetLevel(ctx, level) }

// Await returns when the server can be called, after at most
// [selector.StartWait]. Its error wraps [session.ErrNotSent] and says why it can't.
func (r *Router) Await(ctx context.Context, server string) error {
	ctx, cancel := context.WithTimeout(ctx, selector.StartWait)
	defer cancel()
	_, err := r.Session(ctx, server, nil)
	return err
}

// Restart stops a server and starts it again; see [supervisor.Supervisor.Restart]. One
// that was turned off by hand is turned on.
func (r *Router) Restart(ctx context.Context, server string) error {
	if r.switches.isOff(server) {
		return r.Turn(ctx, server, true)
	}
	return r.supervisor.Restart(ctx, server)
}

// A ServerInfo is what there is to say about one server.
type ServerInfo struct {
	supervisor.Status
	selector.Load
	Tools  int  // that are known, running or not
	ByHand bool // turned on or off by hand; see [Router.Turn]
}

// Servers returns what there is to say about each server, in the order of the
// configuration.
func (r *Router) Servers() []ServerInfo {
	snapshot := r.Snapshot()
	status := r.supervisor.Status()
	if len(status) == 0 { // nothing runs yet
		for _, s := range r.config.Load().Servers {
			status = append(status, supervisor.Status{Name: s.Name, State: supervisor.Starting, Transport: string(s.Transport)})
		}
	}
	all := make([]ServerInfo, len(status))
	for i, st := range status {
		all[i] = ServerInfo{st, r.selector.Load(st.Name), len(snapshot.Server(st.Name)), r.switches.has(st.Name)}
	}
	return all
}

// Complete reports whether the tools of every server that can run are known.
func (r *Router) Complete() bool { return len(r.Unlisted()) == 0 }

// Unlisted returns the names of servers that may have tools that nobody knows.
func (r *Router) Unlisted() []string {
	var names []string
	for _, s := range r.config.Load().Servers {
		if supervisor.Startable(s) && !r.catalog.listed(s) {
			names = append(names, s.Name)
		}
	}
	return names
}

// Settled returns when each server has been listed, if only from the stored
// catalog, or has failed; or when ctx ends.
func (r *Router) Settled(ctx context.Context) {
	var asleep []string
	if r.options.OnDemand {
		asleep = r.Unlisted()
	}
	r.until(ctx, r.settled, asleep)
	if labels := r.catalog.labels; labels != nil && r.options.OnDemand && labels.guess(ctx, r.catalog.texts()) {
		r.catalog.relabel() // nobody is there for long enough to ask the outside server about each
	}
}

// Try starts the named servers that are not running, or all if none is named, and
// returns when none of them is in its first start any more, or ctx ends.
func (r *Router) Try(ctx context.Context, names ...string) {
	if len(names) == 0 {
		for _, s := range r.config.Load().Servers {
			names = append(names, s.Name)
		}
	}
	r.until(ctx, func() bool { return r.none(names, supervisor.Starting, supervisor.Idle) }, names)
}

// Started returns when no server is starting, or ctx ends.
func (r *Router) Started(ctx context.Context) {
	r.until(ctx, func() bool { return r.none(nil, supervisor.Starting) }, nil)
}

// none reports whether none of the named servers, of all if names is nil, is in one of
// the states.
func (r *Router) none(names []string, states ...supervisor.State) bool {
	status := r.supervisor.Status()
	return len(status) == len(r.config.Load().Servers) && !slices.ContainsFunc(status, func(s supervisor.Status) bool {
		return (names == nil || slices.Contains(names, s.Name)) && slices.Contains(states, s.State)
	})
}

// until has the named servers started, and returns when done does after a change
// of any server, or when ctx ends.
func (r *Router) until(ctx context.Context, done func() bool, wake []string) {
	ctx, cancel := context.WithCancel(ctx)
	var waking sync.WaitGroup
	defer waking.Wait()
	defer cancel()
	for _, name := range wake {
		waking.Go(func() { r.Session(ctx, name, nil) })
	}
	for {
		changed := r.supervisor.Changed()
		if done() {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (r *Router) settled() bool {
	unknown := r.Unlisted()
	if len(unknown) == 0 {
		return true
	}
	state := make(map[string]supervisor.State)
	for _, st := range r.supervisor.Status() {
		state[st.Name] = st.State
	}
	for _, name := range unknown {
		if s, ok := state[name]; !ok || s == supervisor.Starting || s == supervisor.Idle {
			return false
		}
	}
	return true
}
