package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/discovery"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/internal/hints"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/schema"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
)

const (
	bigTool = 2000 // tokens; a larger definition of a tool gets a warning

	maxChanges = 3   // changed tools of a server that are described
	maxChanged = 160 // characters of a member of the definition, before and after
)

// skillName is the form of a skill's name in the specification of Agent Skills, which allows it 64 characters.
var skillName = lazy.Regexp(`^[\p{Ll}\p{Lo}\p{Nd}]+(-[\p{Ll}\p{Lo}\p{Nd}]+)*$`)

// tokens returns how many tokens a model pays for the tool's definition.
func tokens(t *registry.NormalizedTool) int { return len(t.Definition) / content.TokenBytes }

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

// checkFilters finds patterns and names in the entry's "tools" that match no tool.
func checkFilters(x *findings, entry config.Server, o registry.Listing) {
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
	check := func(key string, words []string, fits func(word, name string) bool) {
		for _, word := range words {
			if !slices.ContainsFunc(theirs, func(name string) bool { return fits(word, name) }) {
				x.add(Warning, fmt.Sprintf(`%q in "tools", %q of its entry matches no tool.`, word, key), "remove or correct it; the server's tools are "+some(theirs))
			}
		}
	}
	matches := func(pattern, name string) bool {
		_, excluded := discovery.Rules{Deny: []string{pattern}}.Excludes(name)
		return excluded
	}
	check("allow", entry.Tools.Allow, matches)
	check("deny", entry.Tools.Deny, func(p, name string) bool {
		return matches(p, name) || matches(p, entry.Name+"__"+name) || matches(p, entry.Name+":"+name)
	})
	check("rename", slices.Sorted(maps.Keys(entry.Tools.Rename)), func(word, name string) bool { return word == name })
}

// checkOffer checks the tools and resources of a server.
func checkOffer(x *findings, c Case, entry config.Server, s status.Status, o registry.Listing) {
	if len(o.Tools)+len(o.Prompts)+len(o.Resources)+len(o.Templates)+len(o.Skills)+len(o.Dropped) == 0 {
		if s.State == status.Ready {
			x.add(Warning, "it runs, but it offers nothing: no tool, no prompt, no resource.", "does it need another argument, or a login? See its README")
		}
		return
	}
	checkDropped(x, o)
	if len(o.Suspect) > 0 {
		x.add(Warning, "its instructions tell a model what to do beyond its use, or hid characters from people.",
			fmt.Sprintf("do you trust the server? Models read them with its tools. If not, run: metarouter disable %s --write", commandline.Quote(entry.Name)), o.Suspect...)
	}
	var odd []string
	for _, s := range o.Skills {
		if len([]rune(s.Name)) > 64 || !skillName().MatchString(s.Name) {
			odd = append(odd, plain.Line(console.Cut(s.Name, 40)))
		}
	}
	if len(odd) > 0 {
		x.add(Note, fmt.Sprintf("some hosts refuse its skills with these names: %s.", some(odd)), "report this to the server's authors: a name has up to 64 lower-case letters, digits and single hyphens")
	}
	checkURIs(x, c, entry, o)
	for _, row := range toolRows(entry, o) {
		row.check(x, entry, o)
	}
}

