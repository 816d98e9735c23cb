package dashboard

import (
	"embed"
	"encoding/json"
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

// page is what browsers load.
//
//go:embed page
var page embed.FS

// A Dashboard knows what its pages show. It must be made before the router, as the
// router's observer.
type Dashboard struct {
	board
	version string
	node    string
	log     *zap.Logger
	born    time.Time
	pages   atomic.Int32 // that are open

	router *adapter.Router // set by Register, as face is
	face   *server.Server
	names  atomic.Pointer[exposedNames]

	mu     sync.Mutex // guards what follows
	loaded config.Config
	shown  *configuration // replaced at each change
}

// exposedNames are those names of a snapshot's tools.
type exposedNames struct {
	snapshot *registry.Snapshot
	*server.ToolNames
}

// New returns the dashboard of a router that is yet to be made of c.
func New(c config.Config, version, node string, log *zap.Logger) *Dashboard {
	d := &Dashboard{version: version, node: node, log: log.Named("dashboard"), born: time.Now()}
	d.Loaded(c)
	return d
}

// Register adds the page's routes to mux, and shows the router and its face from now
// on. It may be called once.
func (d *Dashboard) Register(mux *http.ServeMux, r *adapter.Router, face *server.Server) {
	d.router, d.face = r, face
	mux.HandleFunc("GET /{$}", d.index)
	mux.Handle("GET /dashboard/page/", d.static())
	mux.HandleFunc("GET /schema.json", schema)
	mux.HandleFunc("GET /dashboard/events", d.events)
	mux.HandleFunc("GET /dashboard/tools", d.tools)
	mux.HandleFunc("GET /dashboard/tool", d.tool)
	mux.HandleFunc("POST /dashboard/call", own(d.call))
	mux.HandleFunc("POST /dashboard/servers/{name}/{action}", own(d.act))
}

// policy lets the page load nothing but its own files, and nobody frame it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func (d *Dashboard) index(w http.ResponseWriter, r *http.Request) {
	guarded(w)
	http.ServeFileFS(w, r, page, "page/index.html")
}

func (d *Dashboard) static() http.Handler {
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // the folder is a part of the program
	}
	serve := http.StripPrefix("/dashboard/page/", http.FileServerFS(files))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guarded(w)
		serve.ServeHTTP(w, r)
	})
}

// schema answers with the JSON Schema of the configuration's files.
func schema(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/schema+json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Write(config.Schema())
}

// guarded sets what browsers shall know of a page. Nothing is kept: another version of
// the program may answer next.
func guarded(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
}

// own lets through POST requests of our own page alone: no form of another page can
// send this type of content, and no script of one this request.
func own(serve http.HandlerFunc) http.HandlerFunc {
	foreign := http.NewCrossOriginProtection()
	return func(w http.ResponseWriter, r *http.Request) {
		if err := foreign.Check(r); err != nil {
			refuse(w, http.StatusForbidden, "only the router's own page may send this")
			return
		}
		if r.Header.Get("Content-Type") != "application/json" {
			refuse(w, http.StatusUnsupportedMediaType, "the Content-Type must be application/json")
			return
		}
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
	if n := d.names.Load(); n != nil && n.snapshot == snapshot {
		return n.ToolNames
	}
	c := d.router.Config().Router
	n := &exposedNames{snapshot, server.NewNames(snapshot.Tools(), c.Names, c.Separator)}
	d.names.Store(n)
	return n.ToolNames
}
