package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/telemetry"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
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
			text = fmt.Appendf(nil, "event: state\ndata: %s\n\n", wire.Marshal(u))
		} else if now.Sub(sent) < keepAliveInterval {
			text = nil
		}
		if text != nil {
			control.SetWriteDeadline(time.Now().Add(writeTimeout))
			if _, err := w.Write(text); err != nil || control.Flush() != nil {
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
	servers   []status.Server          // of its last details
	logins    map[string]*LoginDetails // likewise
	has       update                   // its last parts
}

// next returns an update with everything at first, and with all changes since the last update after
// that. news is false if nothing has changed.
func (p *pageState) next(now time.Time) (u update, news bool) {
	snapshot := p.router.Snapshot()
	mode, cost := p.mcp.Default.Shown()
	u = update{Now: now, Full: p.snapshot == nil}
	news = u.Full
	if snapshot != p.snapshot || mode != p.mode {
		p.snapshot, p.mode, news = snapshot, mode, true
		u.Catalog = &catalog{Tools: len(snapshot.Tools()), Prompts: len(snapshot.Prompts()), Resources: len(snapshot.Resources()) + len(snapshot.Templates()), Capabilities: tagsOf(snapshot)}
		shown, all := cost()
		u.Router = &routerInfo{Version: p.options.Version, Node: execute.Node(), Mode: mode, Since: p.born, ListTokens: all, ShownTokens: shown, LoggedIn: p.loggedIn, Principal: p.principal}
	}
	u.Servers, u.Config, u.Clients, u.Approvals = p.allServers(u.Catalog != nil), p.configuration(), clientsOf(p.API), p.router.Approvals().List()
	news = isNew(&p.has.Servers, &u.Servers) || news
	news = isNew(&p.has.Config, &u.Config) || news
	news = isNew(&p.has.Clients, &u.Clients) || news
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

// allServers returns the details of all servers: those that the page has if nothing of which they are made has changed.
func (p *pageState) allServers(edited bool) []ServerDetails {
	servers, logins := p.router.Servers(), make(map[string]*LoginDetails)
	for _, s := range servers {
		logins[s.Name] = p.loginOf(s)
	}
	p.API.logins.Range(func(name, _ any) bool {
		if _, ok := logins[name.(string)]; !ok {
			p.API.logins.Delete(name)
		}
		return true
	})
	if !edited && reflect.DeepEqual(servers, p.servers) && reflect.DeepEqual(logins, p.logins) {
		return p.has.Servers
	}
	p.servers, p.logins = servers, logins
	all := []ServerDetails{}
	for _, s := range servers {
		all = append(all, p.detailsOf(s, logins[s.Name]))
	}
	return all
}

const (
	keptCalls = 200 // calls that a page gets
	maxShown  = 500 // bytes of a name or fault
)

// A callStats keeps the last calls.
type callStats struct {
	mu    sync.Mutex // guards the fields below, but mask
	last  int64      // Seq of the last call
	calls [keptCalls]endedCall

	mask *telemetry.Mask // hides secrets in the descriptions of failures
}

// Executed implements [selector.Observer].
func (cs *callStats) Executed(e selector.Execution) {
	c := endedCall{
		Time: e.Began, Trace: e.Trace, Script: e.Script, Client: shortened(e.Client), Principal: e.Principal, Profile: e.Profile,
		Server: cmp.Or(e.Tool.Server, "metarouter"), Tool: cmp.Or(e.Tool.Name, e.Tool.ID), MS: float64(e.Took.Microseconds()) / 1000,
		In: len(e.Arguments), Out: len(e.Result), Attempts: e.Attempts, Outcome: e.Outcome, Fault: cs.fault(e), Cached: e.Cached,
	}
	if e.Answered != nil && e.Answered.ID != e.Tool.ID {
		c.Answered = e.Answered.ID
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.last++
	c.Seq = cs.last
	cs.calls[c.Seq%keptCalls] = c
}

// Searched implements [selector.Observer].
func (*callStats) Searched(selector.Search) {}

// fault returns the reason of a failure, without secrets. If the tool itself reports the failure, the
// reason is the first line of its result that is no heading such as "### Error", which is shown on the page and never logged.
func (cs *callStats) fault(e selector.Execution) string {
	const most = 64 << 10 // bytes; a longer result is not read
	said := e.Fault
	if e.Outcome == execute.ToolError && len(e.Result) <= most {
		for line := range strings.Lines(strings.TrimSpace(selector.Result{JSON: e.Result}.Text())) {
			if said = strings.TrimSpace(line); said != "" && !strings.HasPrefix(strings.TrimLeft(said, "#"), " ") {
				break
			}
		}
	}
	if said == "" {
		return ""
	}
	return shortened(cs.mask.Text(plain.Text(said[:min(len(said), 2*maxShown)])))
}

// shortened returns at most maxShown bytes of a text.
func shortened(text string) string { return prose.Cut(strings.ToValidUTF8(text, ""), maxShown) }

// since returns the calls after the call with that number, and how many more it left out.
func (cs *callStats) since(seq int64) (calls []endedCall, skipped int) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	first := max(seq+1, cs.last-keptCalls+1, 1)
	for n := first; n <= cs.last; n++ {
		calls = append(calls, cs.calls[n%keptCalls])
	}
	return calls, int(first - seq - 1)
}
