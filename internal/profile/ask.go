package profile

import (
	"fmt"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/registry"
)

// An Ask is why a person is asked before a call. The zero value is that no one is.
type Ask struct {
	Profile string     // whose rule it is
	Word    config.Ask // AskDestructive, AskWrites or AskAlways; "" if it is a pattern
	Pattern string     // of the tools before whose calls a person is asked
}

// String returns a clause such as `profile "work" asks before tools that match "create_*"`, or "".
func (a Ask) String() string {
	switch {
	case a == Ask{}:
		return ""
	case a.Word == config.AskAlways:
		return fmt.Sprintf("profile %q asks before each call", a.Profile)
	case a.Word == config.AskWrites:
		return fmt.Sprintf("profile %q asks before tools that may write", a.Profile)
	case a.Word == config.AskDestructive:
		return fmt.Sprintf("profile %q asks before tools that may destroy something", a.Profile)
	}
	return fmt.Sprintf("profile %q asks before tools that match %q", a.Profile, a.Pattern)
}

// Asks returns why a person is asked before a call of the tool. Each profile is enough to ask.
// Patterns count whatever the tool declares.
func (r *Rules) Asks(t *registry.NormalizedTool) Ask {
	i := itemOf(t)
	for _, c := range r.profiles {
		if p, ok := i.first(c.ask); ok {
			return Ask{Profile: c.name, Pattern: p.String()}
		}
		if asksFor(c.config.Ask, t) {
			return Ask{Profile: c.name, Word: c.config.Ask}
		}
	}
	return Ask{}
}

// asksFor reports whether the word asks before calls of the tool.
func asksFor(word config.Ask, t *registry.NormalizedTool) bool {
	switch word {
	case "", config.AskNever:
		return false
	case config.AskDestructive:
		harmless := t.Hints.Destructive != nil && !*t.Hints.Destructive && t.Doubt == ""
		return !harmless && !t.Reads()
	case config.AskWrites:
		return !t.Reads()
	}
	return true // also for a word that is not known
}
