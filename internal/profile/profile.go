// Package profile decides which tools, resources and prompts the clients of some profiles may use.
//
// [Of] returns the [Rules] of a client's choices: each choice is the name of a profile, a [Union] of
// profiles, or [ReadOnly]. Choices intersect: an item is allowed if each of them allows it. Rules fail closed: a profile that does not exist, or that has a pattern which can't be
// read, allows nothing.
//
// Patterns are compared with the names and the ID of an item; see [glob.Item]. The name of a
// resource is its URI, and the name of a template its URI template.
package profile

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/glob"
	"github.com/mcp-metarouter/metarouter/registry"
)

// Rules are the limits of some choices together. They are immutable. The zero value allows
// everything and asks before nothing.
type Rules struct{ choices []choice } // single profiles before unions

// A choice allows the items that any of its profiles allows. They are in the order of their names.
type choice []*compiled

// compiled is one profile with its patterns parsed.
type compiled struct {
	name       string
	config     config.Profile
	servers    []glob.Pattern
	allow      []glob.Pattern
	deny       []glob.Pattern
	ask        []glob.Pattern
	skillAllow []glob.Pattern
	skillDeny  []glob.Pattern
	fixed      []fixed // the most specific pattern first
}

// Of returns the rules of clients that have chosen these. Their order counts for Mode and Pinned
// only, where a union comes after single profiles. See [Applying] for clients that have chosen no
// profile; if no profile applies, the rules allow everything.
func Of(all map[string]config.Profile, chosen ...string) *Rules {
	r := &Rules{}
	for _, name := range Applying(all, chosen) {
		r.choices = append(r.choices, choiceOf(all, name))
	}
	slices.SortStableFunc(r.choices, func(a, b choice) int { return cmp.Compare(min(len(a), 2), min(len(b), 2)) })
	return r
}

// choiceOf returns the choice of a name. A profile that does not exist allows nothing.
func choiceOf(all map[string]config.Profile, chosen string) choice {
	if chosen == ReadOnly {
		return choice{compile(ReadOnly, config.Profile{ReadOnly: true})}
	}
	if servers := OnlyOf(chosen); servers != nil {
		return choice{compile(chosen, onlyServers(servers))}
	}
	var c choice
	for _, name := range profilesOf(chosen) {
		p, ok := all[name]
		if !ok {
			p = config.Profile{Servers: []string{}, Scripts: new(bool)}
		}
		c = append(c, compile(name, p))
	}
	return c
}

// compile parses the patterns of a profile. If one is bad, the profile allows nothing.
func compile(name string, p config.Profile) *compiled {
	var bad error
	parse := func(texts []string) []glob.Pattern {
		all := make([]glob.Pattern, len(texts))
		for i, text := range texts {
			pattern, err := glob.Parse(text)
			if err != nil {
				bad = err
			}
			all[i] = pattern
		}
		return all
	}
	c := &compiled{
		name: name, config: p,
		servers: parse(p.Servers), allow: parse(p.Allow), deny: parse(p.Deny), ask: parse(p.AskFor),
		skillAllow: parse(p.SkillsAllow), skillDeny: parse(p.SkillsDeny),
	}
	var err error
	if c.fixed, err = compileFixed(p.Arguments); err != nil {
		bad = err
	}
	if bad != nil {
		c.config.Servers, c.servers, c.config.Scripts = []string{}, nil, new(bool)
	}
	return c
}

// Everything reports whether the rules leave everything as it is: each choice has a profile that
// restricts, asks and fixes nothing. Mode, Scripts and Pinned do not count.
func (r *Rules) Everything() bool {
	return r.all((*compiled).everything)
}

func (c *compiled) everything() bool {
	p := c.config
	asks := len(p.AskFor) > 0 || p.Ask != "" && p.Ask != "never"
	return p.Servers == nil && len(p.Allow) == 0 && len(p.Deny) == 0 && len(p.SkillsAllow) == 0 && len(p.SkillsDeny) == 0 && !p.ReadOnly && len(p.Arguments) == 0 && !asks
}

// Identity returns a hash of the rules: equal ones belong to equal rules.
func (r *Rules) Identity() string {
	all := sha256.New()
	for _, profiles := range r.choices {
		fmt.Fprintf(all, "%d\n", len(profiles))
		for _, c := range profiles {
			text, err := json.Marshal(c.config)
			fmt.Fprintf(all, "%q %d %s %v\n", c.name, len(text), text, err)
		}
	}
	return hex.EncodeToString(all.Sum(nil))
}

// Mode returns the mode of the first profile that has one, or "".
func (r *Rules) Mode() string {
	for _, c := range slices.Concat(r.choices...) {
		if c.config.Mode != "" {
			return c.config.Mode
		}
	}
	return ""
}

// code is the mode in which clients may run scripts without a word of their profiles.
const code = "code"

// Scripts reports whether clients may run scripts, by the router's mode: each choice has a profile that
// allows it, or that says nothing and is in mode "code". [ReadOnly] says nothing about it.
func (r *Rules) Scripts(mode string) bool {
	chosen := false
	for _, profiles := range r.choices {
		if profiles[0].name == ReadOnly {
			continue
		}
		chosen = true
		if !slices.ContainsFunc(profiles, func(c *compiled) bool {
			if c.config.Scripts != nil {
				return *c.config.Scripts
			}
			return cmp.Or(c.config.Mode, mode) == code
		}) {
			return false
		}
	}
	return chosen || mode == code
}