// checkDropped names the definitions that the server lists and metarouter can't offer.
func checkDropped(x *findings, o registry.Listing) {
	var all, names []string
	for _, d := range o.Dropped {
		switch {
		case d.Cut:
			x.add(Warning, fmt.Sprintf("its list of %ss has no proper end: %s. The pages that were read are used.", d.Kind, plain.Line(d.Reason)), "report this to the server's authors: other clients may refuse the list, or show less")
		case d.Name == "": // the whole list
			x.add(Warning, fmt.Sprintf("its list of %ss can't be read, so it is used without: %s.", d.Kind, plain.Line(d.Reason)), "update the server, or report this to its authors")
		case d.Filter == "":
			all = append(all, fmt.Sprintf("%s %s: %s", d.Kind, plain.Line(console.Cut(d.Name, 60)), plain.Line(d.Reason)))
			names = append(names, plain.Line(console.Cut(d.Name, 60)))
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

// A toolRow is a finding about those tools of a server that it is about.
type toolRow struct {
	severity     Severity
	one, many    string // what follows the number of tools
	problem, fix string // "{tools}" is the number with one or many, "{example}" what the rule says of the first tool (else it is a detail), "{deny}" the first names, "{server}" the entry's
	is           func(*registry.NormalizedTool) (says string, is bool)
}

func (r toolRow) check(x *findings, entry config.Server, o registry.Listing) {
	var names, own, details []string
	example := ""
	for _, t := range o.Tools {
		says, is := r.is(t)
		if !is {
			continue
		}
		name := plain.Line(console.Cut(t.Name, 40))
		names, own, example = append(names, name), append(own, t.ServerName()), cmp.Or(example, says)
		if says != "" && len(details) < maxChanges && !strings.Contains(r.problem, "{example}") {
			details = append(details, name+": "+says)
		}
	}
	if len(names) == 0 {
		return
	}
	tools := fmt.Sprintf("%d %s", len(names), r.many)
	if len(names) == 1 {
		tools = "1 " + r.one
	}
	fill := strings.NewReplacer("{tools}", tools, "{example}", plain.Line(console.Cut(example, 120)), "{deny}", quoted(own[:min(len(own), 3)]), "{server}", commandline.Quote(entry.Name))
	x.add(r.severity, fill.Replace(r.problem)+": "+some(names)+".", fill.Replace(r.fix), details...)
}

// toolRows are the findings about tools.
func toolRows(entry config.Server, o registry.Listing) []toolRow {
	were := make(map[string]string) // by the id of a tool with hints that no person has confirmed
	for _, c := range hints.Unconfirmed(o) {
		were[c.Tool.ID] = strings.Join(hints.Changes(c.Was, c.Tool.Hints), ", ")
	}
	what := "changed"
	if entry.NewTools == "hold" {
		what = "changed or new, and held from clients,"
	}
	const report = "report this to the server's authors"
	return []toolRow{
		{Note, "tool", "tools", "{tools} had definitions that some clients refuse, and that metarouter repairs ({example})", "nothing has to be done; you can report it to the server's authors",
			func(t *registry.NormalizedTool) (string, bool) {
				return strings.Join(t.Repairs[:min(len(t.Repairs), 1)], ""), len(t.Repairs) > 0 && len(t.Suspect) == 0
			}},
		{Warning, "tool has a text that tells", "tools have texts that tell", "{tools} a model what to do beyond its use, or hid characters from people",
			`do you trust the server? Such texts can have a model send your data away. If not, run: metarouter disable {server} --write; or leave out the tools: "tools": {"deny": [{deny}]}`,
			func(t *registry.NormalizedTool) (string, bool) {
				return strings.Join(t.Suspect, "; "), len(t.Suspect) > 0
			}},
		{Warning, "tool", "tools", "{tools} " + what + " since you last looked", "are the changes what you expect of this server? To read them all and be warned no more, run: metarouter tools --seen --server {server}",
			func(t *registry.NormalizedTool) (string, bool) {
				seen, changed := o.LastSeen[t.ServerName()]
				if seen == nil {
					return "", changed
				}
				return strings.Join(hints.DefinitionChanges(seen, t.Definition, maxChanged), "; "), changed
			}},
		{Warning, "tool claims to do less harm than you have confirmed, and is not believed", "tools claim to do less harm than you have confirmed, and are not believed", "{tools}",
			"do you believe this of the server? To confirm it, run: metarouter trust --hints {server}",
			func(t *registry.NormalizedTool) (string, bool) { says, is := were[t.ID]; return says, is }},
		{Note, "tool claims to do no harm, and is not believed", "tools claim to do no harm, and are not believed", "{tools} because of words that say otherwise",
			`if the server is right, write "trustHints": true in its entry; else nothing has to be done`,
			func(t *registry.NormalizedTool) (string, bool) {
				_, changed := were[t.ID]
				return t.Doubt, t.Doubt != "" && !changed
			}},
		{Warning, "tool has", "tools have", "{tools} no description, so models and searches know only the name", report,
			func(t *registry.NormalizedTool) (string, bool) { return "", strings.TrimSpace(t.Description) == "" }},
		{Warning, "tool", "tools", fmt.Sprintf("the definitions of {tools} cost a model more than %d tokens each", bigTool),
			`leave out what you don't need: "tools": {"deny": [{deny}]}; or show only the search tools: "metarouter": {"mode": "search"}`,
			func(t *registry.NormalizedTool) (string, bool) {
				return prose.Count(tokens(t), "token"), tokens(t) > bigTool
			}},
		{Warning, "tool", "tools", "the arguments of {tools} are not validated, since the schemas would take very long to validate with",
			`report this to the server's authors; if you don't know why a schema is like this, leave the tools out: "tools": {"deny": [{deny}]}`,
			func(t *registry.NormalizedTool) (string, bool) {
				err := schema.Costly(t.ArgumentSchema())
				return fmt.Sprint(err), err != nil
			}},
	}
}

// checkURIs names the resources with URIs that belong to other servers.
func checkURIs(x *findings, c Case, entry config.Server, o registry.Listing) {
	claims := c.Catalog.Claims()
	taken := make(map[string][]string) // by owner
	add := func(uri string) {
		if claim, ok := claims[uri]; ok && claim.Server != entry.Name {
			taken[claim.Server] = append(taken[claim.Server], plain.Line(console.Cut(uri, 80)))
		}
	}
	for _, r := range o.Resources {
		add(r.URI)
	}
	for _, t := range o.Templates {
		add(t.URI)
	}
	for _, owner := range slices.Sorted(maps.Keys(taken)) {
		x.add(Warning, fmt.Sprintf("%s that it lists belong to the server %q, which had them first: %s.", prose.Count(len(taken[owner]), "URI"), owner, some(taken[owner])),
			fmt.Sprintf("is it meant to offer the same? Clients read its own as metarouter://%s/URI. To give it the URIs, remove the entry of %q", entry.Name, owner))
	}
}

// checkCost compares the tokens of all tools with the budget.
func checkCost(x *findings, c Case) {
	total, budget := 0, c.Config.Router.ToolBudget
	for _, t := range c.Catalog.Tools() {
		total += tokens(t)
	}
	if total > budget && c.Config.Router.Mode == "direct" {
		x.add(Warning, fmt.Sprintf("the list of all tools costs a model %d tokens in each conversation, more than the %d of toolBudget.", total, budget),
			`write "metarouter": {"mode": "auto"}, which shows the search tools instead, or leave tools out: "tools": {"deny": ["…"]}`)
	}
}
