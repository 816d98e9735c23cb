package admin

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/hints"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/profile"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/status"
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

// An inquiry is a question about a tool, and the facts for its answer.
type inquiry struct {
	*query
	asked    string // a name of the tool in any form
	servers  []status.Server
	snapshot *registry.Snapshot
	names    *exposure.ToolNames
}

// explainOffer answers POST /dashboard/why. It starts the servers that can have the tool if it is not known.
func explainOffer(q *query, in WhyRequest) (any, error) {
	c, ctx := q.router.Config(), q.Context()
	x := inquiry{query: q, asked: in.Tool}
	err := x.look()
	all := in.Task != "" || c.Router.Names == exposure.Bare // other tools decide on its rank, and on its name
	if _, known := x.tool(); err == nil && (all || !known && len(x.dropped()) == 0 && !exposure.IsOwn(x.asked)) {
		if of, _, ok := exposure.Split(x.asked, c.Router.Separator, x.servers); ok && !all {
			q.router.Try(ctx, of)
		} else {
			q.router.Settled(ctx)
		}
		err = cmp.Or(ctx.Err(), x.look())
	}
	if err != nil {
		return nil, err
	}
	a := x.answer()
	t, _ := x.snapshot.Tool(a.Tool)
	if t != nil && a.Offered {
		x.limit(&a, t)
	}
	if in.Task != "" {
		err = rank(ctx, q.router, t, in.Task, &a)
	}
	return a, err
}

// look reads the facts. The error says that several tools have the name.
func (x *inquiry) look() error {
	x.servers, x.snapshot = x.router.Servers(), x.router.Snapshot()
	x.names = x.exposed(x.snapshot)
	x.asked = x.names.Unprefixed(x.asked, func() []status.Server { return x.servers })
	_, err := x.names.Resolve(x.asked)
	if e, ok := errors.AsType[*exposure.NameError](err); ok && len(e.Ambiguous) > 0 {
		return badRequest(err)
	}
	return nil
}

// limit says which profiles do not allow the tool, or ask before its calls: the one of the question, else all.
func (x *inquiry) limit(a *Reasons, t *registry.NormalizedTool) {
	asked, all := x.FormValue("profile"), x.router.Config().Router.Profiles
	names := slices.Sorted(maps.Keys(all))
	if asked != "" {
		names = []string{asked}
	}
	for _, name := range names {
		rules := profile.Of(all, name)
		refusal, asks := rules.Refusal(t), rules.Asks(t).String()
		switch {
		case refusal != "" && name == asked:
			a.Offered = false
			a.All[0] = plain.Line(refusal) + "." // instead of how it is listed
		case refusal != "":
			a.say("%s.", refusal)
		case asks != "":
			a.say("%s, and so before calls of it.", asks)
		}
	}
}

// tool returns the tool that the question names, by its name or by its name before "tools", "rename".
func (x *inquiry) tool() (*registry.NormalizedTool, bool) {
	if t, ok := x.names.Only(x.asked); ok {
		return t, true
	}
	of, name := x.split()
	for _, t := range x.snapshot.Tools() {
		if t.Original != "" && t.Original == name && (of == "" || t.Server == of) {
			return t, true
		}
	}
	return nil, false
}

// split returns the server that the question names, "" if it names none, and the name of the tool there.
func (x *inquiry) split() (of, name string) {
	if of, name, ok := exposure.Split(x.asked, x.router.Config().Router.Separator, x.servers); ok {
		return of, name
	}
	return "", x.asked
}

// dropped returns the tools of the name that their servers list and that are not offered, by server.
func (x *inquiry) dropped() map[string]registry.Dropped {
	all := make(map[string]registry.Dropped)
	of, name := x.split()
	for _, s := range x.router.Config().Servers {
		for _, d := range x.snapshot.Offer(s.Name).Dropped {
			if d.Kind == registry.KindTool && d.Name == name && (of == "" || s.Name == of) {
				all[s.Name] = d
			}
		}
	}
	return all
}

func (x *inquiry) answer() Reasons {
	if t, ok := x.tool(); ok {
		return x.offered(t)
	}
	a := Reasons{Tool: x.asked, All: []string{}}
	if exposure.IsOwn(x.asked) {
		a.Offered = true
		a.say("it is one of metarouter's own tools: which of them clients see depends on the mode and on the configuration.")
		return a
	}
	dropped := x.dropped()
	for _, server := range slices.Sorted(maps.Keys(dropped)) {
		d, where := dropped[server], fmt.Sprintf("the entry %q of %s", server, strings.Join(x.router.Config().Files, ", "))
		a.Tool = registry.ID(server, d.Name)
		switch d.Filter {
		case "deny":
			a.say("%q in \"tools\", \"deny\" keeps it out, in %s; take the pattern out to have it offered.", d.Pattern, where)
		case "allow":
			a.say("\"tools\", \"allow\" does not name it, in %s; add %q there to have it offered.", where, d.Name)
		default:
			a.say("server %q lists it, and it can't be offered: %s.", server, d.Reason)
		}
	}
	if len(dropped) == 0 {
		x.unknown(&a)
	}
	return a
}

