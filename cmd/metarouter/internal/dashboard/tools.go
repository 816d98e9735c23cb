package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/changes"
	"github.com/mcp-metarouter/metarouter/internal/hints"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

const (
	maxFound  = 50      // tools in a ranking
	maxListed = 1000    // tools in a list
	maxWords  = 4 << 10 // bytes of a search
	maxDiff   = 2000    // characters of a member of a changed definition, before and after
	maxNamed  = 20      // changed tools of a server
)

// toolOf returns what the page shows of a tool.
func (d *Dashboard) toolOf(t *registry.NormalizedTool, snapshot *registry.Snapshot) tool {
	harmless, _ := selector.Harmless(t)
	_, changed := snapshot.Offer(t.Server).LastSeen[t.ServerName()]
	return tool{
		ID: t.ID, Server: t.Server, Name: t.Name, ExposedName: d.exposed(snapshot).Exposed(t), Title: t.Title, Description: t.Description,
		Capabilities: append([]string{}, t.Capabilities...), Hints: t.Hints, Tokens: len(t.Definition) / registry.BytesPerToken, Asks: !harmless, Changed: changed, Doubt: t.Doubt,
	}
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

// changedHints returns how many tools of a server have hints that no person has confirmed, and
// the first ones.
func changedHints(l registry.Listing) (n int, first []hint) {
	all := hints.Unconfirmed(l)
	for _, c := range all[:min(len(all), maxNamed)] {
		first = append(first, hint{c.Tool.ID, c.Tool.ServerName(), c.Tool.Hints, hints.Changes(c.Was, c.Tool.Hints)})
	}
	return len(all), first
}

// tools answers GET /dashboard/tools.
func (d *Dashboard) tools(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	words, tags := q.Get("q"), q["capability"]
	if len(words) > maxWords {
		words = strings.ToValidUTF8(words[:maxWords], "")
	}
	var servers []string
	if only := q.Get("server"); only != "" {
		servers = []string{only}
	}
	snapshot := d.router.Snapshot()
	found := ranking{Total: len(snapshot.Tools()), Tools: []tool{}}
	if words == "" {
		found.Sure = true
		all := snapshot.Tools()
		if len(tags) > 0 {
			all = snapshot.FindByCapability(tags...)
		}
		limit, err := strconv.Atoi(q.Get("limit"))
		if err != nil || limit <= 0 {
			limit = maxFound
		}
		for _, t := range all {
			if servers != nil && t.Server != servers[0] {
				continue
			}
			if found.Fitting++; found.Fitting <= min(limit, maxListed) {
				found.Tools = append(found.Tools, d.toolOf(t, snapshot))
			}
		}
		answer(w, http.StatusOK, found)
		return
	}
	ranked, err := d.router.Find(r.Context(), selector.Query{Task: words, Capabilities: tags, Servers: servers, Limit: maxFound})
	if err == nil {
		err = d.rank(r.Context(), words, ranked, &found, snapshot)
	}
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	answer(w, http.StatusOK, found)
}

// rank adds the candidates to found, and why they were found.
func (d *Dashboard) rank(ctx context.Context, words string, ranked selector.Ranking, found *ranking, snapshot *registry.Snapshot) error {
	why, err := d.router.Explain(ctx, words, ranked.Candidates)
	if err != nil {
		return err
	}
	found.Sure, found.Abstained, found.Fitting = ranked.Sure, ranked.Abstained, len(ranked.Candidates)
	for i, c := range ranked.Candidates {
		t := d.toolOf(c.Tool, snapshot)
		t.Score, t.Confidence, t.Why, t.Reason = c.Score, c.Confidence, &why[i], why[i].Why()
		found.Tools = append(found.Tools, t)
	}
	return nil
}

// tool answers GET /dashboard/tool.
func (d *Dashboard) tool(w http.ResponseWriter, r *http.Request) {
	snapshot := d.router.Snapshot()
	t, ok := snapshot.Tool(r.URL.Query().Get("id"))
	if !ok {
		refuse(w, http.StatusNotFound, "this tool does not exist, or no longer exists")
		return
	}
	answer(w, http.StatusOK, wholeTool{
		tool: d.toolOf(t, snapshot), InputSchema: t.InputSchema, OutputSchema: wire.Member(t.Definition, "outputSchema"),
		Definition: t.Definition, Repairs: t.Repairs,
		Changes: changes.Diff(snapshot.Offer(t.Server).LastSeen[t.ServerName()], t.Definition, maxDiff),
	})
}

// call answers POST /dashboard/call.
func (d *Dashboard) call(w http.ResponseWriter, r *http.Request) {
	var asked callRequest
	body, err := io.ReadAll(r.Body) // read to the end, or net/http would not notice that the page is closed
	if err == nil {
		err = json.Unmarshal(body, &asked)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "the body is not a call: "+err.Error())
		return
	}
	t, ok := d.router.Tool(asked.Tool)
	if !ok {
		refuse(w, http.StatusNotFound, "this tool does not exist, or no longer exists")
		return
	}
	routed, err := selector.Route(r.Context(), d.router, selector.RouteRequest{
		Call:      selector.Call{Tool: t, Arguments: asked.Arguments, Client: "dashboard"},
		RunUnsafe: asked.Confirmed,
	})
	if theirs, ok := errors.AsType[*session.Error](err); ok {
		refuse(w, http.StatusBadGateway, "server "+t.Server+" answered with an error: "+theirs.Error())
		return
	} else if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	if !routed.Ran {
		refuse(w, http.StatusConflict, "the call must be confirmed: "+routed.Unsafe)
		return
	}
	answer(w, http.StatusOK, called{routed.Result.JSON})
}

// actTime bounds an action on a server.
const actTime = 2 * time.Minute

// act answers POST /dashboard/servers/NAME/ACTION.
func (d *Dashboard) act(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if !slices.ContainsFunc(d.router.Servers(), func(s adapter.ServerInfo) bool { return s.Name == name }) {
		refuse(w, http.StatusNotFound, "this server does not exist, or no longer exists")
		return
	}
	r = byActor(r)
	ctx, cancel := context.WithTimeout(r.Context(), actTime)
	defer cancel()
	var err error
	action := r.PathValue("action")
	switch action {
	case "restart":
		err = d.router.Restart(ctx, name)
	case "stop":
		err = d.router.Turn(ctx, name, false)
	case "start":
		err = d.router.Turn(ctx, name, true)
	case "login":
		d.beginLogin(w, r, name)
		return
	case "logout":
		err = d.logout(ctx, name)
	case "seen":
		err = d.router.Seen(name)
	case "hints":
		var c confirmation
		if body, failed := io.ReadAll(r.Body); failed != nil || json.Unmarshal(body, &c) != nil || len(c.Hints) == 0 {
			refuse(w, http.StatusBadRequest, `the body must name the hints to confirm: {"hints": {"TOOL": {"readOnlyHint": true}}}`)
			return
		}
		err = d.router.ConfirmHints(name, c.Hints)
	default:
		refuse(w, http.StatusNotFound, "a server can be restarted, stopped, started, logged in to or out of, its changes marked as seen, and its hints confirmed")
		return
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("the action takes longer than %v; it continues in the background", actTime)
	}
	if action != "logout" { // which the logins record
		d.record(r, audit.Event{Action: audit.Control, Outcome: audit.OK, Target: name, Reason: action}, err)
	}
	if err != nil {
		refuse(w, http.StatusConflict, d.mask.Text(err.Error()))
		return
	}
	answer(w, http.StatusOK, struct{}{})
}
