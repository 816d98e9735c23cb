package admin

import (
	"cmp"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/dashboard"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/telemetry"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/server"
)

// Options say for which router an API answers. The zero value is for a router of a test.
type Options struct {
	Version string
	DataDir string // "" if nothing is kept
	Log     *zap.Logger

	// Edits are those of the router's configuration; nil if its files are not followed.
	Edits *Edits

	// TrustCommand returns the command that approves a file; "" is the .mcp.json of a person's
	// current folder. Nil if the files are not followed.
	TrustCommand func(file string) string
}

// An API answers requests about a router. Create it before the router, since it is an observer of
// the router.
type API struct {
	board
	options Options
	born    time.Time
	pages   atomic.Int32 // open pages

	router *adapter.Parts // set by Register, as the two below are
	mcp    *server.Servers
	costs  func() []telemetry.Cost
	names  atomic.Pointer[exposedNames]

	diagnoses sync.Map // a diagnosis by server, of those that do not work
	logins    sync.Map // a knownLogin by server

	mu     sync.Mutex // guards the fields below
	loaded config.Config
	shown  *configuration // replaced at each change
	failed string         // the servers that the last note about failed ones named
	noted  time.Time      // when it did
}

// exposedNames are the exposed names of a snapshot's tools under a configuration.
type exposedNames struct {
	snapshot *registry.Snapshot
	edited   <-chan struct{} // of the configuration
	*exposure.ToolNames
}

// New returns the API for a router of the configuration.
func New(c config.Config, o Options) *API {
	o.Log = cmp.Or(o.Log, zap.NewNop()).Named("admin")
	o.Edits = cmp.Or(o.Edits, &Edits{Unwatched: true})
	a := &API{options: o, born: time.Now()}
	a.Loaded(c)
	return a
}

// Register adds the routes to mux. Call it once. mcp and costs, the costs of clients, are nil for a router
// that runs for one command and serves no client. The routes must be served only to clients that may see all
// calls and act on servers, as [server.HTTPOptions.Pages] are.
func (a *API) Register(mux *http.ServeMux, r *adapter.Parts, mcp *server.Servers, costs func() []telemetry.Cost) {
	a.router, a.mcp, a.costs = r, mcp, costs
	for _, route := range a.routes() {
		mux.HandleFunc(route.pattern, route.serve)
	}
}

// A route is a pattern of [http.ServeMux] and its handler.
type route struct {
	pattern string
	serve   http.HandlerFunc
}

// routes returns all routes. A test asks for each as a client with a token of the role "use",
// and as a page of another site.
func (a *API) routes() []route {
	get := func(answer func(*query) (any, error)) http.HandlerFunc { return asked(a.serve(answer)) }
	post := func(answer func(*query) (any, error)) http.HandlerFunc { return own(a.serve(answer)) }
	return []route{
		{"GET /{$}", dashboard.Index},
		{"GET /dashboard/page/{file...}", dashboard.File},
		{"GET /schema.json", schema},
		{"GET /dashboard/events", asked(a.events)}, // the calls of all clients
		{"GET /dashboard/profiles", get(a.profiles)},
		{"GET /dashboard/tools", get(a.tools)}, // of all profiles
		{"GET /dashboard/tool", get(a.tool)},
		{"GET /dashboard/capabilities", get(a.capabilities)},
		{"GET /dashboard/why", get(a.why)},
		{"GET /dashboard/usage", get(a.usage)},
		{"GET /dashboard/tokens", get(a.tokens)},
		{"GET /dashboard/servers", get(a.servers)},
		{"GET /dashboard/servers/{name}", get(a.server)},
		{"GET /dashboard/servers/{name}/hints", get(a.hints)},
		{"GET /dashboard/approvals", get(a.approvals)},
		{"POST /dashboard/call", post(a.call)},
		{"POST /dashboard/route", post(a.route)},
		{"POST /dashboard/classify", post(a.classify)},
		{"POST /dashboard/doctor", post(a.examine)},
		{"POST /dashboard/plan", post(a.plan)},
		{"POST /dashboard/usage/clear", post(a.clearUsage)},
		{"POST /dashboard/approvals/{id}/{action}", post(a.decide)},
		{"POST /dashboard/servers/{name}/{action}", post(a.act)},
	}
}

// schema answers with the JSON Schema of the configuration's files.
func schema(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/schema+json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Write(config.Schema())
}

// asked refuses requests that a browser makes for a page of another site. Such a page can't
// read the answer, and must not make the router work for it.
func asked(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Sec-Fetch-Site") {
		case "", "same-origin", "none":
			serve(w, r)
		default:
			refuse(w, http.StatusForbidden, "only the router's own dashboard may send this request")
		}
	}
}

// maxSent bounds the body of a request, bytes.
const maxSent = 64 << 20

// own accepts only POST requests of our own page: a form of another page can't send this
// type of content, and a script of another page can't send this request.
func own(serve http.HandlerFunc) http.HandlerFunc {
	foreign := http.NewCrossOriginProtection()
	return func(w http.ResponseWriter, r *http.Request) {
		if err := foreign.Check(r); err != nil {
			refuse(w, http.StatusForbidden, "only the router's own dashboard may send this")
			return
		}
		if r.Header.Get("Content-Type") != "application/json" {
			refuse(w, http.StatusUnsupportedMediaType, "the Content-Type must be application/json")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxSent)
		serve(w, r)
	}
}

// reply writes v as JSON. Results of tools stay as their servers wrote them.
func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
}

func refuse(w http.ResponseWriter, status int, why string) { reply(w, status, Refusal{why}) }

// exposed returns the exposed names of the tools of a snapshot.
func (a *API) exposed(snapshot *registry.Snapshot) *exposure.ToolNames {
	edited, r := a.router.Edited(), a.router.Config().Router
	if n := a.names.Load(); n != nil && n.snapshot == snapshot && n.edited == edited {
		return n.ToolNames
	}
	n := &exposedNames{snapshot, edited, exposure.OfTools(snapshot.Tools(), r.Names, r.Separator, r.Gateway.Prefix)}
	a.names.Store(n)
	return n.ToolNames
}
