// Package admin is the JSON API of a router: the one way in for the page that shows the router to a
// person, and for commands.
//
// An [API] is an observer of the selector: it keeps the last calls and counts the calls of the
// last minutes, even while no page is open. It reads everything else at each request.
//
// The table of routes names for each path the function that answers and the requests that it accepts. All
// routes are for clients of the role "admin" alone; the caller of [API.Register] serves them only to these.
// [ForCommands] marks requests of commands of the router's own user.
//
// The types of api.go are for the page, the types of answers.go also for commands.
package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/dashboard"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/telemetry"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/server"
)

// Options describe the router of an API. The zero value is for a router of a test.
type Options struct {
	Version string
	DataDir string          // "" if nothing is kept
	Mask    *telemetry.Mask // hides secrets; nil makes one, which knows the secrets of the configurations

	// Watched says that edits of the configuration's files take effect when they are saved.
	Watched bool

	// TrustCommand returns the command that approves a file; "" is the .mcp.json of a person's
	// current folder. Nil if the files are not followed.
	TrustCommand func(file string) string
}

// An API answers requests about a router. Create it before the router, since it is an observer of
// the router.
type API struct {
	callStats
	options Options
	born    time.Time
	pages   atomic.Int32 // open pages

	router *adapter.Router // set by Register, as mcp is
	mcp    *server.Servers

	logins sync.Map // a knownLogin by server
	shown  atomic.Pointer[configuration]
}

// New returns the API for a router of the configuration.
func New(c config.Config, o Options) *API {
	o.Mask = cmp.Or(o.Mask, new(telemetry.Mask))
	a := &API{options: o, born: time.Now(), callStats: callStats{mask: o.Mask}}
	a.Loaded(c)
	return a
}

// Register adds the routes to mux. Call it once. mcp is nil for a router that runs for one command and
// serves no client. The routes must be served only to clients of the role "admin", as
// [server.HTTPOptions.Pages] are.
func (a *API) Register(mux *http.ServeMux, r *adapter.Router, mcp *server.Servers) {
	a.router, a.mcp = r, mcp
	for _, route := range routes {
		mux.HandleFunc(route.pattern, a.handler(route))
	}
}

// A sender says which requests a route accepts, of those that come from a client of the role "admin".
type sender int

const (
	anyPage   sender = iota // all: the answer has nothing of the router
	ownPage                 // no request that a browser sends for a page of another origin
	onCommand               // only requests of commands of the router's user
)

// A route is a pattern of [http.ServeMux], the requests that it accepts, and the function that answers
// them: as JSON, or itself.
type route struct {
	pattern string
	from    sender
	answer  func(*query) (any, error)
	serve   func(*API, http.ResponseWriter, *http.Request)
}

// routes are all routes. A test asks for each as a client with a token of the role "use", and as a page
// of another site.
var routes = []route{
	{"GET /{$}", anyPage, nil, file(dashboard.Index)},
	{"GET /dashboard/page/{file...}", anyPage, nil, file(dashboard.File)},
	{"GET /dashboard/events", ownPage, nil, (*API).events}, // the calls of all clients

	{"POST /dashboard/tools", ownPage, with(listTools), nil}, // of all profiles
	{"GET /dashboard/tool", ownPage, showTool, nil},
	{"GET /dashboard/capabilities", ownPage, listCapabilities, nil},
	{"POST /dashboard/why", ownPage, with(explainOffer), nil},
	{"POST /dashboard/call", ownPage, with(callTool), nil},
	{"POST /dashboard/route", ownPage, with(routeTask), nil},
	{"POST /dashboard/script", onCommand, with(runScript), nil},
	{"POST /dashboard/classify", ownPage, with(classifyText), nil},

	{"GET /dashboard/servers", ownPage, listServers, nil},
	{"GET /dashboard/servers/{name}", ownPage, showServer, nil},
	{"GET /dashboard/servers/{name}/hints", ownPage, listHints, nil},
	{"POST /dashboard/servers/{name}/{action}", ownPage, act, nil},

	{"GET /dashboard/logins", ownPage, listLogins, nil}, // of all users
	{"POST /dashboard/logins/{server}/{user}/end", ownPage, endLogin, nil},

	{"GET /dashboard/approvals", ownPage, listApprovals, nil},
	{"POST /dashboard/approvals/{id}/{action}", ownPage, answerApproval, nil},

	{"POST /dashboard/doctor", ownPage, runDoctor, nil},
}

// with returns the function of a route whose requests have a body of the type In.
func with[In any](answer func(*query, In) (any, error)) func(*query) (any, error) {
	return func(q *query) (any, error) {
		var in In
		if err := json.Unmarshal(q.body, &in); err != nil {
			return nil, badRequest(fmt.Errorf("the body is not what %s takes: %w", q.URL.Path, err))
		}
		return answer(q, in)
	}
}

// file returns the function of a route that answers the same for all routers.
func file(serve http.HandlerFunc) func(*API, http.ResponseWriter, *http.Request) {
	return func(_ *API, w http.ResponseWriter, r *http.Request) { serve(w, r) }
}

// maxBody bounds the body of a request, bytes. A command's script has an input, in which each byte may be escaped.
var maxBody = map[sender]int64{ownPage: 64 << 10, onCommand: 8 << 20}

// handler returns the handler of a route. A browser's page of another origin can't read an answer, and
// must not make the router work for it. It can't send the type of content that a POST must have either.
func (a *API) handler(route route) http.HandlerFunc {
	foreign := http.NewCrossOriginProtection()
	return func(w http.ResponseWriter, r *http.Request) {
		site := r.Header.Get("Sec-Fetch-Site")
		isForeign := foreign.Check(r) != nil || site != "" && site != "same-origin" && site != "none"
		switch {
		case route.from != anyPage && isForeign:
			refuse(w, http.StatusForbidden, "only the router's own dashboard may send this request")
		case r.Method == http.MethodPost && r.Header.Get("Content-Type") != "application/json":
			refuse(w, http.StatusUnsupportedMediaType, "the Content-Type must be application/json")
		case route.from == onCommand && !fromCommand(r):
			refuse(w, http.StatusForbidden, "only a command of the router's machine may send this")
		case route.answer != nil:
			r.Body = http.MaxBytesReader(w, r.Body, maxBody[route.from])
			a.reply(w, r, route.answer)
		default:
			route.serve(a, w, r)
		}
	}
}

// writeJSON writes v. Results of tools stay as their servers wrote them.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
}

func refuse(w http.ResponseWriter, status int, why string) { writeJSON(w, status, Refusal{why}) }

// exposed returns the exposed names of the snapshot's tools.
func (a *API) exposed(snapshot *registry.Snapshot) *exposure.ToolNames {
	r := a.router.Config().Router
	return exposure.OfTools(snapshot.Tools(), r.Names, r.Separator, r.Gateway.Prefix)
}
