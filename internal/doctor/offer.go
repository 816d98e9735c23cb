package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/discovery"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/session"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

const (
	slow    = 10 * time.Second // a start that people notice, though all servers start at once
	bigTool = 2000             // tokens of a definition that costs too much
)

// Tokens returns what a model pays for the tool's definition.
func Tokens(t *registry.NormalizedTool) int { return len(t.Definition) / selector.BytesPerToken }

// duplicates says that another entry starts or reaches the same.
func (x *examiner) duplicates(entry config.Server) {
	for _, other := range x.Config.Servers {
		if other.Name == entry.Name {
			return // the later one is told
		}
		if !other.Disabled && other.Misconfigured == "" && other.Hash() == entry.Hash() {
			x.find(Warning, fmt.Sprintf("it is the same as %q: all its tools are there twice.", other.Name), "remove one of the two entries")
			return
		}
	}
}

// habits judges how a server runs that does.
func (x *examiner) habits(entry config.Server, s supervisor.Status) {
	up := s.State == supervisor.Ready || s.State == supervisor.Idle
	if up && s.StrayLines > 0 {
		x.find(Warning, fmt.Sprintf("it prints text on stdout, where only messages belong: %s so far%s. metarouter skips them; other clients break.", counted(int(s.StrayLines), "line"), example(s)),
			"its logs belong on stderr: look for an option that makes it quiet, or tell its authors")
	}
	if up && s.Took > slow {
		problem := fmt.Sprintf("it took %s to start", short(s.Took))
		if s.Fetching > s.Took/3 {
			problem += fmt.Sprintf(", %s of them to fetch its package", short(s.Fetching))
		}
		x.find(Warning, problem+".", x.faster(entry, s))
	}
	if up && s.ProtocolVersion == session.Oldest {
		fix := "nothing has to be done; a newer version of the server may speak a newer one"
		x.find(Note, fmt.Sprintf("it speaks an old version of the protocol (%s): no structured results, no elicitation.", s.ProtocolVersion), fix)
	}
}

// faster says what to do against a slow start.
func (x *examiner) faster(entry config.Server, s supervisor.Status) string {
	spec, name := "", bareName(s.Package)
	for _, arg := range entry.Args {
		if name != "" && bareName(arg) == name {
			spec = arg
		}
	}
	if spec != "" && spec != s.Package {
		args := slices.Clone(entry.Args)
		args[slices.Index(args, spec)] = s.Package
		return fmt.Sprintf(`pin the version, so that npm need not ask for the newest each time: "args": [%s]`, quoted(args))
	}
	return `nothing has to be done: clients are answered meanwhile. "lazy": true in its entry starts it only when it is called`
}