func (x *inquiry) offered(t *registry.NormalizedTool) Reasons {
	a := Reasons{Tool: t.ID, Offered: !t.Held}
	if s, ok := serverNamed(x.servers, t.Server); ok && s.State != status.Ready && s.State != status.Idle && (!x.alone() || s.State != status.Starting) {
		a.say("it can't be called just now: %s", x.stateWords(s)) // first, since it blocks a call
	}
	exposed, r := x.names.Exposed(t), x.router.Config().Router
	pinned := slices.ContainsFunc(r.Pinned, func(name string) bool {
		p, ok := x.names.Only(name)
		return ok && p == t
	})
	switch mode, why := x.shown(); {
	case t.Held:
		a.say("no client sees it, since \"newTools\" holds tools that are new or changed.")
	case !t.ForModels():
		a.say("it is for the user interface of its server alone (\"visibility\" in its _meta.ui lacks \"model\"); clients can call it as %s.", exposed)
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
	x.explainDefinition(&a, t)
	return a
}

// explainDefinition says how the tool's definition changed since a person saw it, and why it is not believed.
func (x *inquiry) explainDefinition(a *Reasons, t *registry.NormalizedTool) {
	for _, text := range t.Suspect {
		a.say("it tells a model what to do beyond its use, or hid characters from people: %s.", text)
	}
	offer := x.snapshot.Offer(t.Server)
	if _, changed := offer.LastSeen[t.ServerName()]; changed {
		how := cmp.Or(strings.Join(changesOf(t, x.snapshot), "; "), "it is new, or its definition before was not kept")
		a.say("its definition changed since you last looked: %s. To be warned no more, run: metarouter tools --seen --server %s", how, t.Server)
	}
	if t.Doubt == "" {
		return
	}
	a.say("its server declares that it does no harm, which is not believed, because %s: call_read_only_tool and profiles with \"readOnly\" refuse it.", t.Doubt)
	if was, ok := offer.Confirmed[t.ServerName()]; ok && hints.ClaimMore(was, t.Hints) {
		a.say("to confirm the hints as they are now, run: metarouter trust --hints %s", t.Server)
	} else {
		a.say("if the server is right, write \"trustHints\": true in the entry %q.", t.Server)
	}
}

// shown returns how tools are listed, and why.
func (x *inquiry) shown() (mode, why string) {
	r := x.router.Config().Router
	p, cost := r.Profiles[x.FormValue("profile")], exposure.Tokens(x.snapshot.Tools())
	mode = exposure.ModeFor(r.Mode, cost, r.ToolBudget)
	switch {
	case p.Scripts != nil && !*p.Scripts && cmp.Or(p.Mode, r.Mode) == exposure.Code:
		return exposure.Search, "\"scripts\" of the profile is false"
	case p.Mode != "" && p.Mode != exposure.Auto:
		return p.Mode, fmt.Sprintf("\"mode\" of the profile is %q", p.Mode)
	case !x.alone():
		mode = x.mcp.Default().Mode()
		return mode, "the running router is in " + mode + " mode"
	case mode == r.Mode:
		return mode, fmt.Sprintf("\"mode\" is %q", r.Mode)
	}
	return mode, fmt.Sprintf("mode auto chooses %s, because all known tools cost %d tokens and toolBudget is %d", mode, cost, r.ToolBudget)
}

// unknown says why no server is known to have the tool.
func (x *inquiry) unknown(a *Reasons) {
	of, _ := x.split()
	if s, ok := serverNamed(x.servers, of); ok && s.State != status.Ready && s.State != status.Idle && s.Tools == 0 {
		a.say("its tools are not known, since %s", x.stateWords(s))
		return
	}
	_, err := x.names.Resolve(x.asked)
	a.say("%v", err)
	var down []string // those that may have it
	for _, s := range x.servers {
		if s.Tools == 0 && s.State != status.Ready {
			down = append(down, fmt.Sprintf("%s (%s)", s.Name, s.Verb()))
		}
	}
	if len(down) > 0 {
		a.say("a server may have it whose tools are not known: %s. 'metarouter doctor' says what to do.", prose.List(down, 8))
	}
}

func (x *inquiry) stateWords(s status.Server) string {
	switch {
	case s.State == status.Disabled && s.ByHand:
		return fmt.Sprintf("server %q was stopped by hand; 'metarouter restart %s' starts it.", s.Name, s.Name)
	case s.State == status.Disabled:
		return fmt.Sprintf("server %q is disabled; 'metarouter enable %s --write' enables it.", s.Name, s.Name)
	}
	return fmt.Sprintf("server %q %s: %s; 'metarouter doctor' says what to do.", s.Name, s.Verb(), cmp.Or(lastError(x.mask, s), "it does not run"))
}
