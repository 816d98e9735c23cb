package profile

import (
	"fmt"
	"slices"

	"github.com/mcp-metarouter/metarouter/registry"
)

// An Ask is why a person is asked before a call. The zero value is that no person is asked.
type Ask struct {
	Profile string // that has the rule
	Word    string // "destructive", "writes" or "always"; "" if it is a pattern
	Pattern string // of the tools; a person is asked before their calls
}

// String returns a clause such as `profile "work" asks before tools that match "create_*"`, or "".
func (a Ask) String() string {
	switch before, known := asksBefore[a.Word]; {
	case a == Ask{}:
		return ""
	case known:
		return fmt.Sprintf("profile %q asks before %s", a.Profile, before)
	}
	return fmt.Sprintf("profile %q asks before tools that match %q", a.Profile, a.Pattern)
}

// asksBefore are the calls before which the words ask.
var asksBefore = map[string]string{"always": "each call", "writes": "tools that may write", "destructive": "tools that may destroy something"}

// Asks returns why a person is asked before a call of the tool. Each choice is enough to ask; of
// a tool that is not allowed, each profile. Patterns count for every tool, with any hints.
func (r *Rules) Asks(t *registry.NormalizedTool) Ask {
	if terms, ok := r.terms(t); ok {
		return terms.ask
	}
	for _, c := range slices.Concat(r.choices...) {
		if ask := c.asks(itemOf(t), t); ask != (Ask{}) {
			return ask
		}
	}
	return Ask{}
}

// asks returns why the profile asks before a call of the tool.
func (c *compiled) asks(i item, t *registry.NormalizedTool) Ask {
	if p, ok := i.first(c.ask); ok {
		return Ask{Profile: c.name, Pattern: p.String()}
	}
	if asksFor(c.config.Ask, t) {
		return Ask{Profile: c.name, Word: c.config.Ask}
	}
	return Ask{}
}

// asksFor reports whether the word asks before calls of the tool.
func asksFor(word string, t *registry.NormalizedTool) bool {
	switch word {
	case "", "never":
		return false
	case "destructive":
		harmless := t.Hints.Destructive != nil && !*t.Hints.Destructive && t.Doubt == ""
		return !harmless && !t.Reads()
	case "writes":
		return !t.Reads()
	}
	return true // also for a word that is not known
}
