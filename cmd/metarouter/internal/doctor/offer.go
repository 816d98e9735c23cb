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
	"github.com/mcp-metarouter/metarouter/internal/changes"
	"github.com/mcp-metarouter/metarouter/internal/hints"
	"github.com/mcp-metarouter/metarouter/internal/packages"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/typo"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

const (
	slowStart = 10 * time.Second // a longer start gets a warning
	bigTool   = 2000             // tokens; a larger definition of a tool gets a warning

	maxChanges = 3   // changed tools of a server that are described
	maxChanged = 160 // characters of a member of the definition, before and after
)

// Tokens returns what a model pays for the tool's definition.
func Tokens(t *registry.NormalizedTool) int { return len(t.Definition) / registry.BytesPerToken }

// checkDuplicates finds another entry that starts or connects to the same server.
func checkDuplicates(x *findings, c Case, entry config.Server) {
	for _, other := range c.Config.Servers {
		if other.Name == entry.Name {
			return // the later entry gets the warning
		}
		if !other.Disabled && other.Misconfigured == "" && other.Hash() == entry.Hash() {
			x.add(Warning, fmt.Sprintf("it is the same server as %q, so all its tools exist twice.", other.Name), "remove one of the two entries")
			return
		}
	}
}

// checkBehaviour checks how a server behaves that runs.
func checkBehaviour(x *findings, entry config.Server, s status.Status) {
	up := s.State == status.Ready || s.State == status.Idle
	if up && s.StrayLines > 0 {
		x.add(Warning, fmt.Sprintf("it prints text to stdout, which is for messages only: %s so far%s. metarouter skips the text, but other clients fail.", prose.Count(int(s.StrayLines), "line"), example(s)),
			"a server must write its logs to stderr: look for an option that turns them off on stdout, or report this to its authors")
	}
	if up && len(s.Notes) > 0 {
		x.add(Note, fmt.Sprintf("it %s. metarouter understands this, but other clients may not.", plain.Line(strings.Join(s.Notes, ", and "))), "nothing has to be done; you can report it to the server's authors")
	}
	if done := s.Repaired("results"); done != "" {
		x.add(Note, fmt.Sprintf("metarouter repairs its results: %s. Other clients may not show them, or models refuse them.", done), "nothing has to be done; you can report it to the server's authors")
	}
	if done := s.Repaired("arguments"); done != "" {
		x.add(Note, fmt.Sprintf("metarouter repairs arguments that clients send to its tools: %s.", done), "nothing has to be done")
	}
	if s.Refused > 0 {
		x.add(Warning, fmt.Sprintf("metarouter has refused %s of it to its clients so far. The rule for the last of them: %s.", prose.Count(int(s.Refused), "question"), s.RefusedBy),
			`report this to its authors; if you trust it and it must ask often, write a higher "questionsPerMinute" into its entry`)
	}
	if up {
		checkMessages(x, s)
		checkFlood(x, s.Flood)
	}
	if up && s.Outdated != "" {
		x.add(Warning, fmt.Sprintf("its lists have changed and can't be read, so the old ones stay: %s.", strings.TrimPrefix(s.Outdated, "list its changed tools: ")), "update the server, or report this to its authors")
	}
	if up && s.Took > slowStart {
		problem, first := fmt.Sprintf("it took %s to start", short(s.Took)), false
		if s.Fetching > s.Took/3 {
			did := "to fetch its package"
			if first = !s.Cached; s.Cached {
				did = "to ask npm for the newest version of its package"
			}
			problem += fmt.Sprintf(", %s of them %s", short(s.Fetching), did)
		}
		if first {
			x.add(Note, problem+".", "nothing has to be done: the next start is faster")
		} else {
			x.add(Warning, problem+".", startFaster(entry, s))
		}
	}
	if up && s.ProtocolVersion == session.Oldest {
		fix := "nothing has to be done; a newer version of the server may use a newer protocol"
		x.add(Note, fmt.Sprintf("it uses an old version of the protocol (%s), without structured results and elicitation.", s.ProtocolVersion), fix)
	}
}

// checkMessages names the messages of a server that could not be passed on.
func checkMessages(x *findings, s status.Status) {
	sent := func(n int64, what, fix string) {
		if n > 0 {
			x.add(Warning, fmt.Sprintf("it sent %s %s.", prose.Count(int(n), "message"), what), fix)
		}
	}
	u := s.Unusable
	sent(u.NotUTF8, "with bytes that are not UTF-8, which clients can't read: calls with such a result fail, and notifications are left out",
		`have it write UTF-8: many servers do with "env": {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"} in its entry; or report this to its authors`)
	sent(u.TooDeep, fmt.Sprintf("nested deeper than %d levels, which many clients can't read: calls with such a result fail", wire.MaxLevels),
		"ask its tools for less, or report this to its authors")
	sent(u.TooLong, fmt.Sprintf("longer than %d MiB: calls with such a result fail", wire.MaxLine>>20),
		"ask its tools for less, or report this to its authors")
	sent(u.Invalid, "that should answer a call and is not JSON-RPC, so the call failed",
		"update the server, or report this to its authors")
}

