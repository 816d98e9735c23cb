package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/server"
)

// page has the files that browsers load.
//
//go:embed page
var page embed.FS

// A Dashboard collects what its pages show. Create it before the router, since it is an
// observer of the router.
type Dashboard struct {
	board
	version string
	node    string
	log     *zap.Logger
	born    time.Time
	pages   atomic.Int32 // open pages

	router *adapter.Parts // set by Register, as mcp is
	mcp    *server.Servers
	names  atomic.Pointer[exposedNames]

	doctors // cached diagnoses of servers that do not work
	logins  knownLogins

	mu     sync.Mutex // guards the fields below
	loaded config.Config
	shown  *configuration // replaced at each change
}

// exposedNames are the exposed names of a snapshot's tools.
type exposedNames struct {
	snapshot         *registry.Snapshot
	names, separator string // as in the configuration
	*server.ToolNames
}

// New returns the dashboard for a router of the configuration.
func New(c config.Config, version, node string, log *zap.Logger) *Dashboard {
	d := &Dashboard{version: version, node: node, log: log.Named("dashboard"), born: time.Now()}
	d.Loaded(c)
	return d
}

// Register adds the page's routes to mux, and shows the router and its MCP server from now
// on. Call it once. The routes must be served to those alone who may see the calls of all
// clients and act on servers, as [server.HTTPOptions.Pages] are.
func (d *Dashboard) Register(mux *http.ServeMux, r *adapter.Parts, mcp *server.Servers) {
	d.router, d.mcp = r, mcp
	for _, route := range d.routes() {
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
func (d *Dashboard) routes() []route {
	return []route{
		{"GET /{$}", func(w http.ResponseWriter, r *http.Request) { show(w, r, "index.html") }},
		{"GET /dashboard/page/{file...}", file},
		{"GET /schema.json", schema},
		{"GET /dashboard/events", asked(d.events)}, // the calls of all clients
		{"GET /dashboard/profiles", asked(d.profiles)},
		{"GET /dashboard/tools", asked(d.tools)}, // of all profiles
		{"GET /dashboard/tool", asked(d.tool)},
		{"POST /dashboard/call", own(d.call)},
		{"GET /dashboard/approvals", asked(d.approvals)},
		{"POST /dashboard/approvals/{id}/{action}", own(d.decide)},
		{"POST /dashboard/servers/{name}/{action}", own(d.act)},
	}
}

// policy lets the page load only its own files, and lets no page frame it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// file answers with a file of the page. Folders are not listed.
func file(w http.ResponseWriter, r *http.Request) { show(w, r, r.PathValue("file")) }

// show answers with one of the page's files. Browsers ask each time whether their copy is
// the newest, since another version of the program may answer next.
func show(w http.ResponseWriter, r *http.Request, name string) {
	name = "page/" + name
	if info, err := fs.Stat(page, name); err != nil || info.IsDir() {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", edition())
	http.ServeFileFS(w, r, page, name)
}

// edition identifies the version of the page's files.
var edition = sync.OnceValue(func() string {
	all := sha256.New()
	if err := fs.WalkDir(page, "page", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := page.ReadFile(path)
		fmt.Fprintf(all, "%s %d ", path, len(text))
		all.Write(text)
		return err
	}); err != nil {
		panic(err) // the folder is a part of the program
	}
	return fmt.Sprintf("%q", hex.EncodeToString(all.Sum(nil)[:12]))
})

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

// maxSent bounds what a page sends, bytes.
const maxSent = 16 << 20

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

// answer writes v as JSON.
func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, why string) { answer(w, status, refusal{why}) }

// exposed returns the exposed names of the tools.
func (d *Dashboard) exposed(snapshot *registry.Snapshot) *server.ToolNames {
	d.mu.Lock()
	names, separator := d.loaded.Router.Names, d.loaded.Router.Separator
	d.mu.Unlock()
	if n := d.names.Load(); n != nil && n.snapshot == snapshot && n.names == names && n.separator == separator {
		return n.ToolNames
	}
	n := &exposedNames{snapshot, names, separator, server.NewNames(snapshot.Tools(), names, separator, "")}
	d.names.Store(n)
	return n.ToolNames
}
