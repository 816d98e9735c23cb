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
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
)

const (
	updateInterval    = time.Second      // between updates
	keepAliveInterval = 15 * time.Second // between comments that keep the stream alive while nothing changes
	writeTimeout      = 10 * time.Second // for a page to read an update
	maxPages          = 50
	maxChanged        = 20 // changed tools of a server
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
		control.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := w.Write(text); err != nil {
			return err
		}
		return control.Flush()
	}
	ticker := time.NewTicker(updateInterval)
	defer ticker.Stop()
	page := &pageState{API: a, loggedIn: clientauth.LoggedIn(r.Context())}
	if page.loggedIn {
		page.principal = plain.Text(clientauth.PrincipalOf(r.Context()).Name)
	}
	var sent time.Time
	for now := time.Now(); ; {
		waiting := a.router.Approvals().Changed() // before the update is made, so that no change is missed
		text := []byte(":\n\n")                   // a comment
		if u, news := page.next(now); news {
			b, err := json.Marshal(u)
			if err != nil {
				a.options.Log.DPanic("an update is not JSON: " + err.Error())
				return
			}
			text = append(append([]byte("event: state\ndata: "), b...), '\n', '\n')
		} else if now.Sub(sent) < keepAliveInterval {
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
		case <-waiting:
			now = time.Now()
		case <-r.Context().Done():
			return
		}
	}
}

// A pageState is the state that a page has. It makes updates of the parts that differ.
type pageState struct {
	*API
	loggedIn  bool   // the page's browser
	principal string // the person who has logged in there
	begun     bool
	info      routerInfo
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

// A sentServer is a server as a page has it.
type sentServer struct {
	is   adapter.ServerInfo
	info serverInfo
}

// next returns an update with everything at first, and with all changes since the last update after
// that. news is false if nothing has changed.
func (p *pageState) next(now time.Time) (u update, news bool) {
	u = update{Now: now, Full: !p.begun}
	snapshot, mode := p.router.Snapshot(), p.mcp.Default().Mode()
	if u.Full || snapshot != p.snapshot || mode != p.info.Mode {
		p.snapshot = snapshot
		u.Catalog = &catalog{Tools: len(snapshot.Tools()), Prompts: len(snapshot.Prompts()), Resources: len(snapshot.Resources()) + len(snapshot.Templates()), Capabilities: tagsOf(snapshot)}
		shown, all := p.mcp.Default().ListTokens()
		info := routerInfo{Version: p.options.Version, Node: execute.Node(), Mode: mode, Since: p.born, ListTokens: all, ShownTokens: shown, LoggedIn: p.loggedIn, Principal: p.principal}
		u.Router = differing(&p.info, info, false)
	}
	p.nextServers(&u)
	u.Calls, u.Skipped = p.since(p.call)
	if n := len(u.Calls); n > 0 {
		p.call = u.Calls[n-1].Seq
	}
	if u.Full {
		u.Skipped = 0 // a new page has not missed them
	}
	u.Rates = p.rates(p.second, now.Unix())
	u.Latency = differing(&p.latency, p.histogram(now.Unix()), u.Full)
	if c := p.configuration(); c != p.config {
		p.config, u.Config = c, c
	}
	u.Clients = differing(&p.clients, clientsOf(p.API), u.Full)
	if c := clusterOf(p.router); c.In || p.cluster.In {
		u.Cluster = differing(&p.cluster, c, u.Full)
	}
	if waiting := p.router.Approvals().List(); u.Full || !slices.Equal(waiting, p.approvals) {
		p.approvals, u.Approvals = waiting, waiting
	}
	quiet := !slices.ContainsFunc(u.Rates, func(s second) bool { return s.OK+s.Failed > 0 })
	news = u.Full || u.Router != nil || u.Order != nil || u.Servers != nil || u.Calls != nil || u.Latency != nil || u.Catalog != nil || u.Config != nil || u.Clients != nil || u.Cluster != nil || u.Approvals != nil || !quiet
	if news { // else the next update has these seconds
		p.second = now.Unix()
	}
	p.begun = true
	return u, news
}

// differing makes now what a page has of a part, and returns it if it differs, or all is sent.
func differing[T any](has *T, now T, all bool) *T {
	if !all && reflect.DeepEqual(*has, now) {
		return nil
	}
	*has = now
	return &now
}

func (p *pageState) nextServers(u *update) {
	servers := make(map[string]sentServer)
	var order []string
	for _, s := range p.router.Servers() {
		before, ok := p.servers[s.Name]
		now := sentServer{s, p.infoOf(s, before)}
		order = append(order, s.Name)
		servers[s.Name] = now
		if !ok || !reflect.DeepEqual(before.info, now.info) {
			u.Servers = append(u.Servers, now.info)
		}
	}
	if u.Full || !slices.Equal(order, p.order) {
		u.Order = append([]string{}, order...)
		gone := func(server string) bool { _, ok := servers[server]; return !ok }
		p.forget(gone)
		p.logins.Range(func(server, _ any) bool {
			if gone(server.(string)) {
				p.logins.Delete(server)
			}
			return true
		})
	}
	p.order, p.servers = order, servers
}

func (a *API) infoOf(s adapter.ServerInfo, before sentServer) serverInfo {
	info := serverInfo{
		ServerRow: exposure.ServerRows([]adapter.ServerInfo{s})[0], ByHand: s.ByHand, Doing: s.Doing, StrayLines: s.StrayLines,
		Calls: s.Calls, Waiting: s.Waiting, Stderr: before.info.Stderr, Latency: a.latenciesOf(s.Name),
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
	switch s.State {
	case status.Failed, status.NeedsAuth, status.Misconfigured, status.Self:
		info.Problem, info.Fix = a.diagnose(s)
	}
	info.Login = a.loginOf(s)
	offer := a.router.Snapshot().Offer(s.Name)
	info.ChangedTools, info.Changed = changedTools(offer)
	unconfirmed := hintsOf(offer)
	info.ChangedHints, info.Hints = len(unconfirmed), unconfirmed[:min(len(unconfirmed), maxChanged)]
	return info
}

// changedTools returns how many tools of a server changed since a person last looked, and
// the names of the first ones.
func changedTools(l registry.Listing) (n int, names []string) {
	if len(l.LastSeen) == 0 {
		return 0, nil
	}
	for _, t := range l.Tools {
		if _, changed := l.LastSeen[t.ServerName()]; changed {
			if n++; n <= maxChanged {
				names = append(names, t.Name)
			}
		}
	}
	return n, names
}