// checkFlood names a flood of notifications.
func checkFlood(x *findings, f status.Flood) {
	if f.PerSecond == 0 {
		return
	}
	what, such := "messages that were not asked for", ""
	if f.Method != "" {
		what, such = "notifications", ", such as "+plain.Line(clip(f.Method, 60))
	}
	x.add(Warning, fmt.Sprintf("it sends too many %s (%d in a second%s): clients get at most 1000 a second, %d were left out, and the server is read slowly.", what, f.PerSecond, such, f.Dropped),
		"set it to log less, if it has an option or a variable for that, or report this to its authors")
}

// pinAdvice begins the fixes of servers whose versions can be pinned.
const pinAdvice = "pin the version, so that npm does not look up the newest one each time: run metarouter doctor --pin --write"

// startFaster says how the server starts faster.
func startFaster(entry config.Server, s status.Status) string {
	spec, name := "", bareName(s.Package)
	for _, arg := range entry.Args {
		if name != "" && bareName(arg) == name {
			spec = arg
		}
	}
	if use, ok := packages.Of(entry.Command, entry.Args); ok && use.KeepsData(entry.Env) {
		return "its version can't be pinned yet: its data is in its package's folder; set MEMORY_FILE_PATH first"
	}
	if spec != "" && spec != s.Package {
		args := slices.Clone(entry.Args)
		args[slices.Index(args, spec)] = s.Package
		return fmt.Sprintf(`%s, or write "args": [%s]`, pinAdvice, quoted(args))
	}
	return `you need not do anything: clients can use the other servers while it starts. With "lazy": true in its entry, it starts only when one of its tools is called`
}

// checkFilters finds patterns and names in the entry's "tools" that match no tool.
func checkFilters(x *findings, entry config.Server, s status.Status, o registry.Listing) {
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
		x.add(Warning, fmt.Sprintf(`"tools" in its entry removes all of its tools: %s.`, some(theirs)), `correct the patterns in "allow" and "deny", or remove them`)
		return
	}
	lost := func(key, word string) {
		fix := fmt.Sprintf(`remove or correct it; the server's tools are %s`, some(theirs))
		if like, ok := typo.Nearest(word, theirs); ok {
			fix = fmt.Sprintf("write %q instead of %q", like, word)
		}
		x.add(Warning, fmt.Sprintf(`%q in "tools", %q of its entry matches no tool.`, word, key), fix)
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
		_, matches := rules.Excludes(name)
		return matches
	})
}

// checkOffer checks what a server offers.
func checkOffer(x *findings, c Case, entry config.Server, o registry.Listing) {
	if len(o.Tools)+len(o.Prompts)+len(o.Resources)+len(o.Templates)+len(o.Dropped) == 0 {
		if stateOf(c, entry.Name) == status.Ready {
			x.add(Warning, "it runs, but it offers nothing: no tool, no prompt, no resource.", "does it need another argument, or a login? See its README")
		}
		return
	}
	checkDropped(x, o)
	noteRepairs(x, o)
	checkURIs(x, c, entry, o)
	checkChanges(x, entry, o)
	checkHints(x, entry, o)
	checkDescriptions(x, o)
	checkSizes(x, o)
	checkSchemas(x, o)
	noteRenamed(x, c, o)
}

func stateOf(c Case, server string) status.State {
	for _, s := range c.Servers {
		if s.Name == server {
			return s.State
		}
	}
	return ""
}

