package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/hints"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/profile"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/tokencount"
	"github.com/mcp-metarouter/metarouter/registry"
)

// Reasons says why a tool is or is not offered.
type Reasons struct {
	Tool    string   `json:"tool"` // its ID; the name in the question if no tool has it
	Offered bool     `json:"offered"`
	All     []string `json:"reasons"` // full sentences
	Rank    *int     `json:"rank"`    // from 1; null without a task, or if the tool is not among the candidates
}

func (a *Reasons) say(format string, args ...any) {
	a.All = append(a.All, plain.Line(fmt.Sprintf(format, args...)))
}

// A whyQuestion asks about a tool.
type whyQuestion struct {
	Config config.Config
	Tool   string // a name of the tool in any form
	Task   string // where does the tool rank for it? "" does not ask
	Mode   string // in which the running router shows tools; "" without one

	// Profile is the profile of the clients that the question is about; "" is all clients.
	Profile string
}

// askWhy answers the question for a router. It fails with a *exposure.NameError if several
// tools have the name.
func askWhy(ctx context.Context, r *adapter.Parts, q whyQuestion) (Reasons, error) {
	x := inquiry{config: q.Config, mode: q.Mode, asked: q.Tool, profile: q.Config.Router.Profiles[q.Profile]}
	look := func() error {
		x.look(r)
		var e *exposure.NameError
		if _, err := x.names.Resolve(ctx, x.asked); errors.As(err, &e) && len(e.Ambiguous) > 0 {
			return err
		}
		return nil
	}
	if err := look(); err != nil {
		return Reasons{}, err
	}
	all := q.Task != "" || q.Config.Router.Names == exposure.Bare // other tools decide on its rank, and on its name
	if !x.knows() || all {
		// Start the servers that can have the tool: all of them if the name does not say.
		if of, _, ok := exposure.Split(x.asked, q.Config.Router.Separator, x.servers); ok && !all {
			r.Try(ctx, of)
		} else {
			r.Settled(ctx)
		}
		if ctx.Err() != nil {
			return Reasons{}, ctx.Err()
		}
		if err := look(); err != nil {
			return Reasons{}, err
		}
	}
	a := x.answer(ctx)
	if t, ok := r.Snapshot().Tool(a.Tool); ok && a.Offered {
		a.limit(q, t)
	}
	if q.Task != "" {
		t, _ := r.Snapshot().Tool(a.Tool)
		if err := rank(ctx, r, t, q.Task, &a); err != nil {
			return Reasons{}, err
		}
	}
	return a, nil
}

// limit says which profiles do not allow the tool, or ask before its calls.
func (a *Reasons) limit(q whyQuestion, t *registry.NormalizedTool) {
	all := q.Config.Router.Profiles
	names := slices.Sorted(maps.Keys(all))
	if q.Profile != "" {
		names = []string{q.Profile}
	}
	for _, name := range names {
		rules := profile.Of(all, name)
		if refusal := rules.Refusal(t); refusal != "" {
			if name != q.Profile {
				a.say("%s.", refusal)
				continue
			}
			a.Offered = false
			a.All[0] = plain.Line(refusal) + "." // instead of how it is listed
		} else if asks := rules.Asks(t).String(); asks != "" {
			a.say("%s, and so before calls of it.", asks)
		}
	}
}

// An inquiry has the facts for an answer. Its methods are pure but for look, which
// reads the router.
type inquiry struct {
	config   config.Config
	mode     string // in which the running router shows tools; "" without one
	asked    string
	profile  config.Profile // that the question is about; the zero value is all clients
	servers  []adapter.ServerInfo
	snapshot *registry.Snapshot
	names    *exposure.ToolNames
	complete bool
}

func (x *inquiry) look(r *adapter.Parts) {
	x.servers, x.snapshot, x.complete = r.Servers(), r.Snapshot(), r.Complete()
	x.names = exposure.OfTools(x.snapshot.Tools(), x.config.Router.Names, x.config.Router.Separator, x.config.Router.Gateway.Prefix)
	x.asked = x.names.Unprefixed(x.asked, func() []adapter.ServerInfo { return x.servers })
}

// tool returns the tool that the question names, by its name or by its name before "tools", "rename".
func (x *inquiry) tool() (*registry.NormalizedTool, bool) {
	if t, ok := x.names.Only(x.asked); ok {
		return t, true
	}
	of, name, qualified := x.split()
	for _, t := range x.snapshot.Tools() {
		if t.Original != "" && t.Original == name && (!qualified || t.Server == of) {
			return t, true
		}
	}
	return nil, false
}

// split returns the server that the question names, if it does, and the name of the tool there.
func (x *inquiry) split() (of, name string, qualified bool) {
	if of, name, qualified = exposure.Split(x.asked, x.config.Router.Separator, x.servers); !qualified {
		name = x.asked
	}
	return of, name, qualified
}

// A dropped tool is listed by its server and not offered.
type dropped struct {
	server string
	registry.Dropped
}

