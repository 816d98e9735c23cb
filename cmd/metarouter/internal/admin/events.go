package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/approval"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/serverrow"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
)

const (
	tick     = time.Second      // between updates
	beat     = 15 * time.Second // between comments that keep the stream alive while nothing changes
	patience = 10 * time.Second // for a page to read an update
	maxPages = 50
	maxNamed = 20 // changed tools of a server
)

// events streams updates to a page until it is closed.
func (a *API) events(w http.ResponseWriter, r *http.Request) {
	if a.pages.Add(1) > maxPages {
		a.pages.Add(-1)
		refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("%d of these pages are open; close one", maxPages))
		return
	}
	defer a.pages.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // proxies must not wait for more
	if r.Method == http.MethodHead {
		return
	}
	control := http.NewResponseController(w)
	send := func(text []byte) error {
		control.SetWriteDeadline(time.Now().Add(patience))
		if _, err := w.Write(text); err != nil {
			return err
		}
		return control.Flush()
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	watching := &watcher{api: a, loggedIn: clientauth.LoggedIn(r.Context())}
	if watching.loggedIn {
		watching.principal = plain.Text(clientauth.PrincipalOf(r.Context()).Name)
	}
	var sent time.Time
	for now := time.Now(); ; {
		asked := a.router.Approvals().Changed() // before the update is made, so that none is missed
		text := []byte(":\n\n")                 // a comment
		if u, news := watching.next(now); news {
			b, err := json.Marshal(u)
			if err != nil {
				a.options.Log.DPanic("an update is not JSON: " + err.Error())
				return
			}
			text = append(append([]byte("event: state\ndata: "), b...), '\n', '\n')
		} else if now.Sub(sent) < beat {
			text = nil
		}
		if text != nil {
			if send(text) != nil {
				return
			}
			sent = now
		}
		select {
		case now = <-ticker.C:
		case <-asked:
			now = time.Now()
		case <-r.Context().Done():
			return
		}
	}
}

// A watcher knows the state that a page has, so that it gets only what has changed.
type watcher struct {
	api       *API
	loggedIn  bool   // the page's browser
	principal string // who has logged in there
	begun     bool
	router    routerInfo
	order     []string
	servers   map[string]sentServer
	call      int64 // Seq of the last one
	second    int64 // the first that was not sent
	latency   histogram
	snapshot  *registry.Snapshot
	config    *configuration
	clients   clientList
	cluster   clusterInfo
	approvals []approval.Pending
}

// A sentServer is a server, and the information about it that a page has.
type sentServer struct {
	is   adapter.ServerInfo
	info serverInfo
}

// next returns what has changed since the last call; the first call returns everything.
// news is false if nothing has changed.
func (w *watcher) next(now time.Time) (u update, news bool) {
	a := w.api
	u = update{Now: now, Full: !w.begun}
	snapshot, mode := a.router.Snapshot(), a.mcp.Default().Mode()
	if u.Full || snapshot != w.snapshot || mode != w.router.Mode {
		w.snapshot = snapshot
		u.Catalog = catalogOf(snapshot)
		shown, all := a.mcp.Default().ListTokens()
		info := routerInfo{Version: a.options.Version, Node: execute.Node(), Mode: mode, Since: a.born, ListTokens: all, ShownTokens: shown, LoggedIn: w.loggedIn, Principal: w.principal}
		if info != w.router {
			w.router, u.Router = info, &info
		}
	}
	w.nextServers(&u)
	u.Calls, u.Skipped = a.since(w.call)
	if n := len(u.Calls); n > 0 {
		w.call = u.Calls[n-1].Seq
	}
	if u.Full {
		u.Skipped = 0 // a new page has not missed them
	}
	u.Rates = a.rates(w.second, now.Unix())
	if h := a.histogram(now.Unix()); u.Full || !slices.Equal(h.Counts, w.latency.Counts) {
		w.latency, u.Latency = h, &h
	}
	if c := a.configuration(); c != w.config {
		w.config, u.Config = c, c
	}
	if c := a.clients(); u.Full || !reflect.DeepEqual(c, w.clients) {
		w.clients, u.Clients = c, &c
	}
	if c := a.cluster(); u.Full && c.In || !reflect.DeepEqual(c, w.cluster) {
		w.cluster, u.Cluster = c, &c
	}
	if waiting := a.router.Approvals().List(); u.Full || !slices.Equal(waiting, w.approvals) {
		w.approvals, u.Approvals = waiting, waiting
	}
	quiet := !slices.ContainsFunc(u.Rates, func(s second) bool { return s.OK+s.Failed > 0 })
	news = u.Full || u.Router != nil || u.Order != nil || u.Servers != nil || u.Calls != nil || u.Latency != nil || u.Catalog != nil || u.Config != nil || u.Clients != nil || u.Cluster != nil || u.Approvals != nil || !quiet
	if news { // else the next update has these seconds
		w.second = now.Unix()
	}
	w.begun = true
	return u, news
}