// checkDropped names what the server lists and metarouter can't offer.
func checkDropped(x *findings, o registry.Listing) {
	var all []string
	var names []string
	for _, d := range o.Dropped {
		switch {
		case d.Cut:
			x.add(Warning, fmt.Sprintf("its list of %ss has no proper end: %s. The pages that were read are used.", d.Kind, plain.Line(d.Reason)), "report this to the server's authors: other clients may refuse the list, or show less")
		case d.Name == "": // the whole list
			x.add(Warning, fmt.Sprintf("its list of %ss can't be read, so it is used without: %s.", d.Kind, plain.Line(d.Reason)), "update the server, or report this to its authors")
		case d.Filter == "":
			all = append(all, fmt.Sprintf("%s %s: %s", d.Kind, plain.Line(clip(d.Name, 60)), plain.Line(d.Reason)))
			names = append(names, plain.Line(clip(d.Name, 60)))
		}
	}
	if len(all) > 0 {
		shown := slices.Clone(all[:min(len(all), 5)])
		if more := len(all) - len(shown); more > 0 {
			shown = append(shown, fmt.Sprintf("and %d more", more))
		}
		x.add(Broken, fmt.Sprintf("%s that it lists can't be offered: clients would refuse the whole list because of them, or people would be misled.", prose.Count(len(all), "definition")),
			fmt.Sprintf(`report this to the server's authors; to hide this finding, write "tools": {"deny": [%s]}`, quoted(names[:min(len(names), 3)])), shown...)
	}
}

// noteRepairs names the tools whose definitions were repaired.
func noteRepairs(x *findings, o registry.Listing) {
	var names, first []string
	for _, t := range o.Tools {
		if len(t.Repairs) > 0 {
			names = append(names, plain.Line(clip(t.Name, 40)))
			first = append(first, t.Repairs...)
		}
	}
	if len(names) > 0 {
		x.add(Note, fmt.Sprintf("%s had definitions that some clients refuse or that hide text from people, and that metarouter repairs (%s): %s.", prose.Count(len(names), "tool"), plain.Line(clip(first[0], 120)), some(names)),
			"nothing has to be done; you can report it to the server's authors")
	}
}

// checkURIs names the resources whose URIs belong to other servers.
func checkURIs(x *findings, c Case, entry config.Server, o registry.Listing) {
	claims := c.Catalog.Claims()
	taken := make(map[string][]string) // by owner
	add := func(uri string) {
		if claim, ok := claims[uri]; ok && claim.Server != entry.Name {
			taken[claim.Server] = append(taken[claim.Server], plain.Line(clip(uri, 80)))
		}
	}
	for _, r := range o.Resources {
		add(r.URI)
	}
	for _, t := range o.Templates {
		add(t.URITemplate)
	}
	for _, owner := range slices.Sorted(maps.Keys(taken)) {
		x.add(Warning, fmt.Sprintf("%s that it lists belong to the server %q, which had them first: %s.", prose.Count(len(taken[owner]), "URI"), owner, some(taken[owner])),
			fmt.Sprintf("is it meant to offer the same? Clients read its own as metarouter://%s/URI. To give it the URIs, remove the entry of %q", entry.Name, owner))
	}
}

// checkChanges names the tools whose definitions a person has not seen as they are now.
func checkChanges(x *findings, entry config.Server, o registry.Listing) {
	var names, details []string
	for _, t := range o.Tools {
		seen, changed := o.LastSeen[t.ServerName()]
		if !changed {
			continue
		}
		name := plain.Line(clip(t.Name, 40))
		names = append(names, name)
		if len(details) < maxChanges && seen != nil {
			details = append(details, name+": "+strings.Join(changes.Diff(seen, t.Definition, maxChanged), "; "))
		}
	}
	if len(names) > 0 {
		x.add(Warning, fmt.Sprintf("%s changed since you last looked: %s.", prose.Count(len(names), "tool"), some(names)),
			"are the changes what you expect of this server? To read them all and be warned no more, run: metarouter tools --seen --server "+entry.Name, details...)
	}
}

// checkHints names the tools that declare that they do no harm and are not believed.
func checkHints(x *findings, entry config.Server, o registry.Listing) {
	changed := make(map[string]bool)
	var names, details []string
	for _, c := range hints.Unconfirmed(o) {
		changed[c.Tool.ID] = true
		name := plain.Line(clip(c.Tool.Name, 40))
		names = append(names, name)
		if len(details) < maxChanges {
			details = append(details, name+": "+strings.Join(hints.Changes(c.Was, c.Tool.Hints), ", "))
		}
	}
	if len(names) > 0 {
		x.add(Warning, fmt.Sprintf("%s to do less harm than you have confirmed, and %s not believed: %s.", claim(len(names)), are(len(names)), some(names)),
			"do you believe this of the server? To confirm it, run: metarouter trust --hints "+entry.Name, details...)
	}
	names, details = nil, nil
	for _, t := range o.Tools {
		if t.Doubt == "" || changed[t.ID] {
			continue
		}
		name := plain.Line(clip(t.Name, 40))
		names = append(names, name)
		if len(details) < maxChanges {
			details = append(details, name+": "+t.Doubt)
		}
	}
	if len(names) > 0 {
		x.add(Note, fmt.Sprintf("%s to do no harm, and %s not believed because of words that say otherwise: %s.", claim(len(names)), are(len(names)), some(names)),
			`if the server is right, write "trustHints": true in its entry; else nothing has to be done`, details...)
	}
}

