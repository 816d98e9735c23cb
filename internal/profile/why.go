package profile

import (
	"fmt"
	"strings"

	"github.com/mcp-metarouter/metarouter/registry"
)

// Refusal returns why a tool is not allowed, as a clause such as `profile "work" denies it with
// "delete_*"`; "" if it is allowed.
func (r *Rules) Refusal(t *registry.NormalizedTool) string {
	for _, profiles := range r.choices {
		if reason := profiles.refusal(t); reason != "" {
			return reason
		}
	}
	if !r.Tool(t) && !t.Held {
		return "the profiles fix one of its arguments to different values"
	}
	return ""
}

// refusal returns why no profile allows the tool; "" if one does.
func (profiles choice) refusal(t *registry.NormalizedTool) string {
	var reasons []string
	for _, c := range profiles {
		reason := c.refusal(itemOf(t), t)
		switch {
		case reason == "":
			return ""
		case c.name == ReadOnly:
			reasons = append(reasons, "the client's access "+reason)
		default:
			reasons = append(reasons, fmt.Sprintf("profile %q %s", c.name, reason))
		}
	}
	return strings.Join(reasons, ", and ")
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