// nextServers adds the servers that have changed.
func (w *watcher) nextServers(u *update) {
	servers := make(map[string]sentServer)
	var order []string
	for _, s := range w.api.router.Servers() {
		before, ok := w.servers[s.Name]
		now := sentServer{s, w.api.infoOf(s, before)}
		order = append(order, s.Name)
		servers[s.Name] = now
		if !ok || !reflect.DeepEqual(before.info, now.info) {
			u.Servers = append(u.Servers, now.info)
		}
	}
	if u.Full || !slices.Equal(order, w.order) {
		u.Order = append([]string{}, order...)
		gone := func(server string) bool { _, ok := servers[server]; return !ok }
		w.api.forget(gone)
		forget(&w.api.diagnoses, gone)
		forget(&w.api.logins, gone)
	}
	w.order, w.servers = order, servers
}

// infoOf returns what a page shows of a server. before is what the page has of it.
func (a *API) infoOf(s adapter.ServerInfo, before sentServer) serverInfo {
	info := serverInfo{
		Row: serverrow.Of([]adapter.ServerInfo{s})[0], ByHand: s.ByHand, Doing: s.Doing, StrayLines: s.StrayLines,
		Calls: s.Calls, Waiting: s.Waiting, Stderr: before.info.Stderr, Latency: a.trail(s.Name),
	}
	info.LastError = before.info.LastError
	if s.LastError != before.is.LastError || s.State != before.is.State {
		info.LastError = s.LastError
		if s.State != status.Misconfigured { // its error is our own text, which names the variable that is not set
			info.LastError = a.mask.Text(plain.Text(s.LastError))
		}
	}
	if info.Stderr == nil || !slices.Equal(s.Stderr, before.is.Stderr) {
		info.Stderr = []string{}
		for _, line := range s.Stderr {
			info.Stderr = append(info.Stderr, a.mask.Text(line))
		}
	}
	info.Problem, info.Fix = a.diagnose(s)
	info.Login = a.loginOf(s)
	offer := a.router.Snapshot().Offer(s.Name)
	info.ChangedTools, info.Changed = changedTools(offer)
	unconfirmed := hintsOf(offer)
	info.ChangedHints, info.Hints = len(unconfirmed), unconfirmed[:min(len(unconfirmed), maxNamed)]
	return info
}

// catalogOf returns what there is to say of all tools together.
func catalogOf(s *registry.Snapshot) *catalog {
	return &catalog{Tools: len(s.Tools()), Prompts: len(s.Prompts()), Resources: len(s.Resources()) + len(s.Templates()), Capabilities: tagsOf(s)}
}

// changedTools returns how many tools of a server changed since a person last looked, and
// the names of the first ones.
func changedTools(l registry.Listing) (n int, names []string) {
	if len(l.LastSeen) == 0 {
		return 0, nil
	}
	for _, t := range l.Tools {
		if _, changed := l.LastSeen[t.ServerName()]; changed {
			if n++; n <= maxNamed {
				names = append(names, t.Name)
			}
		}
	}
	return n, names
}