func claim(tools int) string {
	if tools == 1 {
		return "1 tool claims"
	}
	return fmt.Sprintf("%d tools claim", tools)
}

func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// checkDescriptions names the tools without a description.
func checkDescriptions(x *findings, o registry.Listing) {
	var names []string
	for _, t := range o.Tools {
		if strings.TrimSpace(t.Description) == "" {
			names = append(names, plain.Line(clip(t.Name, 40)))
		}
	}
	if len(names) > 0 {
		x.add(Warning, fmt.Sprintf("%s no description, so models and searches know only the name: %s.", have(len(names)), some(names)),
			"report this to the server's authors")
	}
}

func have(n int) string {
	if n == 1 {
		return "1 tool has"
	}
	return fmt.Sprintf("%d tools have", n)
}

// checkSizes names the tools with large definitions.
func checkSizes(x *findings, o registry.Listing) {
	costs := func(a, b *registry.NormalizedTool) int { return cmp.Compare(Tokens(b), Tokens(a)) }
	var most []string
	var names []string
	for _, t := range slices.SortedStableFunc(slices.Values(o.Tools), costs) {
		if Tokens(t) > bigTool {
			most = append(most, fmt.Sprintf("%s (%d)", plain.Line(clip(t.Name, 40)), Tokens(t)))
			names = append(names, t.ServerName())
		}
	}
	if len(most) > 0 {
		x.add(Warning, fmt.Sprintf("the definitions of %s cost a model more than %d tokens each: %s.", prose.Count(len(most), "tool"), bigTool, some(most)),
			fmt.Sprintf(`leave out what you don't need: "tools": {"deny": [%s]}; or show only the search tools: "metarouter": {"mode": "search"}`, quoted(names[:min(len(names), 3)])))
	}
}

// noteRenamed names the tools that clients see under an unexpected name.
func noteRenamed(x *findings, c Case, o registry.Listing) {
	why := make(map[string][]string)
	for _, t := range o.Tools {
		if exposed, reason := c.Name(t); reason != "" {
			why[reason] = append(why[reason], fmt.Sprintf("%s is %s", plain.Line(clip(t.Name, 40)), exposed))
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(why)) {
		x.add(Note, fmt.Sprintf("clients see %s under another name, because %s: %s.", prose.Count(len(why[reason]), "tool"), reason, some(why[reason])),
			`nothing has to be done; for a name of your own, write "tools": {"rename": {"its name": "a shorter one"}}, or give the server a shorter name`)
	}
}

// checkPinned finds pinned names that no tool has.
func checkPinned(x *findings, c Case) {
	for _, name := range c.Config.Router.Pinned {
		if !c.Finds(name) {
			x.add(Warning, fmt.Sprintf(`"pinned" has %q, but no tool has this name, or several have it.`, name), fmt.Sprintf("correct it: 'metarouter why %s' explains it", name))
		}
	}
}

// checkCost checks what the list of all tools costs.
func checkCost(x *findings, c Case) {
	total := 0
	servers := make(map[string]int)
	for _, t := range c.Catalog.Tools() {
		total += Tokens(t)
		servers[t.Server] += Tokens(t)
	}
	budget := c.Config.Router.ToolBudget
	if total <= budget || c.Config.Router.Mode == "search" {
		return
	}
	var most []string
	for _, name := range slices.SortedFunc(maps.Keys(servers), func(a, b string) int { return cmp.Or(cmp.Compare(servers[b], servers[a]), cmp.Compare(a, b)) }) {
		most = append(most, fmt.Sprintf("%s (%d)", name, servers[name]))
	}
	if c.Config.Router.Mode == "direct" {
		x.add(Warning, fmt.Sprintf("the list of all tools costs a model %d tokens in each conversation, more than the %d of toolBudget; most of them belong to %s.", total, budget, some(most)),
			`write "metarouter": {"mode": "auto"}, which shows the search tools instead, or leave tools out: "tools": {"deny": ["…"]}`)
		return
	}
	x.add(Note, fmt.Sprintf("the list of all tools would cost a model %d tokens, more than the %d of toolBudget, so clients see the search tools instead; most of them belong to %s.", total, budget, some(most)),
		fmt.Sprintf(`nothing has to be done; to show all tools, write "metarouter": {"toolBudget": %d}`, roundUp(total)))
}

func roundUp(n int) int { return (n + 999) / 1000 * 1000 }
