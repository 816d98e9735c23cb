// Package server is the router's face: it shows all tools of all servers to a
// client as one MCP server.
//
// [New] makes a [Server] of a [Router]. [Server.Serve] serves one client over a
// pair of streams and [Server.Handler] any number of them over HTTP, in both eras
// of the protocol and in neither (plain JSON-RPC, REST style), while [Server.Run]
// runs. Both hand messages to a conversation, which knows a client and what is open
// with it; methods.go has all that a client may ask for. What servers and clients
// say to each other leaves as the bytes that came.
//
// In direct mode a client sees every tool of every server under its exposed name
// ([Names]). In search mode it sees five tools that find and run the others.
package server

import (
	"cmp"
	"context"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/classify"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/session"
)

// A Router knows the tools of all servers, and picks and runs them, as
// [adapter.Router] does. Its methods may be called by many goroutines at once.
type Router interface {
	// Snapshot returns the catalog as it is now, and Changed a channel that is
	// closed at its next change. Snapshot does not block.
	Snapshot() *registry.Snapshot
	Changed() <-chan struct{}

	// Settled returns when every server without a stored catalog was listed or
	// has failed, or when ctx ends.
	Settled(ctx context.Context)

	// Complete reports whether a catalog, stored or live, is known for every
	// enabled server.
	Complete() bool

	// Servers returns what there is to say about each server of the configuration.
	Servers() []adapter.ServerInfo

	// Await returns when the server can be called. Its error wraps
	// [session.ErrNotSent] and says why it can't.
	Await(ctx context.Context, server string) error

	Find(ctx context.Context, q selector.Query) (selector.Ranking, error)
	Select(ctx context.Context, q selector.Query) (selector.Selection, error)

	// Plan returns the steps of a task for which different tools are right, nil if
	// one will do.
	Plan(ctx context.Context, q selector.Query) ([]selector.Step, error)

	// Classifier sorts texts into categories.
	Classifier() *classify.Classifier

	// Learn notes that the client called a tool that it had found for the task.
	Learn(client, task, tool string, failed bool)

	// Relay sends a request to a server and returns the server's own result, or a
	// [*session.Error], or the cause of ctx's end.
	Relay(ctx context.Context, server string, r session.Request) (json.RawMessage, error)

	// Subscribe has a server say when a resource changes. done is closed when the
	// server has forgotten that; cancel ends it.
	Subscribe(ctx context.Context, server, uri string, from session.Client) (done <-chan struct{}, cancel func(), err error)

	// Listen has f told what servers say that belongs to no request; owner is the
	// only client that uses the server's session, nil if several may. f must not
	// block. Only one listens at a time.
	Listen(f func(server string, owner session.Client, m session.Message)) (stop func())

	// Attach says who the router's only client is, and Release that a client has
	// left. Tell sends a notification to the servers whose session is the
	// client's alone.
	Attach(home session.Client)
	Release(home session.Client)
	Tell(home session.Client, method string, params json.RawMessage)

	// SetLevel has servers send log messages from the level on. It waits until
	// they do, but not for long.
	SetLevel(ctx context.Context, level string)

	// Execute runs a tool. Whatever goes wrong is a result with IsError, but for
	// a JSON-RPC error of the server, which is a [*session.Error] and passed on
	// as it is, and the end of ctx.
	Execute(ctx context.Context, c selector.Call) (selector.Result, error)

	// Check validates arguments, a JSON object, without running the tool. It
	// returns them, repaired where that makes them fit, or a sentence for each
	// fault.
	Check(tool *registry.NormalizedTool, args json.RawMessage) (fixed json.RawMessage, problems []string)
}

// Modes.
const (
	Auto   = "auto"   // Direct while the list is cheap, else Search
	Direct = "direct" // all tools are listed
	Search = "search" // tools that find and run the others are listed
)

