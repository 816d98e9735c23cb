package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// An answer says why a tool is or is not offered.
type answer struct {
	Tool    string   `json:"tool"` // its ID; the name that was asked for if there is none
	Offered bool     `json:"offered"`
	Reasons []string `json:"reasons"`
	Rank    *int     `json:"rank"` // from 1; null if it is not among the candidates, or nobody asked
}

func (w *answer) say(format string, args ...any) {
	w.Reasons = append(w.Reasons, terminal.Clean(fmt.Sprintf(format, args...)))
}

func (a *app) why() *cobra.Command {
	var task string
	cmd := a.jsonFlag(leaf("why TOOL", "Say why a tool is offered or is not, and where it ranks for a task",
		`  metarouter why files:read_file
  metarouter why unit_convert --for "convert 5 km to miles"`,
		cobra.ExactArgs(1), func(ctx context.Context, args []string) error {
			c, err := a.load(ctx)
			if err != nil {
				return err
			}
			return a.with(ctx, c, func(ctx context.Context, r *adapter.Router) error {
				w, err := a.inquire(ctx, c, r, args[0], task)
				if err != nil {
					return err
				}
				if a.json {
					err = a.printJSON(w)
				} else {
					err = a.printAnswer(w)
				}
				if err == nil && !w.Offered {
					err = &exitError{code: exitNoTool}
				}
				return err
			})
		}))
	cmd.Flags().StringVar(&task, "for", "", "say also where it ranks for this `task`, and why")
	return cmd
}

func (a *app) printAnswer(w answer) error {
	says := "is not offered"
	if w.Offered {
		says = "is offered"
	}
	fmt.Fprintf(a.stdout, "%s %s.\n", terminal.Clean(w.Tool), says)
	width, _ := a.paper()
	for _, reason := range w.Reasons {
		fmt.Fprint(a.stdout, terminal.Lines(hang("  - ", reason, width)))
	}
	return nil
}

// inquire answers for the tool that a name of any form means, and for the task if there
// is one.
func (a *app) inquire(ctx context.Context, c config.Config, r *adapter.Router, name, task string) (answer, error) {
	q := inquiry{config: c, mode: a.mode, asked: name}
	look := func() error {
		q.look(r)
		var e *server.NameError
		if _, err := q.names.Resolve(name); errors.As(err, &e) && len(e.Ambiguous) > 0 {
			return usage(err)
		}
		return nil
	}
	if err := look(); err != nil {
		return answer{}, err
	}
	others := task != "" || c.Router.Names == server.Bare // they decide on its rank, and on its name
	if !q.knows() || others {
		// Those that could have it are tried, all of them where the name does not say.
		if of, _, ok := server.Split(name, c.Router.Separator, q.servers); ok && !others {
			a.waiting(r, func() { r.Try(ctx, of) })
		} else {
			a.waiting(r, func() { r.Settled(ctx) })
		}
		if ctx.Err() != nil {
			return answer{}, errInterrupted
		}
		if err := look(); err != nil {
			return answer{}, err
		}
	}
	w := q.answer()
	if task != "" {
		t, _ := r.Tool(w.Tool)
		if err := standing(ctx, r, t, task, &w); err != nil {
			return answer{}, err
		}
	}
	return w, nil
}

// An inquiry is what there is to answer from. It is pure once look has filled it in.
type inquiry struct {
	config   config.Config
	mode     string // in which the running router shows tools; "" if none runs
	asked    string
	servers  []adapter.ServerInfo
	snapshot *registry.Snapshot
	names    *server.ToolNames
	complete bool
}

func (q *inquiry) look(r *adapter.Router) {
	q.servers, q.snapshot, q.complete = r.Servers(), r.Snapshot(), r.Complete()
	q.names = server.NewNames(q.snapshot.Tools(), q.config.Router.Names, q.config.Router.Separator)
}

