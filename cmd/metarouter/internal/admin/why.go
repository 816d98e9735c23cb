package admin

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/hints"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/profile"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// Reasons says why a tool is or is not offered.
type Reasons struct {
	Tool    string   `json:"tool"` // its ID; the name in the question if no tool has it
	Offered bool     `json:"offered"`
	All     []string `json:"reasons"` // full sentences
	Rank    *int     `json:"rank"`    // from 1; null without a task, or if the tool is not among the candidates
}

// An inquiry is a question about a tool, the facts for its answer, and the answer.
type inquiry struct {
	*query
	Reasons
	asked    string // a name of the tool in any form
	servers  []status.Server
	snapshot *registry.Snapshot
	names    *exposure.ToolNames
	tool     *registry.NormalizedTool    // nil if no tool has the name
	dropped  map[string]registry.Dropped // tools of the name that their servers list and that are not offered, by server
}

func (x *inquiry) say(format string, args ...any) {
	x.All = append(x.All, plain.Line(fmt.Sprintf(format, args...)))
}

// explainOffer answers POST /dashboard/why. It starts the servers that can have the tool if it is not known.
func explainOffer(q *query, in WhyRequest) (any, error) {
	x := &inquiry{query: q, asked: in.Tool, Reasons: Reasons{All: []string{}}}
	err := x.look()
	known := x.tool != nil || len(x.dropped) > 0 || exposure.IsOwn(x.asked)
	all := in.Task != "" || q.router.Config().Router.Names == exposure.Bare // other tools decide on its rank, and on its name
	if err == nil && (all || !known) {
		of, _ := x.split()
		named, _ := status.Named(x.servers, x.asked) // which may have a tool of that name
		if of = cmp.Or(of, named.Name); of != "" && !all {
			q.router.Try(q.Context(), of)
		} else {
			q.router.Settled(q.Context())
		}
		err = cmp.Or(q.Context().Err(), x.look())
	}
	if err != nil {
		return nil, err
	}
	x.answer()
	if in.Task != "" {
		err = x.rank(in.Task)
	}
	return x.Reasons, err
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
	of, name := x.split()
	x.tool, _ = x.names.Only(x.asked)
	for _, t := range x.snapshot.Tools() { // by its name before "tools", "rename"
		if x.tool == nil && t.Original != "" && t.Original == name && (of == "" || t.Server == of) {
			x.tool = t
		}
	}
	x.dropped = make(map[string]registry.Dropped)
	for _, s := range x.router.Config().Servers {
		for _, d := range x.snapshot.Offer(s.Name).Dropped {
			if d.Kind == registry.KindTool && d.Name == name && (of == "" || s.Name == of) {
				x.dropped[s.Name] = d
			}
		}
	}
	return nil
}

// split returns the server that the question names, "" if it names none, and the name of the tool there.
func (x *inquiry) split() (of, name string) {
	if of, name, ok := exposure.Split(x.asked, x.router.Config().Router.Separator, x.servers); ok {
		return of, name
	}
	return "", x.asked
}

// answer says whether the tool is offered, and why.
func (x *inquiry) answer() {
	x.Tool = x.asked
	switch {
	case x.tool != nil:
		x.Tool, x.Offered = x.tool.ID, !x.tool.Held
		x.explainTool(x.tool)
		if x.Offered {
			x.limit(x.tool)
		}
	case exposure.IsOwn(x.asked):
		x.Offered = true
		x.say("it is one of metarouter's own tools: which of them clients see depends on the mode and on the configuration.")
	case len(x.dropped) == 0:
		x.unknown()
	}
	if x.tool != nil || x.Offered {
		return
	}
	for _, server := range slices.Sorted(maps.Keys(x.dropped)) {
		d, where := x.dropped[server], fmt.Sprintf("the entry %q of %s", server, strings.Join(x.router.Config().Files, ", "))
		x.Tool = registry.ID(server, d.Name)
		switch d.Filter {
		case "deny":
			x.say("%q in \"tools\", \"deny\" keeps it out, in %s; take the pattern out to have it offered.", d.Pattern, where)
		case "allow":
			x.say("\"tools\", \"allow\" does not name it, in %s; add %q there to have it offered.", where, d.Name)
		default:
			x.say("server %q lists it, and it can't be offered: %s.", server, d.Reason)
		}
	}
}