// Options say how the router shows itself. The zero value works.
type Options struct {
	Mode           string        // Auto, Direct or Search; Auto if empty
	Names          string        // Prefixed or Bare; Prefixed if empty
	Separator      string        // between server and tool; "__" if empty
	ToolBudget     int           // tokens that the list may cost in Auto; a token is 4 bytes of JSON
	ListWait       time.Duration // how long servers never seen before are waited for, once
	Pinned         []string      // tools listed in search mode too, by any form of their names
	RouteThreshold float64       // confidence below which route_task runs nothing unasked
	LimitsResults  bool          // whether results may be cut, so that read_result is listed
	Classifies     bool          // whether list_categories and classify_text are listed; they can be called in any case
	FillArguments  bool          // whether route_task asks the client for what is missing, and for leave
	Version        string        // of the router
	Log            *zap.Logger   // nil is silence

	// Observer is told how our own tools were called; nil if nobody is.
	Observer selector.Observer

	// Tracer makes spans of the calls of our own tools; nil for none.
	Tracer trace.Tracer

	// Savings is told what models need not read; nil if nobody is.
	Savings Savings
}

// Savings is told how many tokens a client was spared. It is called by many goroutines
// at once, and must not block.
type Savings interface {
	Saved(by Saving, tokens int)
}

// A Saving says by what a client was spared tokens. There are no others.
type Saving string

const (
	BySearchMode  Saving = "search_mode"  // the list of tools would have had the definitions of all
	ByResultLimit Saving = "result_limit" // the result was longer than what was shown of it
)

// A Server is the MCP face of a router. It serves any number of clients.
type Server struct {
	router Router
	opts   Options
	log    *zap.Logger
	search bool // else all tools are listed
	own    map[string]*ownTool
	info   json.RawMessage // our serverInfo
	node   string          // this machine, as in node_id
	born   time.Time
	secret []byte      // known to nobody else
	sealer cipher.AEAD // of what clients keep for us

	current atomic.Pointer[view]
	memory  memory
	results results

	firstWait sync.Once
	waitUntil time.Time // for servers never seen before; set by firstWait

	began   *registry.Snapshot // what was known at first; Run's alone
	touches chan struct{}      // holds a signal when a list was touched
	ending  chan struct{}      // closed when Run ends

	mu            sync.Mutex // guards what follows
	conversations map[*conversation]bool
	listeners     map[*listener]bool
	watches       map[*watch]bool
	touched       map[string]bool // lists of which a server says that they have changed, by member of changes
	parked        map[uint64]*parking
	lastParked    uint64
}

// New returns the face of a router.
func New(r Router, o Options) *Server {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	o.Version = cmp.Or(o.Version, "devel")
	secret := make([]byte, 32)
	rand.Read(secret)
	s := &Server{
		router: r, opts: o, log: o.Log.Named("server"), secret: secret, sealer: newSealer(secret),
		node: selector.Node(), born: time.Now(),
		began:         r.Snapshot(),
		touches:       make(chan struct{}, 1),
		ending:        make(chan struct{}),
		conversations: make(map[*conversation]bool),
		listeners:     make(map[*listener]bool),
		watches:       make(map[*watch]bool),
		touched:       make(map[string]bool),
		parked:        make(map[uint64]*parking),
	}
	s.own = s.ownTools()
	s.search = s.decideMode()
	s.info = wire.Marshal(struct {
		Name    string `json:"name"`
		Title   string `json:"title"`
		Version string `json:"version"`
	}{"metarouter", "Metarouter", o.Version})
	return s
}

// Mode returns Direct or Search, which Auto was decided to be.
func (s *Server) Mode() string {
	if s.search {
		return Search
	}
	return Direct
}

func (s *Server) decideMode() (search bool) {
	switch s.opts.Mode {
	case Direct:
		return false
	case Search:
		return true
	}
	if !s.router.Complete() {
		s.log.Info("search mode, since not all servers' tools are known yet")
		return true
	}
	cost := s.cost()
	search = cost > s.opts.ToolBudget
	s.log.Info("mode decided by what the list of tools costs",
		zap.Bool("search", search), zap.Int("tokens", cost), zap.Int("budget", s.opts.ToolBudget))
	return search
}

// cost returns the tokens that a list of all servers' tools costs a model.
func (s *Server) cost() int { return selector.ListTokens(s.router.Snapshot().Tools()) }

// saved tells that a client was spared tokens, if it was.
func (s *Server) saved(by Saving, tokens int) {
	if s.opts.Savings != nil && tokens > 0 {
		s.opts.Savings.Saved(by, tokens)
	}
}

