package catalog

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/hints"
	"github.com/mcp-metarouter/metarouter/registry"
)

// Bounds of the definitions that are kept until a person has seen how they changed.
const (
	maxLastSeen      = 200     // of a server
	maxLastSeenBytes = 4 << 20 // together
)

// logChanges logs how many definitions differ from the server's list before, in this run or an earlier
// one: a server that was harmless when a person looked may have changed since.
func logChanges(log *zap.Logger, server string, before, after []registry.NormalizedTool) {
	was, changed, added := byServerName(before), 0, 0
	for i := range after {
		old, known := was[after[i].ServerName()]
		delete(was, after[i].ServerName())
		if !known {
			added++
		} else if differ(old.Definition, after[i].Definition) {
			changed++
		}
	}
	if changed+added+len(was) > 0 {
		log.Info("the server lists other tools than before", zap.String("server", server),
			zap.Int("changed", changed), zap.Int("new", added), zap.Int("removed", len(was)))
	}
}

// differ reports whether two definitions differ in what matters to a model's use of the tool.
func differ(a, b json.RawMessage) bool {
	return !bytes.Equal(a, b) && hints.DefinitionChanges(a, b, 0) != nil
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
		if listed && len(seen) > 0 && !differ(seen, t.Definition) {
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