// tool returns the tool that is meant, by its old name too if it was renamed.
func (q *inquiry) tool() (*registry.NormalizedTool, bool) {
	if t, err := q.names.Resolve(q.asked); err == nil {
		return t, true
	}
	of, name, qualified := server.Split(q.asked, q.config.Router.Separator, q.servers)
	if !qualified {
		name = q.asked
	}
	for _, t := range q.snapshot.Tools() {
		if t.Original != "" && t.Original == name && (!qualified || t.Server == of) {
			return t, true
		}
	}
	return nil, false
}

// A loss is a tool that a server has and that is not offered.
type loss struct {
	server string
	registry.Dropped
}

// lost returns what is meant among the tools that are not offered.
func (q *inquiry) lost() (all []loss) {
	of, name, qualified := server.Split(q.asked, q.config.Router.Separator, q.servers)
	if !qualified {
		name = q.asked
	}
	for _, s := range q.config.Servers {
		for _, d := range q.snapshot.Offer(s.Name).Dropped {
			if d.Kind == registry.KindTool && d.Name == name && (!qualified || s.Name == of) {
				all = append(all, loss{s.Name, d})
			}
		}
	}
	return all
}

func (q *inquiry) knows() bool {
	_, ok := q.tool()
	return ok || len(q.lost()) > 0 || server.IsOwn(q.asked)
}

func (q *inquiry) answer() answer {
	if t, ok := q.tool(); ok {
		return q.offered(t)
	}
	w := answer{Tool: q.asked, Reasons: []string{}}
	if server.IsOwn(q.asked) {
		w.Offered = true
		w.say("it is one of metarouter's own tools, and is listed where clients need it: find_tools and its like in search mode, read_result where results are limited, the others where categories are configured.")
		return w
	}
	if lost := q.lost(); len(lost) > 0 {
		w.Tool = registry.ToolID(lost[0].server, lost[0].Name)
		for _, l := range lost {
			q.explainLoss(&w, l)
		}
		return w
	}
	q.unknown(&w)
	return w
}

// offered says how a tool is offered.
func (q *inquiry) offered(t *registry.NormalizedTool) answer {
	w := answer{Tool: t.ID, Offered: true}
	exposed := q.names.Exposed(t)
	pinned := slices.ContainsFunc(q.config.Router.Pinned, func(name string) bool {
		p, err := q.names.Resolve(name)
		return err == nil && p == t
	})
	switch mode, why := q.shown(); {
	case mode == server.Direct:
		w.say("clients see it as %s (%s).", exposed, why)
	case pinned:
		w.say("clients see it as %s: it is pinned, beside find_tools (%s).", exposed, why)
	default:
		w.say("clients don't see it in their list, and that is as it should be (%s): they find it with find_tools and call it with call_tool, by its id or as %s; \"metarouter\": {\"pinned\": [%q]} would list it too.", why, exposed, t.ID)
	}
	if t.Original != "" {
		w.say("the server calls it %q; \"tools\", \"rename\" in the entry %q makes that %q.", t.Original, t.Server, t.Name)
	}
	if why := q.names.Altered(t); why != "" {
		w.say("its name for clients is not simply made of the server's and its own, since %s.", why)
	}
	var same []string
	for _, o := range q.snapshot.Tools() {
		if o.Name == t.Name && o != t {
			same = append(same, o.ID)
		}
	}
	if len(same) > 0 {
		w.say("%q alone does not call it, since others have that name too: %s.", t.Name, strings.Join(same, ", "))
	}
	if len(t.Repairs) > 0 {
		w.say("clients would have refused its definition, which was mended: %s.", strings.Join(t.Repairs[:min(3, len(t.Repairs))], "; "))
	}
	if s, ok := q.state(t.Server); ok && s.State != supervisor.Ready && s.State != supervisor.Idle && (q.mode != "" || s.State != supervisor.Starting) {
		w.say("it can't be called just now: %s", stateWords(s))
	}
	return w
}