func (x *inquiry) droppedTools() (all []dropped) {
	of, name, qualified := x.split()
	for _, s := range x.config.Servers {
		for _, d := range x.snapshot.Offer(s.Name).Dropped {
			if d.Kind == registry.KindTool && d.Name == name && (!qualified || s.Name == of) {
				all = append(all, dropped{s.Name, d})
			}
		}
	}
	return all
}

func (x *inquiry) knows() bool {
	_, ok := x.tool()
	return ok || len(x.droppedTools()) > 0 || exposure.IsOwn(x.asked)
}

func (x *inquiry) answer(ctx context.Context) Reasons {
	if t, ok := x.tool(); ok {
		return x.offered(t)
	}
	a := Reasons{Tool: x.asked, All: []string{}}
	if exposure.IsOwn(x.asked) {
		a.Offered = true
		a.say("it is one of metarouter's own tools. Clients see find_tools, describe_tools, call_tool, call_read_only_tool and route_task in search mode, read_result if maxResultTokens is set, list_categories and classify_text if \"classification\" is configured; find_tools, describe_tools, read_result and run_script in code mode.")
		return a
	}
	if dropped := x.droppedTools(); len(dropped) > 0 {
		a.Tool = registry.ID(dropped[0].server, dropped[0].Name)
		for _, d := range dropped {
			x.explainDropped(&a, d)
		}
		return a
	}
	x.unknown(ctx, &a)
	return a
}

func (x *inquiry) offered(t *registry.NormalizedTool) Reasons {
	a := Reasons{Tool: t.ID, Offered: !t.Held}
	exposed := x.names.Exposed(t)
	pinned := slices.ContainsFunc(x.config.Router.Pinned, func(name string) bool {
		p, ok := x.names.Only(name)
		return ok && p == t
	})
	switch mode, why := x.shown(); {
	case t.Held:
		a.say("no client sees it, since \"newTools\" holds tools that are new or changed.")
	case !t.ForModels():
		a.say("it is for the user interface of its server alone (\"visibility\" in its _meta.ui lacks \"model\"). No search has it; clients that show such interfaces list it in direct mode, and all can call it as %s.", exposed)
	case mode == exposure.Direct:
		a.say("clients see it as %s (%s).", exposed, why)
	case pinned && mode == exposure.Search:
		a.say("clients see it as %s: it is pinned, next to find_tools (%s).", exposed, why)
	case mode == exposure.Code:
		a.say("it is not in the clients' tool list, because %s. Clients find it with find_tools and call it in scripts as %s.", why, t.ID)
	default:
		a.say("it is not in the clients' tool list, because %s. Clients find it with find_tools and call it with call_tool under the name %s or %s. To list it too, write \"metarouter\": {\"pinned\": [%[2]q]}.", why, t.ID, exposed)
	}
	if t.Original != "" {
		a.say("the server calls it %q; \"tools\", \"rename\" in the entry %q makes that %q.", t.Original, t.Server, t.Name)
	}
	if why := x.names.Altered(t); why != "" {
		a.say("clients see it under a changed name, because %s.", why)
	}
	var same []string
	for _, o := range x.snapshot.Tools() {
		if o.Name == t.Name && o != t {
			same = append(same, o.ID)
		}
	}
	if len(same) > 0 {
		a.say("%q alone does not call it, since others have that name too: %s.", t.Name, strings.Join(same, ", "))
	}
	if len(t.Repairs) > 0 {
		a.say("clients would have refused its definition, which metarouter repaired: %s.", strings.Join(t.Repairs[:min(3, len(t.Repairs))], "; "))
	}
	x.explainChange(&a, t)
	x.explainDoubt(&a, t)
	if s, ok := x.state(t.Server); ok && s.State != status.Ready && s.State != status.Idle && (x.mode != "" || s.State != status.Starting) {
		a.say("it can't be called just now: %s", stateWords(s))
		last := len(a.All) - 1
		a.All = slices.Insert(a.All[:last], 0, a.All[last]) // it blocks a call
	}
	return a
}

func (x *inquiry) explainDoubt(a *Reasons, t *registry.NormalizedTool) {
	if t.Doubt == "" {
		return
	}
	a.say("its server declares that it does no harm, which is not believed, because %s: call_read_only_tool and profiles with \"readOnly\" refuse it.", t.Doubt)
	if was, ok := x.snapshot.Offer(t.Server).Confirmed[t.ServerName()]; ok && hints.ClaimMore(was, t.Hints) {
		a.say("to confirm the hints as they are now, run: metarouter trust --hints %s", t.Server)
		return
	}
	a.say("if the server is right, write \"trustHints\": true in the entry %q.", t.Server)
}

// explainChange says how the tool's definition changed since a person saw it.
func (x *inquiry) explainChange(a *Reasons, t *registry.NormalizedTool) {
	const most = 2000 // characters of a member, before and after
	for _, text := range t.Suspect {
		a.say("it tells a model what to do beyond its use, or hid characters from people: %s.", text)
	}
	seen, changed := x.snapshot.Offer(t.Server).LastSeen[t.ServerName()]
	switch {
	case !changed:
	case seen == nil:
		a.say("it is new since you last looked, or it changed and the definition before was not kept. To be warned no more, run: metarouter tools --seen --server %s", t.Server)
	default:
		a.say("its definition changed since you last looked: %s. To be warned no more, run: metarouter tools --seen --server %s", strings.Join(hints.DefinitionChanges(seen, t.Definition, most), "; "), t.Server)
	}
}

