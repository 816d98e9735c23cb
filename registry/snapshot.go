package registry

import (
	"cmp"
	"slices"
	"strings"
)

// A Snapshot is all that is known of the tools at one moment. It is immutable,
// and so are the tools in it; slices that it returns must not be modified
// unless said otherwise.
type Snapshot struct {
	// Version grows by one with each change; it is 0 for the empty registry.
	Version uint64

	tools   []*NormalizedTool            // by ID
	servers map[string][]*NormalizedTool // in the server's own order; never an empty list
}

// Tool returns the tool with the given ID, "server:name".
func (s *Snapshot) Tool(id string) (*NormalizedTool, bool) {
	i, ok := slices.BinarySearchFunc(s.tools, id, func(t *NormalizedTool, id string) int {
		return strings.Compare(t.ID, id)
	})
	if !ok {
		return nil, false
	}
	return s.tools[i], true
}

// Tools returns all tools, sorted by ID.
func (s *Snapshot) Tools() []*NormalizedTool { return s.tools }

// Server returns the tools of one server in the server's own order.
func (s *Snapshot) Server(name string) []*NormalizedTool { return s.servers[name] }

// FindByCapability returns the tools that bear all the given tags, sorted by
// ID, in a new slice. Tags match whatever their case. Without a tag it finds
// nothing.
func (s *Snapshot) FindByCapability(tags ...string) []*NormalizedTool {
	if len(tags) == 0 {
		return nil
	}
	tags = Tags(tags)
	var found []*NormalizedTool
	for _, t := range s.tools {
		if t.Bears(tags) == len(tags) {
			found = append(found, t)
		}
	}
	return found
}

// Capabilities returns each tag and how many tools bear it, in a new map.
func (s *Snapshot) Capabilities() map[string]int {
	counts := make(map[string]int)
	for _, t := range s.tools {
		for _, tag := range t.Capabilities {
			counts[tag]++
		}
	}
	return counts
}

// with returns the snapshot that follows s, in which the server has just these
// tools.
func (s *Snapshot) with(server string, tools []*NormalizedTool) *Snapshot {
	next := &Snapshot{
		Version: s.Version + 1,
		tools:   make([]*NormalizedTool, 0, len(s.tools)+len(tools)),
		servers: make(map[string][]*NormalizedTool, len(s.servers)+1),
	}
	for name, listed := range s.servers {
		if name != server {
			next.servers[name] = listed
		}
	}
	if len(tools) > 0 {
		next.servers[server] = tools
	}
	added := slices.SortedFunc(slices.Values(tools), byID)
	for _, t := range s.tools {
		if t.Server == server {
			continue
		}
		for len(added) > 0 && byID(added[0], t) < 0 {
			next.tools, added = append(next.tools, added[0]), added[1:]
		}
		next.tools = append(next.tools, t)
	}
	next.tools = append(next.tools, added...)
	return next
}

func byID(a, b *NormalizedTool) int { return cmp.Compare(a.ID, b.ID) }

// Tags returns capability tags as tools bear them: trimmed, in lower case,
// sorted, each once, none empty.
func Tags(tags []string) []string {
	clean := make([]string, 0, len(tags))
	for _, tag := range tags {
		if tag = strings.ToLower(strings.TrimSpace(tag)); tag != "" {
			clean = append(clean, tag)
		}
	}
	slices.Sort(clean)
	return slices.Compact(clean)
}

// Bears returns how many of the tags the tool bears. The tags must be as
// [Tags] returns them.
func (t *NormalizedTool) Bears(tags []string) int {
	n := 0
	for _, tag := range tags {
		if slices.Contains(t.Capabilities, tag) {
			n++
		}
	}
	return n
}
