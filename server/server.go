package server

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/rate"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/server/internal/httpd"
	"github.com/mcp-metarouter/metarouter/server/internal/stdio"
	"github.com/mcp-metarouter/metarouter/server/internal/tools"
)

// A Router knows the tools of all servers, and picks and runs them, as
// [adapter.Router] does. Its methods may be called by many goroutines at once.
type Router interface {
	conversation.Router // Release, Tell
	tools.Router        // Snapshot, Servers, Settled, Await, Find, Select, Plan, Check, Execute, Classifier
	httpd.Router        // Nodes
	subscriber          // Subscribe

	// Relay sends a request to a server and returns the server's own result, or a
	// [*session.Error], or the cause of ctx's end.
	Relay(ctx context.Context, server string, r session.Request) (json.RawMessage, error)

	// Changed returns a channel that is closed at the next change of the catalog.
	Changed() <-chan struct{}

	// Listen has f called with the messages of servers that belong to no request.
	// owner is the only client that uses the server's session, nil if several may.
	// f must not block.
	Listen(f func(server string, owner session.Client, m session.Message)) (stop func())

	// Unlisted returns the names of servers that can run and have tools that are not known,
	// neither from a stored catalog nor from a session.
	Unlisted() []string

	// SetLevel has servers send log messages from the level on. It waits until
	// they do, but not for long.
	SetLevel(ctx context.Context, level string)
}

// Options say how the router shows itself. The zero value works.
type Options struct {
	Mode           string        // "auto", "direct", "search" or "code"; "auto" if empty
	Names          string        // "prefixed" or "bare"; "prefixed" if empty
	Separator      string        // between server and tool; "__" if empty
	Name           string        // in serverInfo; "metarouter" if empty
	Prefix         string        // that clients may put before the name of a tool; may be ""
	ToolBudget     int           // tokens that the list may cost in mode "auto"; a token is 4 bytes of JSON
	ListWait       time.Duration // how long clients wait for servers that were never listed, once
	Pinned         []string      // tools that search mode lists too, by any form of their names
	RouteThreshold float64       // confidence below which route_task runs no tool by itself
	LimitsResults  bool          // whether results may be cut, so that read_result is listed
	Classifies     bool          // whether list_categories and classify_text are listed; they can be called in each mode but "code"
	FindTools      bool          // whether direct mode lists find_tools, too, if the tools cost more than FindAbove tokens
	FindAbove      int
	Scripts        bool   // whether clients may run scripts; else mode "code" is "search"
	Itself         string // the only server that clients see, which is shown as itself; "" for none

	// Rules are the rules of the profiles of the clients, in any form; nil if there are no rules. A
	// request that was suspended under rules that differ, as [reflect.DeepEqual] has it, is not
	// resumed. With rules, only a change that clients may see is a change of a list.
	Rules any

	// Profile are the names of the profiles that limit the clients, joined by "+", for logs.
	Profile string

	// Live returns the options that are in force now, and a channel that is closed when
	// others are. Only the fields above may change; an Options that was returned must not
	// be modified. nil: the options never change.
	Live func() (*Options, <-chan struct{})

	Version string      // of the router
	Log     *zap.Logger // nil discards

	Runner   tools.Scripts     // runs scripts; if it is nil, clients may run none
	Observer selector.Observer // notified of calls of our own tools; may be nil
	Tracer   trace.Tracer      // makes spans of calls of our own tools; may be nil
	Savings  tools.Savings     // counts the tokens that clients were spared; may be nil
}

// HTTPOptions say which clients [Servers.Handler] serves.
type HTTPOptions = httpd.Options

// A Server is the MCP server that clients of a router see that have chosen the same profiles. It serves any number of
// clients; [Servers] has them.
type Server struct {
	router  Router
	opts    Options
	log     *zap.Logger
	display *display
	backend *httpd.Backend

	catalog  *catalog.Catalog
	clients  *conversation.Clients
	tools    *tools.Tools
	notifier *notifier

	place
	servers *Servers           // all servers of the router
	retire  context.CancelFunc // ends the sessions over HTTP

	// Guarded by mu of servers.
	chosen []string
	last   time.Time          // of its uses
	end    context.CancelFunc // ends run; nil before
}

