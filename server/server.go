package server

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/server/internal/httpd"
	"github.com/mcp-metarouter/metarouter/server/internal/identity"
	"github.com/mcp-metarouter/metarouter/server/internal/stdio"
	"github.com/mcp-metarouter/metarouter/server/internal/tools"
)

// A Router knows the tools of all servers, and picks and runs them, as
// [adapter.Parts] does. Its methods may be called by many goroutines at once. Each
// of the embedded interfaces has one user.
type Router interface {
	catalog.Source      // Snapshot, Servers, Settled, Await
	conversation.Router // Release, Tell
	tools.Router        // Find, Select, Plan, Check, Execute, Classifier, Learn
	relayRouter         // Relay
	eventSource         // Changed, Listen, Subscribe

	// Unlisted returns the names of servers that can run and whose tools are not known,
	// neither from a stored catalog nor from a session.
	Unlisted() []string

	// Nodes returns the nodes of the cluster, this one first; nil without a cluster.
	Nodes() []adapter.NodeInfo

	// Attach says which client is the router's only one.
	Attach(home session.Client)

	// SetLevel has servers send log messages from the level on. It waits until
	// they do, but not for long.
	SetLevel(ctx context.Context, level string)
}

// Modes.
const (
	Auto   = "auto"   // Direct if the list is cheap, else Search
	Direct = "direct" // all tools are listed
	Search = "search" // tools that find and run the others are listed
)

// Options say how the router shows itself. The zero value works.
type Options struct {
	Mode           string        // Auto, Direct or Search; Auto if empty
	Names          string        // Prefixed or Bare; Prefixed if empty
	Separator      string        // between server and tool; "__" if empty
	Name           string        // in serverInfo; "metarouter" if empty
	Prefix         string        // that clients may put before the name of a tool; "" is none
	ToolBudget     int           // tokens that the list may cost in Auto; a token is 4 bytes of JSON
	ListWait       time.Duration // how long clients wait for servers that were never listed, once
	Pinned         []string      // tools that search mode lists too, by any form of their names
	RouteThreshold float64       // confidence below which route_task runs no tool by itself
	LimitsResults  bool          // whether results may be cut, so that read_result is listed
	Classifies     bool          // whether list_categories and classify_text are listed; they can always be called
	FillArguments  bool          // whether route_task asks the client for missing arguments and for agreement
	Samples        bool          // whether the client's own model is asked where a search is not sure

	// Rules are what the profiles of the clients say, in any form; nil if they say nothing. A
	// request that was suspended under rules that differ, as [reflect.DeepEqual] has it, is not
	// resumed. With rules, only what clients may see is a change of a list.
	Rules any

	// Profile are the names of the profiles that limit the clients, joined by "+", for logs.
	Profile string

	// Live returns the options that are in force now, and a channel that is closed when
	// others are. Only the fields above may change; an Options that was returned must not
	// be modified. nil: the options never change.
	Live func() (*Options, <-chan struct{})

	// Uses returns how often the tools of each server were called; nil if that is not known. It is
	// called once, if find_tools can't name all servers.
	Uses func() map[string]int

	Version string      // of the router
	Log     *zap.Logger // nil discards

	Observer selector.Observer // notified of calls of our own tools; may be nil
	Tracer   trace.Tracer      // makes spans of calls of our own tools; may be nil
	Savings  Savings           // counts what clients were spared; may be nil
}

// Savings counts how many tokens clients were spared, and what lists of tools cost.
type Savings = tools.Savings

// A Saving says what spared a client tokens. There are BySearchMode and
// ByResultLimit.
type Saving = tools.Saving

// The kinds of savings.
const (
	BySearchMode  = tools.BySearchMode  // a list of all tools would have been longer
	ByResultLimit = tools.ByResultLimit // the result was longer than what was shown of it
)

// HTTPOptions say whom a [Handler] serves.
type HTTPOptions = httpd.Options

// A Rate limits the requests of a principal.
type Rate = httpd.Rate

// An Issuer is an identity provider whose access tokens let clients over HTTP in.
type Issuer = identity.Issuer

// An Authenticator knows principals by more than the tokens in [HTTPOptions].
type Authenticator = identity.Authenticator

// A Proof is what an access token proves.
type Proof = identity.Proof

// A Refusal is why an access token does not let its client in.
type Refusal = identity.Refusal

// A Principal is who a client over HTTP has proved to be.
type Principal = identity.Principal

// LoggedIn reports whether a request to one of [HTTPOptions.Pages] comes from a browser that
// has logged in.
func LoggedIn(ctx context.Context) bool { return httpd.ClientOf(ctx).LoggedIn() }

// PrincipalOf returns who sends a request to one of [HTTPOptions.Pages]; without a name if requests need no token.
func PrincipalOf(ctx context.Context) Principal { return httpd.ClientOf(ctx).Principal }

// A Handler serves MCP over HTTP. It must be closed.
type Handler = httpd.Handler

// A ServerRow is a server's state as JSON.
type ServerRow = httpd.ServerRow

// A Server is the MCP server that clients of a router see. It serves any number of
// clients.
type Server struct {
	router  Router
	opts    Options
	log     *zap.Logger
	display *display
	node    string // this machine, as in node_id
	started time.Time
	family  family
	backend *httpd.Backend

	catalog  *catalog.Catalog
	clients  *conversation.Clients
	tools    *tools.Tools
	notifier *notifier
}

// New returns the server of a router that serves no profiles; [NewServers] does.
func New(r Router, o Options) *Server { return newServer(r, o, family{}) }