// shown returns how tools are listed, and why.
func (x *inquiry) shown() (mode, why string) {
	r := x.config.Router
	cost := tokencount.Of(x.snapshot.Tools())
	mode = exposure.ModeFor(r.Mode, cost, r.ToolBudget)
	switch {
	case x.profile.Scripts != nil && !*x.profile.Scripts && cmp.Or(x.profile.Mode, r.Mode) == exposure.Code:
		return exposure.Search, "\"scripts\" of the profile is false"
	case x.profile.Mode != "" && x.profile.Mode != exposure.Auto:
		return x.profile.Mode, fmt.Sprintf("\"mode\" of the profile is %q", x.profile.Mode)
	case x.mode != "":
		return x.mode, "the running router is in " + x.mode + " mode"
	case mode == r.Mode:
		return mode, fmt.Sprintf("\"mode\" is %q", r.Mode)
	case mode == exposure.Search:
		return mode, fmt.Sprintf("mode auto shows the search tools: all tools cost %d tokens, and toolBudget is %d", cost, r.ToolBudget)
	case !x.complete:
		return mode, fmt.Sprintf("mode auto shows all tools, because those that are known cost %d tokens and toolBudget is %d; the tools of some servers are not known yet", cost, r.ToolBudget)
	}
	return mode, fmt.Sprintf("mode auto shows all tools, because they cost %d tokens and toolBudget is %d", cost, r.ToolBudget)
}

func (x *inquiry) explainDropped(a *Reasons, d dropped) {
	where := fmt.Sprintf("the entry %q of %s", d.server, strings.Join(x.config.Files, ", "))
	switch d.Filter {
	case "deny":
		a.say("%q in \"tools\", \"deny\" keeps it out, in %s; take the pattern out to have it offered.", d.Pattern, where)
	case "allow":
		a.say("\"tools\", \"allow\" does not name it, in %s; add %q there to have it offered.", where, d.Name)
	default:
		a.say("server %q lists it, and it can't be offered: %s.", d.server, d.Reason)
	}
}

// unknown says why no server is known to have the tool.
func (x *inquiry) unknown(ctx context.Context, a *Reasons) {
	of, name, qualified := x.split()
	s, known := x.state(of)
	switch {
	case qualified && known && s.State != status.Ready && s.State != status.Idle && s.Tools == 0:
		a.say("its tools are not known, since %s", stateWords(s))
		return
	case qualified && known:
		var theirs []string
		for _, t := range x.snapshot.Server(of) {
			theirs = append(theirs, t.Name)
		}
		if like, ok := prose.Nearest(name, theirs); ok {
			a.say("server %q has no tool %q; did you mean %s:%s?", of, name, of, like)
			return
		}
		a.say("server %q has no tool %q; it has %s.", of, name, some(theirs))
		return
	}
	if before, _, ok := strings.Cut(x.asked, ":"); ok {
		a.say("no server is called %q; the servers are %s.", before, some(named(x.servers)))
		return
	}
	if s, ok := x.state(x.asked); ok {
		a.say("that is a server, not a tool: 'metarouter tools %s' lists its tools.", s.Name)
		return
	}
	a.say("no server has a tool of that name, as far as the servers' tools are known.")
	_, err := x.names.Resolve(ctx, x.asked)
	if e, ok := errors.AsType[*exposure.NameError](err); ok && len(e.Nearest) > 0 {
		a.say("the nearest names are %s.", strings.Join(e.Nearest, ", "))
	}
	var down []string // those that may have it
	for _, s := range x.servers {
		if s.Tools == 0 && s.State != status.Ready {
			down = append(down, fmt.Sprintf("%s (%s)", s.Name, s.Verb()))
		}
	}
	if len(down) > 0 {
		a.say("a server may have it whose tools are not known: %s. 'metarouter doctor' says what to do.", some(down))
	}
}

func (x *inquiry) state(name string) (adapter.ServerInfo, bool) { return serverNamed(x.servers, name) }

func stateWords(s adapter.ServerInfo) string {
	switch s.State {
	case status.Disabled:
		if s.ByHand {
			return fmt.Sprintf("server %q was stopped by hand; 'metarouter restart %s' starts it.", s.Name, s.Name)
		}
		return fmt.Sprintf("server %q is disabled; 'metarouter enable %s --write' enables it.", s.Name, s.Name)
	case status.Self:
		return fmt.Sprintf("server %q is never started, because its entry starts another router; remove the entry.", s.Name)
	case status.Starting:
		return fmt.Sprintf("server %q is still starting; ask again in a while.", s.Name)
	case status.Misconfigured:
		return fmt.Sprintf("server %q can't be started: %s.", s.Name, s.LastError)
	}
	return fmt.Sprintf("server %q %s; 'metarouter doctor' says why and what to do.", s.Name, s.Verb())
}

// some joins the first few.
func some(names []string) string { return cmp.Or(prose.List(names, 8), "none") }