// shown returns how tools are listed, and why.
func (q *inquiry) shown() (mode, why string) {
	r := q.config.Router
	cost := selector.ListTokens(q.snapshot.Tools())
	switch {
	case q.mode != "":
		return q.mode, "the running router is in " + q.mode + " mode"
	case r.Mode == server.Direct || r.Mode == server.Search:
		return r.Mode, fmt.Sprintf("\"mode\" is %q", r.Mode)
	case !q.complete:
		return server.Search, "mode auto shows a search while some servers' tools are not known"
	case cost > r.ToolBudget:
		return server.Search, fmt.Sprintf("mode auto shows a search, since all tools cost %d tokens, more than the %d of toolBudget", cost, r.ToolBudget)
	}
	return server.Direct, fmt.Sprintf("mode auto shows all, since they cost %d tokens, within the %d of toolBudget", cost, r.ToolBudget)
}

// explainLoss says why a tool that a server lists is not offered.
func (q *inquiry) explainLoss(w *answer, l loss) {
	where := fmt.Sprintf("the entry %q of %s", l.server, strings.Join(q.config.Files, ", "))
	switch l.Filter {
	case "deny":
		w.say("%q in \"tools\", \"deny\" keeps it out, in %s; take the pattern out to have it offered.", l.Pattern, where)
	case "allow":
		w.say("\"tools\", \"allow\" does not name it, in %s; add %q there to have it offered.", where, l.Name)
	default:
		w.say("server %q lists it, and it can't be offered: %s.", l.server, l.Reason)
	}
}

// unknown says why nobody knows the tool.
func (q *inquiry) unknown(w *answer) {
	of, name, qualified := server.Split(q.asked, q.config.Router.Separator, q.servers)
	s, known := q.state(of)
	switch {
	case qualified && known && s.State != supervisor.Ready && s.State != supervisor.Idle && s.Tools == 0:
		w.say("its tools are not known, since %s", stateWords(s))
		return
	case qualified && known:
		var theirs []string
		for _, t := range q.snapshot.Server(of) {
			theirs = append(theirs, t.Name)
		}
		if like, ok := config.Similar(name, theirs); ok {
			w.say("server %q has no tool %q; did you mean %s:%s?", of, name, of, like)
			return
		}
		w.say("server %q has no tool %q; it has %s.", of, name, some(theirs, 8))
		return
	}
	if before, _, ok := strings.Cut(q.asked, ":"); ok {
		w.say("no server is called %q; there are %s.", before, some(q.serverNames(), 8))
		return
	}
	if s, ok := q.state(q.asked); ok {
		w.say("that is a server, not a tool: 'metarouter tools --server %s' lists its tools.", s.Name)
		return
	}
	w.say("no server that is known has a tool of that name.")
	_, err := q.names.Resolve(q.asked)
	if e, ok := errors.AsType[*server.NameError](err); ok && len(e.Nearest) > 0 {
		w.say("the nearest names are %s.", strings.Join(e.Nearest, ", "))
	}
	for _, s := range q.servers {
		if s.Tools == 0 && s.State != supervisor.Ready {
			w.say("it may be one of %q, whose tools are not known: %s", s.Name, stateWords(s))
		}
	}
}

func (q *inquiry) serverNames() (names []string) {
	for _, s := range q.servers {
		names = append(names, s.Name)
	}
	return names
}

func (q *inquiry) state(name string) (adapter.ServerInfo, bool) {
	for _, s := range q.servers {
		if s.Name == name {
			return s, true
		}
	}
	return adapter.ServerInfo{}, false
}

// stateWords says in a sentence how a server is that does not run, and what to do.
func stateWords(s adapter.ServerInfo) string {
	switch s.State {
	case supervisor.Disabled:
		if s.ByHand {
			return fmt.Sprintf("server %q was stopped by hand; 'metarouter restart %s' starts it.", s.Name, s.Name)
		}
		return fmt.Sprintf("server %q is disabled; take \"disabled\": true out of its entry.", s.Name)
	case supervisor.Self:
		return fmt.Sprintf("server %q would be a router inside the router, and is never started.", s.Name)
	case supervisor.Starting:
		return fmt.Sprintf("server %q is still starting; ask again in a while.", s.Name)
	case supervisor.Misconfigured:
		return fmt.Sprintf("server %q can't be started: %s.", s.Name, s.LastError)
	}
	return fmt.Sprintf("server %q is %s; 'metarouter doctor' says why and what to do.", s.Name, s.State)
}

// some joins the first few.
func some(names []string, most int) string {
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
