package registry

import (
	"maps"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/taglist"
)

// A Snapshot is the catalog at one moment. It is immutable, and so are its items; slices
// that it returns must not be modified, unless they are new.
type Snapshot struct {
	// Version grows by one with each change; it is 0 for the empty registry.
	Version uint64

	// By ID:
	tools     []*NormalizedTool
	prompts   []*Prompt
	resources []*Resource
	templates []*Template
	skills    []*Skill

	servers map[string]*Listing // never an empty one
	claims  Claims
}

// Tool returns the tool with the given ID, "server:name".
func (s *Snapshot) Tool(id string) (*NormalizedTool, bool) { return find(s.tools, id) }

// Tools returns all tools, sorted by ID.
func (s *Snapshot) Tools() []*NormalizedTool { return s.tools }

// Prompts returns all prompts, sorted by ID.
func (s *Snapshot) Prompts() []*Prompt { return s.prompts }

// Resources returns all resources, sorted by ID.
func (s *Snapshot) Resources() []*Resource { return s.resources }

// Templates returns all resource templates, sorted by ID.
func (s *Snapshot) Templates() []*Template { return s.templates }

// Skills returns all skills, sorted by ID.
func (s *Snapshot) Skills() []*Skill { return s.skills }

// Server returns the tools of one server in the server's own order.
func (s *Snapshot) Server(name string) []*NormalizedTool { return s.Offer(name).Tools }

// Offer returns all that one server offers; nothing for an unknown server.
func (s *Snapshot) Offer(server string) Listing {
	if l := s.servers[server]; l != nil {
		return *l
	}
	return Listing{}
}

// FindByCapability returns the tools that have all the given tags, sorted by ID, in a new
// slice. The case of tags does not matter. Without a tag it finds nothing.
func (s *Snapshot) FindByCapability(wanted ...string) []*NormalizedTool {
	if len(wanted) == 0 {
		return nil
	}
	wanted = taglist.Clean(wanted)
	var found []*NormalizedTool
	for _, t := range s.tools {
		if len(wanted) <= len(t.Capabilities) && taglist.Count(t.Capabilities, wanted) == len(wanted) {
			found = append(found, t)
		}
	}
	return found
}

// Capabilities returns each tag and how many tools have it, in a new map.
func (s *Snapshot) Capabilities() map[string]int {
	counts := make(map[string]int)
	for _, t := range s.tools {
		for _, tag := range t.Capabilities {
			counts[tag]++
		}
	}
	return counts
}

// with returns the snapshot after s with the listings of some servers; nil removes a server. It
// returns s if there are none.
func with(s *Snapshot, changes map[string]*Listing) *Snapshot {
	if len(changes) == 0 {
		return s
	}
	next := &Snapshot{Version: s.Version + 1, servers: make(map[string]*Listing, len(s.servers)+len(changes)), claims: s.claims}
	maps.Copy(next.servers, s.servers)
	maps.Copy(next.servers, changes)
	maps.DeleteFunc(next.servers, func(_ string, l *Listing) bool { return l == nil })
	for _, l := range next.servers {
		next.tools = append(next.tools, l.Tools...)
		next.prompts = append(next.prompts, l.Prompts...)
		next.resources = append(next.resources, l.Resources...)
		next.templates = append(next.templates, l.Templates...)
		next.skills = append(next.skills, l.Skills...)
	}
	slices.SortFunc(next.tools, byID)
	slices.SortFunc(next.prompts, byID)
	slices.SortFunc(next.resources, byID)
	slices.SortFunc(next.templates, byID)
	slices.SortFunc(next.skills, byID)
	return next
}

func byID[T keyed](a, b T) int {
	idA, _, _ := a.key()
	idB, _, _ := b.key()
	return strings.Compare(idA, idB)
}

// find returns the one that has the ID, of all sorted by ID.
func find[T keyed](all []T, id string) (found T, ok bool) {
	i, ok := slices.BinarySearchFunc(all, id, func(t T, id string) int {
		of, _, _ := t.key()
		return strings.Compare(of, id)
	})
	if ok {
		found = all[i]
	}
	return found, ok
}