// limit says which profiles do not allow the tool, or ask before its calls: the one of the question, else all.
func (x *inquiry) limit(t *registry.NormalizedTool) {
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
			x.Offered = false
			x.All[0] = plain.Line(refusal) + "." // instead of how it is listed
		case refusal != "":
			x.say("%s.", refusal)
		case asks != "":
			x.say("%s, and so before calls of it.", asks)
		}
	}
}

// explainTool says how clients see a tool that its server offers.
func (x *inquiry) explainTool(t *registry.NormalizedTool) {
	if s, ok := status.Named(x.servers, t.Server); ok && s.State != status.Ready && s.State != status.Idle && (!x.alone() || s.State != status.Starting) {
		x.say("it can't be called just now: %s", x.stateWords(s)) // first, since it blocks a call
	}
	exposed := x.names.Exposed(t)
	pinned := slices.ContainsFunc(x.router.Config().Router.Pinned, func(name string) bool {
		p, ok := x.names.Only(name)
		return ok && p == t
	})
	switch mode, why := x.shown(); {
	case t.Held:
		x.say("no client sees it, since \"newTools\" holds tools that are new or changed.")
	case !t.ForModels():
		x.say("it is for the user interface of its server alone (\"visibility\" in its _meta.ui lacks \"model\"); clients can call it as %s.", exposed)
	case mode == exposure.Direct:
		x.say("clients see it as %s (%s).", exposed, why)
	case pinned && mode == exposure.Search:
		x.say("clients see it as %s: it is pinned, next to find_tools (%s).", exposed, why)
	case mode == exposure.Code:
		x.say("it is not in the clients' tool list, because %s. Clients find it with find_tools and call it in scripts as %s.", why, t.ID)
	default:
		x.say("it is not in the clients' tool list, because %s. Clients find it with find_tools and call it with call_tool under the name %s or %s. To list it too, write \"metarouter\": {\"pinned\": [%[2]q]}.", why, t.ID, exposed)
	}
	if t.Original != "" {
		x.say("the server calls it %q; \"tools\", \"rename\" in the entry %q makes that %q.", t.Original, t.Server, t.Name)
	}
	x.explainDefinition(t)
}

// explainDefinition says how the tool's definition changed since a person saw it, and why it is not believed.
func (x *inquiry) explainDefinition(t *registry.NormalizedTool) {
	for _, text := range t.Suspect {
		x.say("it tells a model what to do beyond its use, or hid characters from people: %s.", text)
	}
	offer := x.snapshot.Offer(t.Server)
	if _, changed := offer.LastSeen[t.ServerName()]; changed {
		how := cmp.Or(strings.Join(changesOf(t, x.snapshot), "; "), "it is new, or its definition before was not kept")
		x.say("its definition changed since you last looked: %s. To be warned no more, run: metarouter tools --seen --server %s", how, commandline.Quote(t.Server))
	}
	if t.Doubt == "" {
		return
	}
	x.say("its server declares that it does no harm, which is not believed, because %s: call_read_only_tool and profiles with \"readOnly\" refuse it.", t.Doubt)
	if was, ok := offer.Confirmed[t.ServerName()]; ok && hints.ClaimMore(was, t.Hints) {
		x.say("to confirm the hints as they are now, run: metarouter trust --hints %s", commandline.Quote(t.Server))
	} else {
		x.say("if the server is right, write \"trustHints\": true in the entry %q.", t.Server)
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
		mode, _ = x.mcp.Default.Shown()
		return mode, "the running router is in " + mode + " mode"
	case mode == r.Mode:
		return mode, fmt.Sprintf("\"mode\" is %q", r.Mode)
	}
	return mode, fmt.Sprintf("mode auto chooses %s, because all known tools cost %d tokens and toolBudget is %d", mode, cost, r.ToolBudget)
}

