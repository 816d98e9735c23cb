package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
)

const (
	updateInterval    = time.Second      // between updates
	keepAliveInterval = 15 * time.Second // between comments that keep the stream alive while nothing changes
	writeTimeout      = 10 * time.Second // for a page to read an update
	maxPages          = 50
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
	mode      string
	call      int64 // Seq of the last one
	snapshot  *registry.Snapshot
	servers   map[string]sentServer
	has       update // its last parts
}

// A sentServer is a server as a page has it, with all that its details are made of.
type sentServer struct {
	is       status.Server
	login    *LoginDetails
	snapshot *registry.Snapshot
	details  ServerDetails
}

// next returns an update with everything at first, and with all changes since the last update after
// that. news is false if nothing has changed.
func (p *pageState) next(now time.Time) (u update, news bool) {
	snapshot, mode := p.router.Snapshot(), p.mcp.Default().Mode()
	u = update{Now: now, Full: p.snapshot == nil}
	news = u.Full
	if snapshot != p.snapshot || mode != p.mode {
		p.snapshot, p.mode, news = snapshot, mode, true
		u.Catalog = &catalog{Tools: len(snapshot.Tools()), Prompts: len(snapshot.Prompts()), Resources: len(snapshot.Resources()) + len(snapshot.Templates()), Capabilities: tagsOf(snapshot)}
		shown, all := p.mcp.Default().ListTokens()
		u.Router = &routerInfo{Version: p.options.Version, Node: execute.Node(), Mode: mode, Since: p.born, ListTokens: all, ShownTokens: shown, LoggedIn: p.loggedIn, Principal: p.principal}
	}
	u.Servers, u.Config, u.Clients, u.Cluster, u.Approvals = p.allServers(snapshot), p.configuration(), clientsOf(p.API), clusterOf(p.router), p.router.Approvals().List()
	news = isNew(&p.has.Servers, &u.Servers) || news
	news = isNew(&p.has.Config, &u.Config) || news
	news = isNew(&p.has.Clients, &u.Clients) || news
	news = isNew(&p.has.Cluster, &u.Cluster) || news
	news = isNew(&p.has.Approvals, &u.Approvals) || news
	u.Calls, u.Skipped = p.since(p.call)
	if n := len(u.Calls); n > 0 {
		p.call = u.Calls[n-1].Seq
	}
	if u.Full {
		u.Skipped = 0 // a new page has not missed them
	}
	return u, news || u.Calls != nil
}

// isNew reports whether a part of an update is another one than the page has. It removes the part if not.
func isNew[T any](has, now *T) bool {
	if reflect.DeepEqual(*has, *now) {
		var none T
		*now = none
		return false
	}
	*has = *now
	return true
}

// allServers returns the details of all servers.
func (p *pageState) allServers(snapshot *registry.Snapshot) []ServerDetails {
	sent, all := make(map[string]sentServer), []ServerDetails{}
	for _, is := range p.router.Servers() {
		s := sentServer{is: is, login: p.loginOf(is), snapshot: snapshot}
		before, ok := p.servers[is.Name]
		stderr := before.details.Stderr // to mask it takes the most time
		if !ok || !slices.Equal(before.is.Stderr, is.Stderr) {
			stderr = masked(p.mask, is.Stderr)
		}
		if s.details = before.details; !ok || before.snapshot != snapshot || !reflect.DeepEqual(before.login, s.login) || !reflect.DeepEqual(before.is, is) {
			s.details = p.detailsOf(is, s.login, stderr)
		}
		sent[is.Name] = s
		all = append(all, s.details)
	}
	p.logins.Range(func(name, _ any) bool {
		if _, ok := sent[name.(string)]; !ok {
			p.logins.Delete(name)
		}
		return true
	})
	p.servers = sent
	return all
}