// newServer returns a server of a family.
func newServer(r Router, o Options, f family) *Server {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	o.Version = cmp.Or(o.Version, "devel")
	s := &Server{router: r, opts: o, log: o.Log.Named("server"), node: execute.Node(), started: time.Now(), family: f.orAlone()}
	if f.profile != "" {
		s.log = s.log.With(zap.String("profile", f.profile))
	}
	s.display = newDisplay(r, o, s.log)
	s.catalog = catalog.New(r, s.display.catalogOptions)
	tasks := catalog.NewTasks(s.family.secret)
	s.tools = tools.New(tools.Options{
		Router: r, Catalog: s.catalog, Tasks: tasks, Node: s.node, Version: o.Version,
		RouteTask: func() (threshold float64, fills bool) {
			now := s.display.options()
			return now.RouteThreshold, now.FillArguments
		},
		Samples:  func() bool { return s.display.options().Samples },
		Profile:  func() string { return s.display.options().Profile },
		Observer: o.Observer, Tracer: o.Tracer, Savings: o.Savings, Budgets: s.family.bounds.tools,
	})
	relay := &relay{router: r, catalog: s.catalog, tasks: tasks, tools: s.tools}
	subscriptions := newSubscriptions(r, s.catalog, s.family.bounds.subscriptions, s.log)
	greeting := &greeting{router: r, info: s.display.info, catalog: s.catalog, decided: func() bool { return len(s.display.decision().late) == 0 }}
	s.clients = conversation.New(conversation.Options{
		Router: r, Info: s.display.info, Secret: s.family.secret, Log: s.log, Budgets: s.family.bounds.clients,
		Methods: s.methods(greeting, relay, subscriptions),
		Joined:  func() { s.notifier.joined() }, // which no client does before New returns
		Rules:   func() any { return s.display.options().Rules },
		Left: func(c *conversation.Conversation) {
			subscriptions.left(c)
			s.tools.Forget(c)
			s.family.left()
		},
	})
	s.notifier = newNotifier(r, s.catalog, s.clients, subscriptions, s.display, s.family.others)
	s.backend = &httpd.Backend{Router: r, Clients: s.clients, Catalog: s.catalog, Mode: s.Mode, Retired: s.family.retired}
	return s
}

// Mode returns Direct or Search: the mode in force.
func (s *Server) Mode() string {
	if s.display.catalogOptions().Search {
		return Search
	}
	return Direct
}

// ListTokens returns what the list of tools that clients see costs a model, and what
// a list of all tools would cost.
func (s *Server) ListTokens() (shown, all int) {
	return s.catalog.View().Tools.Tokens(), s.display.cost()
}

// Clients returns the clients that the server has, in no order: those with a session, and those
// without one that sent a request in the last 10 minutes.
func (s *Server) Clients() []conversation.Known { return s.clients.Known() }

// Serve serves one client, which sends one message a line on in and reads the
// answers on out; a Write is one message or several short ones. It returns when in
// or ctx ends, or the client does not read any more: it cancels what is still in
// flight and waits for all goroutines. An error means that reading or writing failed.
//
// At the end, Serve closes in if it is an [io.Closer]. It abandons a Read that then
// still does not return, as of a terminal.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	return stdio.Serve(ctx, stdio.Options{Clients: s.clients, Attached: s.router.Attach, Resumed: s.notifier.touchAll}, in, out)
}

// Handler returns a handler of MCP over HTTP, which serves while [Server.Run] runs. It knows no
// profiles.
func (s *Server) Handler(o HTTPOptions) *Handler {
	return httpd.New(&httpd.Backends{
		Of:    func(chosen ...string) (*httpd.Backend, bool) { return s.backend, len(chosen) == 0 },
		All:   func() []*httpd.Backend { return []*httpd.Backend{s.backend} },
		Whole: s.router, Node: s.node, Version: s.opts.Version, Started: s.started, Log: s.log,
	}, o)
}

// Run notifies clients of changes, until ctx ends. It must run while clients are
// served.
func (s *Server) Run(ctx context.Context) error {
	warned := false
	s.notifier.run(ctx, func() {
		if !warned {
			warned = s.display.warnOfBudget()
		}
	})
	return nil
}

// methods returns all requests that clients may send.
func (s *Server) methods(g *greeting, r *relay, subs *subscriptions) map[string]conversation.Method {
	return map[string]conversation.Method{
		"initialize":               {Handle: g.initialize, Legacy: true, Quick: true},
		"ping":                     {Handle: ping, Legacy: true, Quick: true},
		"logging/setLevel":         {Handle: s.setLevel, Legacy: true},
		"resources/subscribe":      {Handle: subs.subscribe, Legacy: true},
		"resources/unsubscribe":    {Handle: subs.unsubscribe, Legacy: true},
		"server/discover":          {Handle: g.discover, Modern: true, Cacheable: true, Quick: true},
		"subscriptions/listen":     {Handle: subs.listen, Modern: true},
		"tasks/get":                {Handle: r.task, Modern: true},
		"tasks/update":             {Handle: r.task, Modern: true},
		"tasks/cancel":             {Handle: r.task, Modern: true},
		"tools/list":               {Handle: s.list, Cacheable: true},
		"prompts/list":             {Handle: s.list, Cacheable: true},
		"resources/list":           {Handle: s.list, Cacheable: true},
		"resources/templates/list": {Handle: s.list, Cacheable: true},
		"tools/call":               {Handle: s.tools.Call, Asks: true},
		"prompts/get":              {Handle: r.prompt, Asks: true},
		"resources/read":           {Handle: r.read, Asks: true, Cacheable: true},
		"completion/complete":      {Handle: r.complete},
	}
}

func ping(context.Context, conversation.Call) (json.RawMessage, error) {
	return json.RawMessage("{}"), nil
}
