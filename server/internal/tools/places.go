package tools

import (
	"fmt"
	"strings"

	"github.com/mcp-metarouter/metarouter/registry"
)

// maxPlaces bounds the servers that an answer names for one tool.
const maxPlaces = 20

// A placement says which servers have a tool: one of the same name and input schema.
type placement struct {
	Places    []string `json:"places,omitempty"`    // the servers, the chosen one first; empty if only one has the tool
	OtherIDs  []string `json:"other_ids,omitempty"` // of the tool on the other servers
	Ambiguous bool     `json:"ambiguous,omitempty"` // nothing says which server is meant
}

func placementOf(places []*registry.NormalizedTool, ambiguous bool) (p placement) {
	for i, t := range places[:min(len(places), maxPlaces)] {
		p.Places = append(p.Places, t.Server)
		if i > 0 {
			p.OtherIDs = append(p.OtherIDs, t.ID)
		}
	}
	p.Ambiguous = ambiguous
	return p
}

// question says why the tool was not run if the server is not known, and how to say it.
func (p placement) question(id string) string {
	return fmt.Sprintf("several servers have this tool (%s), and neither the task nor the arguments say which one is meant; name the server in the task, or run one of the ids %s with call_tool",
		strings.Join(p.Places, ", "), strings.Join(append([]string{id}, p.OtherIDs...), ", "))
}
