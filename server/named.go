package server

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// maxFindTools is how long the description of find_tools may be, in characters: clients cut longer ones.
const maxFindTools = 2000

// serverNames names the servers in the description of find_tools: agents that do not know the servers behind
// a search do not search. The text changes only when servers come or go, since each change costs clients
// their cache of the prompt.
type serverNames struct {
	uses func() map[string]int // calls by server; nil if that is not known

	once sync.Once
	used map[string]int // as it was when names did not fit first
}

// of returns the names of the servers that clients may see and that can have tools, sorted.
func (n *serverNames) of(servers []adapter.ServerInfo) (names []string) {
	for _, s := range servers {
		if s.State != status.Disabled && s.State != status.Self && s.State != status.Misconfigured {
			names = append(names, plain.Line(s.Name))
		}
	}
	slices.Sort(names)
	return names
}

// add returns the definition of find_tools with the names in its description, as many as have room:
// the names of the servers that were used most.
func (n *serverNames) add(definition []byte, names []string) []byte {
	description, _ := wire.String(wire.Member(definition, "description"))
	if len(names) == 0 {
		return definition
	}
	const title, more = " The servers: ", ", and %d more"
	room := maxFindTools - len([]rune(description)) - len(title) - len(more) - len(".") - 8
	length := func(name string) int { return len([]rune(name)) + len(", ") }
	all := 0
	for _, name := range names {
		all += length(name)
	}
	shown := names
	if all > room {
		n.once.Do(func() {
			if n.uses != nil {
				n.used = n.uses()
			}
		})
		byUse := slices.Clone(names)
		slices.SortStableFunc(byUse, func(a, b string) int { return cmp.Compare(n.used[b], n.used[a]) })
		shown = nil
		for _, name := range byUse {
			if room -= length(name); room < 0 {
				break
			}
			shown = append(shown, name)
		}
		slices.Sort(shown)
	}
	text := title + strings.Join(shown, ", ")
	if left := len(names) - len(shown); left > 0 {
		text += fmt.Sprintf(more, left)
	}
	return wire.SetMember(definition, "description", wire.AppendString(nil, description+text+"."))
}