// filters says what in the entry's "tools" matches nothing.
func (x *examiner) filters(entry config.Server, s supervisor.Status, o registry.Listing) {
	var theirs, filtered []string
	for _, t := range o.Tools {
		theirs = append(theirs, t.ServerName())
	}
	for _, d := range o.Dropped {
		if d.Kind == registry.KindTool {
			theirs = append(theirs, d.Name)
			if d.Filter != "" {
				filtered = append(filtered, d.Name)
			}
		}
	}
	if len(theirs) == 0 {
		return
	}
	if len(o.Tools) == 0 && len(filtered) == len(theirs) {
		x.find(Warning, fmt.Sprintf(`"tools" in its entry leaves none of its tools: %s.`, some(theirs)), `correct the patterns in "allow" and "deny", or take them out`)
		return
	}
	lost := func(key, word string) {
		fix := fmt.Sprintf(`take it out, or correct it; the server's tools are %s`, some(theirs))
		if like, ok := config.Similar(word, theirs); ok {
			fix = fmt.Sprintf("did you mean %q?", like)
		}
		x.find(Warning, fmt.Sprintf(`%q in "tools", %q of its entry matches no tool.`, word, key), fix)
	}
	for _, pattern := range entry.Tools.Allow {
		if !matchesAny(pattern, theirs) {
			lost("allow", pattern)
		}
	}
	for _, pattern := range entry.Tools.Deny {
		if !matchesAny(pattern, theirs) {
			lost("deny", pattern)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(entry.Tools.Rename)) {
		if !slices.Contains(theirs, name) {
			lost("rename", name)
		}
	}
}

func matchesAny(pattern string, names []string) bool {
	rules := discovery.Rules{Deny: []string{pattern}}
	return slices.ContainsFunc(names, func(name string) bool {
		_, matches := rules.Refuses(name)
		return matches
	})
}

// offered judges what a server offers.
func (x *examiner) offered(entry config.Server, o registry.Listing) {
	if len(o.Tools)+len(o.Prompts)+len(o.Resources)+len(o.Templates)+len(o.Dropped) == 0 {
		if x.state(entry.Name) == supervisor.Ready {
			x.find(Warning, "it runs and offers nothing: no tool, no prompt, no resource.", "does it need another argument, or to be signed in? See its README")
		}
		return
	}
	x.leftOut(o)
	x.mended(o)
	x.undescribed(o)
	x.big(o)
	x.renamed(o)
}

func (x *examiner) state(server string) supervisor.State {
	for _, s := range x.Servers {
		if s.Name == server {
			return s.State
		}
	}
	return ""
}

// leftOut says what can't be offered.
func (x *examiner) leftOut(o registry.Listing) {
	var all []string
	var names []string
	for _, d := range o.Dropped {
		if d.Filter == "" {
			all = append(all, fmt.Sprintf("%s %s: %s", d.Kind, supervisor.Plain(clip(d.Name, 60)), supervisor.Plain(d.Reason)))
			names = append(names, supervisor.Plain(clip(d.Name, 60)))
		}
	}
	if len(all) > 0 {
		shown := slices.Clone(all[:min(len(all), 5)])
		if more := len(all) - len(shown); more > 0 {
			shown = append(shown, fmt.Sprintf("and %d more", more))
		}
		x.find(Broken, fmt.Sprintf("%s it lists can't be offered, since clients would refuse the whole list for their sake.", things(len(all))),
			fmt.Sprintf(`tell the server's authors; to have it not mentioned, write "tools": {"deny": [%s]}`, quoted(names[:min(len(names), 3)])), shown...)
	}
}

func things(n int) string {
	if n == 1 {
		return "1 thing that"
	}
	return fmt.Sprintf("%d things that", n)
}

// mended says what was repaired.
func (x *examiner) mended(o registry.Listing) {
	var names, first []string
	for _, t := range o.Tools {
		if len(t.Repairs) > 0 {
			names = append(names, supervisor.Plain(clip(t.Name, 40)))
			first = append(first, t.Repairs...)
		}
	}
	if len(names) > 0 {
		x.find(Note, fmt.Sprintf("%s had definitions that some clients refuse, and that metarouter mends (%s): %s.", counted(len(names), "tool"), supervisor.Plain(clip(first[0], 120)), some(names)),
			"nothing has to be done; the server's authors may want to know")
	}
}

// undescribed says which tools have no description.
func (x *examiner) undescribed(o registry.Listing) {
	var names []string
	for _, t := range o.Tools {
		if strings.TrimSpace(t.Description) == "" {
			names = append(names, supervisor.Plain(clip(t.Name, 40)))
		}
	}
	if len(names) > 0 {
		x.find(Warning, fmt.Sprintf("%s no description, so that models and searches have only the name to go by: %s.", have(len(names)), some(names)),
			"tell the server's authors")
	}
}

func have(n int) string {
	if n == 1 {
		return "1 tool has"
	}
	return fmt.Sprintf("%d tools have", n)
}

// big says which tools cost a lot.
func (x *examiner) big(o registry.Listing) {
	costs := func(a, b *registry.NormalizedTool) int { return cmp.Compare(Tokens(b), Tokens(a)) }
	var most []string
	var names []string
	for _, t := range slices.SortedStableFunc(slices.Values(o.Tools), costs) {
		if Tokens(t) > bigTool {
			most = append(most, fmt.Sprintf("%s (%d)", supervisor.Plain(clip(t.Name, 40)), Tokens(t)))
			names = append(names, t.ServerName())
		}
	}
	if len(most) > 0 {
		x.find(Warning, fmt.Sprintf("definitions of %s cost a model more than %d tokens each: %s.", counted(len(most), "tool"), bigTool, some(most)),
			fmt.Sprintf(`leave out what you don't need: "tools": {"deny": [%s]}; or have only a search shown: "metarouter": {"mode": "search"}`, quoted(names[:min(len(names), 3)])))
	}
}

// renamed says which tools have other names for clients than one would think.
func (x *examiner) renamed(o registry.Listing) {
	why := make(map[string][]string)
	for _, t := range o.Tools {
		if exposed, reason := x.Name(t); reason != "" {
			why[reason] = append(why[reason], fmt.Sprintf("%s is %s", supervisor.Plain(clip(t.Name, 40)), exposed))
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(why)) {
		x.find(Note, fmt.Sprintf("clients see %s under another name, since %s: %s.", counted(len(why[reason]), "tool"), reason, some(why[reason])),
			`nothing has to be done; for a name of your own, write "tools": {"rename": {"its name": "a shorter one"}}, or give the server a shorter name`)
	}
}

// pinned says which of the pinned tools there are not.
func (x *examiner) pinned() {
	for _, name := range x.Config.Router.Pinned {
		if !x.Finds(name) {
			x.find(Warning, fmt.Sprintf(`"pinned" names %q, and there is no such tool, or several.`, name), fmt.Sprintf("correct it: 'metarouter why %s' tells more", name))
		}
	}
}

// cost judges what the list of all tools costs.
func (x *examiner) cost() {
	total := 0
	servers := make(map[string]int)
	for _, t := range x.Catalog.Tools() {
		total += Tokens(t)
		servers[t.Server] += Tokens(t)
	}
	budget := x.Config.Router.ToolBudget
	if total <= budget || x.Config.Router.Mode == "search" {
		return
	}
	var most []string
	for _, name := range slices.SortedFunc(maps.Keys(servers), func(a, b string) int { return cmp.Or(cmp.Compare(servers[b], servers[a]), cmp.Compare(a, b)) }) {
		most = append(most, fmt.Sprintf("%s (%d)", name, servers[name]))
	}
	if x.Config.Router.Mode == "direct" {
		x.find(Warning, fmt.Sprintf("the list of all tools costs a model %d tokens in each conversation, more than the %d of toolBudget; most of them: %s.", total, budget, some(most)),
			`write "metarouter": {"mode": "auto"}, which shows a search instead, or leave tools out: "tools": {"deny": ["…"]}`)
		return
	}
	x.find(Note, fmt.Sprintf("the list of all tools would cost a model %d tokens, more than the %d of toolBudget, so clients see a search instead; most of them: %s.", total, budget, some(most)),
		fmt.Sprintf(`nothing has to be done; to have all shown, write "metarouter": {"toolBudget": %d}`, roundUp(total)))
}

func roundUp(n int) int { return (n + 999) / 1000 * 1000 }
