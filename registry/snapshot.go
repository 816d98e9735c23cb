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

	all     items               // by ID
	servers map[string]*Listing // never an empty one
	claims  Claims
}

// Tool returns the tool with the given ID, "server:name".
func (s *Snapshot) Tool(id string) (*NormalizedTool, bool) {
	t := find(s.all.Tools, id)
	return t, t != nil
}

// Tools returns all tools, sorted by ID.
func (s *Snapshot) Tools() []*NormalizedTool { return s.all.Tools }

// Prompts returns all prompts, sorted by ID.
func (s *Snapshot) Prompts() []*Prompt { return s.all.Prompts }

// Resources returns all resources, sorted by ID.
func (s *Snapshot) Resources() []*Resource { return s.all.Resources }

// Templates returns all resource templates, sorted by ID.
func (s *Snapshot) Templates() []*Template { return s.all.Templates }

// Skills returns all skills, sorted by ID.
func (s *Snapshot) Skills() []*Skill { return s.all.Skills }

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
	for _, t := range s.all.Tools {
		if len(wanted) <= len(t.Capabilities) && taglist.Count(t.Capabilities, wanted) == len(wanted) {
			found = append(found, t)
		}
	}
	return found
}

// Capabilities returns each tag and how many tools have it, in a new map.
func (s *Snapshot) Capabilities() map[string]int {
	counts := make(map[string]int)
	for _, t := range s.all.Tools {
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
	next.all = allOf(next.servers, s.all)
	return next
}

// allOf returns the items of all servers, by ID. Lists that are as those before are shared with them.
func allOf(servers map[string]*Listing, before items) items {
	return items{
		Tools:     sorted(servers, func(l *Listing) []*NormalizedTool { return l.Tools }, before.Tools),
		Prompts:   sorted(servers, func(l *Listing) []*Prompt { return l.Prompts }, before.Prompts),
		Resources: sorted(servers, func(l *Listing) []*Resource { return l.Resources }, before.Resources),
		Templates: sorted(servers, func(l *Listing) []*Template { return l.Templates }, before.Templates),
		Skills:    sorted(servers, func(l *Listing) []*Skill { return l.Skills }, before.Skills),
	}
}

// sorted returns a list of all servers in one, by ID: the one before if it is the same.
func sorted[T keyed](servers map[string]*Listing, list func(*Listing) []T, before []T) (all []T) {
	size := 0
	for _, l := range servers {
		size += len(list(l))
	}
	all = make([]T, 0, size)
	for _, l := range servers {
		all = append(all, list(l)...)
	}
	slices.SortFunc(all, func(a, b T) int {
		idA, _, _ := a.key()
		idB, _, _ := b.key()
		return strings.Compare(idA, idB)
	})
	if slices.Equal(all, before) {
		return before
	}
	return all
}

// find returns the one that has the ID, of all sorted by ID; nil without one.
func find[T keyed](all []T, id string) (found T) {
	i, ok := slices.BinarySearchFunc(all, id, func(t T, id string) int {
		of, _, _ := t.key()
		return strings.Compare(of, id)
	})
	if ok {
		found = all[i]
	}
	return found
}
