package profile

import (
	"fmt"

	"github.com/mcp-metarouter/metarouter/registry"
)

// Refusal returns why a tool is not allowed, as a clause such as `profile "work" denies it with
// "delete_*"`; "" if it is allowed.
func (r *Rules) Refusal(t *registry.NormalizedTool) string {
	i := itemOf(t)
	for _, c := range r.profiles {
		if reason := c.refusal(i, t); reason != "" {
			return fmt.Sprintf("profile %q %s", c.name, reason)
		}
	}
	if !r.Tool(t) {
		return "the profiles fix one of its arguments to different values"
	}
	return ""
}

func (c *compiled) refusal(i item, t *registry.NormalizedTool) string {
	if !c.hasServer(i.server) {
		return "has no server of that name in \"servers\""
	}
	if p, denied := i.first(c.deny); denied {
		return fmt.Sprintf("denies it with %q", p.String())
	}
	switch {
	case !c.allows(i):
		return "does not have it in \"allow\""
	case c.config.ReadOnly && !t.Hints.IsReadOnly():
		return "is read-only, and the server does not declare that the tool only reads"
	case c.config.ReadOnly && !t.Reads():
		return "is read-only, and the tool does not count as one that only reads: " + t.Doubt
	}
	return ""
}