// unknown says why no server is known to have the tool.
func (x *inquiry) unknown() {
	of, _ := x.split()
	if s, ok := status.Named(x.servers, of); ok && s.State != status.Ready && s.State != status.Idle && s.Tools == 0 {
		x.say("its tools are not known, since %s", x.stateWords(s))
		return
	}
	if s, ok := status.Named(x.servers, x.asked); ok {
		x.say("%q is a server, not a known tool: 'metarouter servers %s' says how it runs, and 'metarouter tools %[2]s' lists its tools.", s.Name, commandline.Quote(s.Name))
		return
	}
	_, err := x.names.Resolve(x.asked)
	x.say("%v", err)
	var down []string // those that may have it
	for _, s := range x.servers {
		if s.Tools == 0 && s.State != status.Ready {
			down = append(down, fmt.Sprintf("%s (%s)", s.Name, s.Verb()))
		}
	}
	if len(down) > 0 {
		x.say("a server may have it whose tools are not known: %s. 'metarouter doctor' says what to do.", prose.List(down, 8))
	}
}

func (x *inquiry) stateWords(s status.Server) string {
	switch {
	case s.State == status.Disabled && s.ByHand:
		return fmt.Sprintf("server %q was stopped by hand; 'metarouter restart %s' starts it.", s.Name, commandline.Quote(s.Name))
	case s.State == status.Disabled:
		return fmt.Sprintf("server %q is disabled; 'metarouter enable %s --write' enables it.", s.Name, commandline.Quote(s.Name))
	}
	return fmt.Sprintf("server %q %s: %s; 'metarouter doctor' says what to do.", s.Name, s.Verb(), cmp.Or(lastError(x.mask, s), "it does not run"))
}

// rank says where the tool ranks for the task, and why. A tool that is not offered has no rank.
func (x *inquiry) rank(task string) error {
	found, err := x.router.Find(x.Context(), selector.Query{Task: task, Limit: len(x.snapshot.Tools()) + 1})
	if err != nil {
		return err
	}
	switch {
	case found.Abstained:
		x.say("a search for %q answers that no tool fits, because the confidence of every tool is too low.", task)
	case !found.Sure:
		x.say("a search for %q answers that it is not sure, because the confidence of the first tool is below findThreshold, or that of the next is near it.", task)
	}
	if x.tool == nil {
		return nil
	}
	count := prose.Count(len(found.Candidates), "candidate")
	at := slices.IndexFunc(found.Candidates, func(c selector.Candidate) bool { return slices.Contains(c.IDs(), x.tool.ID) })
	if at < 0 {
		x.say("it is not one of the %s for %q: too few of its words fit the task, and its meaning is too far from the task.", count, task)
		return nil
	}
	c := found.Candidates[at]
	why, err := x.router.Explain(x.Context(), task, []selector.Candidate{c})
	if err != nil {
		return err
	}
	x.Rank = new(at + 1)
	x.say("for %q it ranks number %d of %s, with a score of %.2f and a confidence of %s.", task, at+1, count, c.Score, Confidence(c.Confidence))
	if reason := why[0].Why(); reason != "" {
		x.say("what speaks for it: %s.", reason)
	}
	x.say("its score is made of %s.", Shares(why[0]))
	if len(why[0].Missing) > 0 {
		x.say("words of the task that the tool does not have: %s.", strings.Join(why[0].Missing, ", "))
	}
	if at > 0 {
		above := found.Candidates[0]
		x.say("the first is %s, with a score of %.2f; 'metarouter search --explain' says why.", above.Tool.ID, above.Score)
	}
	return nil
}

// Confidence returns a confidence as text. It is rounded down, as in the sentence that a
// confidence is below a threshold: 0.499 is not shown as 0.50.
func Confidence(confidence float64) string {
	return fmt.Sprintf("%.2f", math.Floor(100*confidence)/100)
}

// Shares returns the features that a score is made of, each with its share, or "nothing".
func Shares(e selector.Explanation) string {
	var parts []string
	for _, f := range e.Features {
		if f.Share >= 0.005 {
			parts = append(parts, fmt.Sprintf("%s (%.0f%%)", cmp.Or(f.Label, f.Name), 100*f.Share))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing")
}