// Pinned returns the IDs of the tools that the first profile with "pinned" pins. ok is false if
// no profile has it. They may name tools that are not allowed. The slice must not be modified.
func (r *Rules) Pinned() (ids []string, ok bool) {
	for _, c := range slices.Concat(r.choices...) {
		if c.config.Pinned != nil {
			return c.config.Pinned, true
		}
	}
	return nil, false
}

// Server reports whether clients may know that a server exists.
func (r *Rules) Server(name string) bool {
	return r.all(func(c *compiled) bool { return c.hasServer(name) })
}

// Name reports whether a prompt or a template is allowed, by the prompt's name or the URI
// template. Of a tool or a resource, Tool and URI demand more.
func (r *Rules) Name(server, name string) bool {
	i := named(server, name)
	return r.all(func(c *compiled) bool { return c.has(i) })
}

// Tool reports whether a tool is allowed. It is not if it is held, if a choice is for reading only and the tool
// does not just read, or if two choices fix one of its arguments to different values.
func (r *Rules) Tool(t *registry.NormalizedTool) bool {
	_, ok := r.terms(t)
	return ok
}

// Item reports whether an item is allowed, as Tool, URI and Name do.
func (r *Rules) Item(i registry.Item, skills ...*registry.Skill) bool {
	switch {
	case i.Tool != nil:
		return r.Tool(i.Tool)
	case i.Prompt != nil:
		return r.Name(i.Prompt.Server, i.Prompt.Name)
	case i.Template != nil:
		return r.Name(i.Template.Server, i.Template.URI)
	}
	resource := cmp.Or(i.Resource, i.Skill)
	return r.URI(resource.Server, resource.URI, skills...)
}

// maxURI is the most bytes of a URI that is compared with patterns.
const maxURI = 64 << 10

// URI reports whether a resource may be read from a server. The URI need not be the URI of a
// listed resource. It counts as it is written and as the server may read it: "file:///srv/%2e%2e/etc" is
// "file:///etc" too. A URI of more than 64 KiB is not allowed by any profile. The skills are the server's.
func (r *Rules) URI(server, uri string, skills ...*registry.Skill) bool {
	if len(uri) > maxURI {
		return len(r.choices) == 0
	}
	written, all, loose := named(server, uri), readings(uri), loosely(uri)
	spelled := []string{uri, unescaped(uri)}
	for _, read := range slices.Concat(all, loose) {
		spelled = append(spelled, read[:]...)
	}
	slices.Sort(spelled)
	spelled = slices.Compact(spelled)
	return r.all(func(c *compiled) bool {
		if may, decided := c.file(written, spelled, skills); decided {
			return may
		}
		denied := func(read reading) bool { return c.denies(named(server, read[0])) || c.denies(named(server, read[1])) }
		refused := func(read reading) bool {
			return denied(read) || !c.allows(named(server, read[0])) && !c.allows(named(server, read[1]))
		}
		return c.has(written) && !slices.ContainsFunc(all, refused) && !slices.ContainsFunc(loose, denied)
	})
}

// Fixed returns the arguments, an object, that each call of the tool has and that clients may
// not send; nil without any. They are arguments that the server's schema declares.
func (r *Rules) Fixed(t *registry.NormalizedTool) json.RawMessage {
	terms, ok := r.terms(t)
	if !ok || len(terms.fixed) == 0 {
		return nil
	}
	object, err := json.Marshal(terms.fixed)
	if err != nil {
		panic(err) // valid JSON, which the configuration was decoded from
	}
	return object
}

// all reports whether each choice has a profile that allows something.
func (r *Rules) all(allows func(*compiled) bool) bool {
	for _, profiles := range r.choices {
		if !slices.ContainsFunc(profiles, allows) {
			return false
		}
	}
	return true
}

func (c *compiled) hasServer(name string) bool {
	return c.config.Servers == nil || slices.ContainsFunc(c.servers, func(p glob.Pattern) bool { return p.Match(name) })
}

func (c *compiled) has(i item) bool {
	return c.hasServer(i.server) && !c.denies(i) && c.allows(i)
}

func (c *compiled) denies(i item) bool {
	_, denied := i.first(c.deny)
	return denied
}

func (c *compiled) allows(i item) bool {
	return len(c.allow) == 0 || slices.ContainsFunc(c.allow, i.IsAllowed)
}

// An item is compared with patterns.
type item struct {
	server string
	glob.Item
}

func named(server, name string) item {
	return item{server, glob.Item{Name: name, ID: registry.ID(server, name)}}
}

func itemOf(t *registry.NormalizedTool) item {
	return item{t.Server, glob.Item{Name: t.Name, ID: t.ID}}
}

// first returns the first pattern that matches the name or the ID.
func (i item) first(patterns []glob.Pattern) (glob.Pattern, bool) {
	at := slices.IndexFunc(patterns, i.Matches)
	if at < 0 {
		return glob.Pattern{}, false
	}
	return patterns[at], true
}