// ListTokens returns what the list of tools that clients see costs a model, and what
// that of all tools would.
func (s *Server) ListTokens() (shown, all int) {
	for _, item := range s.view().lists["tools/list"].items {
		shown += len(item.definition)
	}
	return shown / selector.BytesPerToken, s.cost()
}

// callTool answers tools/call.
func callTool(ctx context.Context, c *call) (json.RawMessage, error) {
	called, ok := wire.String(c.name)
	if !ok {
		return nil, invalidParams("tools/call needs the name of a tool")
	}
	s := c.server
	if own, ok := s.own[called]; ok {
		return s.observed(ctx, own, c.args, c)
	}
	began := time.Now()
	tool, err := s.resolve(ctx, called)
	switch {
	case err == nil:
		return s.execute(ctx, tool, c.args, c)
	case errors.Is(err, session.ErrNotSent):
		return s.unreached(called, err, c, began), nil
	}
	err = invalidParams(err.Error())
	s.unknown(called, err, c, began)
	return nil, err
}

// resolve finds the tool that a client means; see [Resolve].
func (s *Server) resolve(ctx context.Context, name string) (*registry.NormalizedTool, error) {
	return Resolve(ctx, s.router, name, s.opts.Separator, func() *ToolNames { return s.view().names },
		func() bool { return s.settle(ctx, s.view().snapshot) })
}

// Resolve finds the tool that a name of any form means. A server that the name
// begins with may have tools that the catalog does not know: it is waited for,
// or started, and an error that wraps [session.ErrNotSent] says why it can't be
// called. Any other name has settle wait for servers never seen before; it
// reports whether there is news. names returns the names of what is known now.
func Resolve(ctx context.Context, r Router, name, separator string, names func() *ToolNames, settle func() (news bool)) (*registry.NormalizedTool, error) {
	tool, err := names().Resolve(name)
	if e, ok := errors.AsType[*NameError](err); !ok || len(e.Ambiguous) > 0 {
		return tool, err
	}
	if server, _, ok := Split(name, separator, r.Servers()); ok {
		if err := r.Await(ctx, server); err != nil {
			return nil, err
		}
		return names().Resolve(name)
	}
	if settle() {
		return names().Resolve(name)
	}
	return nil, err
}

// Split returns the server that a name such as server:tool begins with, and the
// rest of it.
func Split(name, separator string, servers []adapter.ServerInfo) (server, tool string, ok bool) {
	for _, info := range servers {
		rest, begins := strings.CutPrefix(name, info.Name)
		if !begins || len(info.Name) <= len(server) {
			continue
		}
		if rest, separated := cutSeparator(rest, separator); separated {
			server, tool, ok = info.Name, rest, true
		}
	}
	return server, tool, ok
}

// settle waits for servers never seen before, and reports whether the catalog is
// another than before. All requests together wait no longer than ListWait from
// the first of them on.
func (s *Server) settle(ctx context.Context, before *registry.Snapshot) (news bool) {
	s.firstWait.Do(func() { s.waitUntil = time.Now().Add(s.opts.ListWait) })
	ctx, cancel := context.WithDeadline(ctx, s.waitUntil)
	defer cancel()
	s.router.Settled(ctx)
	return s.router.Snapshot() != before
}

// execute runs a tool of a server for the call, which may name one of ours.
func (s *Server) execute(ctx context.Context, tool *registry.NormalizedTool, args json.RawMessage, c *call) (json.RawMessage, error) {
	call := selector.Call{Tool: tool, Arguments: args, Meta: c.callMeta(), From: c.from}
	if c.more {
		call.Params = c.params
	}
	if s.opts.Observer != nil {
		call.Client = c.clientName()
	}
	result, err := s.router.Execute(ctx, call)
	c.routed = true
	c.learn(tool, result.JSON, err)
	if c.plain && len(result.Mismatch) > 0 {
		return nil, mismatched(tool, result.Mismatch, wire.Member(result.JSON, "_meta"))
	}
	if result.Tool != nil {
		tool = result.Tool
	}
	return s.limited(c.ownTask(tool.Server, result.JSON), result.Limit, c.finder()), err
}

func invalidParams(message string) error {
	return &session.Error{Code: session.CodeInvalidParams, Message: message}
}
