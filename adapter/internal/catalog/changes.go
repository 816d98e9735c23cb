package catalog

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/changes"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/registry"
)

// Bounds of the log line on changed definitions.
const (
	maxChanges = 10  // tools of one server that are described
	maxChanged = 160 // characters of a member, before and after
)

// Bounds of the definitions that are kept until a person has seen how they changed.
const (
	maxLastSeen      = 200     // of a server
	maxLastSeenBytes = 4 << 20 // together
)

// changesOf compares two lists of a server's tools. It counts the definitions that changed, are new and
// are gone, and describes the first changes.
func changesOf(before, after []registry.NormalizedTool) (changed, added, removed int, details []string) {
	was := byServerName(before)
	for i := range after {
		t := &after[i]
		old, known := was[t.ServerName()]
		delete(was, t.ServerName())
		switch {
		case !known:
			added++
		case bytes.Equal(old.Definition, t.Definition):
		default:
			if diff := changes.Diff(old.Definition, t.Definition, maxChanged); diff != nil {
				if changed++; changed <= maxChanges {
					details = append(details, plain.Line(t.Name)+": "+strings.Join(diff, "; "))
				}
			}
		}
	}
	return changed, added, len(was), details
}

func byServerName(tools []registry.NormalizedTool) map[string]*registry.NormalizedTool {
	all := make(map[string]*registry.NormalizedTool, len(tools))
	for i := range tools {
		all[tools[i].ServerName()] = &tools[i]
	}
	return all
}

// lastSeen returns LastSeen of the offer that follows another one. It has tools that are gone, too:
// they may come back with another definition. hold says that it has new tools, too, without a definition.
func lastSeen(before registry.Offer, after []registry.NormalizedTool, hold bool) map[string]json.RawMessage {
	now, kept, size := byServerName(after), make(map[string]json.RawMessage), 0
	keep := func(name string, seen json.RawMessage) {
		t, listed := now[name]
		if listed && seen != nil && (bytes.Equal(seen, t.Definition) || changes.Diff(seen, t.Definition, 0) == nil) {
			return // as it was
		}
		if len(kept) >= maxLastSeen || size+len(seen) > maxLastSeenBytes {
			if !listed {
				return
			}
			seen = nil
		}
		kept[name] = seen
		size += len(seen)
	}
	for _, name := range slices.Sorted(maps.Keys(before.LastSeen)) {
		keep(name, before.LastSeen[name])
	}
	for i := range before.Tools {
		t := &before.Tools[i]
		if _, changed := before.LastSeen[t.ServerName()]; !changed {
			keep(t.ServerName(), t.Definition)
		}
	}
	was := byServerName(before.Tools)
	for name := range now {
		if _, unseen := before.LastSeen[name]; hold && was[name] == nil && !unseen {
			kept[name] = nil
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}