// newServer returns the server at the place.
func newServer(servers *Servers, at place, r Router, o Options) *Server {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	o.Version = cmp.Or(o.Version, "devel")
	retired, retire := context.WithCancel(context.Background())
	s := &Server{router: r, opts: o, log: o.Log.Named("server"), servers: servers, place: at, retire: retire}
	if s.key != "" {
		s.log = s.log.With(zap.String("profile", s.key))
	}
	s.display = newDisplay(r, o, s.log)
	s.catalog = catalog.New(r, s.display.catalogOptions)
	tasks := catalog.Tasks{Secret: []byte(servers.secret + s.key)}
	s.tools = tools.New(tools.Options{
		Router: r, Catalog: s.catalog, Tasks: tasks, Node: execute.Node(), Version: o.Version,
		Settings: func() tools.Settings { return s.display.current().tools },
		Observer: o.Observer, Tracer: o.Tracer, Savings: o.Savings, Budget: servers.budget, Kept: servers.kept, Scripts: o.Runner,
	})
	relay := &relay{router: r, catalog: s.catalog, tasks: tasks, tools: s.tools}
	subscriptions := newSubscriptions(r, relay.locate, servers.budget, s.log)
	greeting := &greeting{s.display, s.catalog, s.display.options().Itself}
	s.clients = conversation.New(conversation.Options{
		Router: r, Info: s.display.info, Log: s.log, Budget: servers.budget,
		Methods: s.methods(greeting, relay, subscriptions), Address: servers.profiles.Address, Pass: s.pass,
		Joined:  func() { s.notifier.joined() }, // which no client does before New returns
		Rules:   func() any { return s.display.options().Rules },
		Abandon: s.tools.Abandon,
		Left: func(c *conversation.Conversation) {
			subscriptions.left(c)
			s.tools.Forget(c)
			servers.mu.Lock()
			defer servers.mu.Unlock()
			servers.endIfLeft(s)
		},
	})
	s.notifier = &notifier{
		router: r, catalog: s.catalog, clients: s.clients, subscriptions: subscriptions, display: s.display,
		touches: make(chan struct{}, 1), touched: make(map[string]bool), same: rate.New(1/sameEvery.Seconds(), sameBurst),
		others: func() bool {
			return slices.ContainsFunc(servers.all(), func(other *Server) bool { return other != s && other.clients.Any() })
		},
	}
	subscriptions.joined = s.notifier.joined
	s.backend = &httpd.Backend{Router: r, Clients: s.clients, Catalog: s.catalog, Mode: s.mode, Retired: retired}
	return s
}

// isBusy reports whether a client of the server has a session or waits for changes.
func (s *Server) isBusy() bool { return s.clients.Any() || s.notifier.subscriptions.any() }

// mode returns "direct", "search" or "code": the mode in force.
func (s *Server) mode() string {
	switch o := s.display.catalogOptions(); {
	case o.Code:
		return exposure.Code
	case o.Search:
		return exposure.Search
	}
	return exposure.Direct
}

// Shown returns the mode in force, "direct", "search" or "code", and a function that counts how many tokens the list of tools
// that clients see costs a model, and how many a list of all tools would cost.
func (s *Server) Shown() (mode string, cost func() (shown, all int)) {
	return s.mode(), func() (shown, all int) { return s.catalog.View().Tools.Tokens(), s.display.cost() }
}

// Serve serves one client, which sends one message a line on in and reads the
// answers on out; a Write is one message or several short ones. It returns when in
// or ctx ends, or the client does not read any more: it cancels the requests that are still in
// flight and waits for all goroutines. An error means that reading or writing failed.
//
// At the end, Serve closes in if it is an [io.Closer]. It abandons a Read that then
// still does not return, as of a terminal. from is the [supervisor.Place] of a client whose folder and variables need
// processes of their own of some servers; it may be nil.
func (s *Server) Serve(ctx context.Context, from any, in io.Reader, out io.Writer) error {
	return stdio.Serve(ctx, stdio.Options{Clients: s.clients, Place: from, Resumed: s.notifier.touchAll}, in, out)
}

// methods returns all requests that clients may send.
func (s *Server) methods(g *greeting, r *relay, subs *subscriptions) map[string]conversation.Method {
	quick := g.itself == "" // else the answer waits for that server
	return map[string]conversation.Method{
		"initialize":               {Handle: g.initialize, Legacy: true, Quick: quick},
		"ping":                     {Handle: ping, Legacy: true, Quick: true},
		"logging/setLevel":         {Handle: s.setLevel, Legacy: true},
		"resources/subscribe":      {Handle: subs.subscribe, Legacy: true},
		"resources/unsubscribe":    {Handle: subs.unsubscribe, Legacy: true},
		"server/discover":          {Handle: g.discover, Modern: true, Cacheable: true, Quick: quick},
		"subscriptions/listen":     {Handle: subs.listen, Modern: true},
		"tasks/get":                {Handle: r.task, Modern: true},
		"tasks/update":             {Handle: r.task, Modern: true},
		"tasks/cancel":             {Handle: r.task, Modern: true},
		"tools/list":               {Handle: s.list, Cacheable: true},
		"prompts/list":             {Handle: s.list, Cacheable: true},
		"resources/list":           {Handle: s.list, Cacheable: true},
		"resources/templates/list": {Handle: s.list, Cacheable: true},
		"skills/list":              {Handle: s.list, Cacheable: true},
		"skills/get":               {Handle: r.skill, Cacheable: true},
		"tools/call":               {Handle: s.tools.Call, Asks: true},
		"prompts/get":              {Handle: r.prompt, Asks: true},
		"resources/read":           {Handle: r.read, Asks: true, Cacheable: true},
		"completion/complete":      {Handle: r.complete},
	}
}

func ping(context.Context, conversation.Call) (json.RawMessage, error) {
	return json.RawMessage("{}"), nil
}
