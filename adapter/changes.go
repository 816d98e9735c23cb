package adapter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// Bounds of the note on changed definitions.
const (
	maxChanges = 10  // tools of one server that are described
	maxChanged = 160 // characters of a member, before and after
)

// changesOf compares the tools of a server with those of its list before. It returns how
// many have another definition, are new and are gone, and describes the first changes. The
// order of members and of the names in "required" and "enum" does not count.
func changesOf(before, after []registry.NormalizedTool) (changed, added, removed int, details []string) {
	was := make(map[string]*registry.NormalizedTool, len(before))
	for i := range before {
		was[before[i].ServerName()] = &before[i]
	}
	for i := range after {
		t := &after[i]
		old, known := was[t.ServerName()]
		delete(was, t.ServerName())
		switch {
		case !known:
			added++
		case bytes.Equal(old.Definition, t.Definition):
		default:
			if diff := diffOf(old.Definition, t.Definition); diff != "" {
				if changed++; changed <= maxChanges {
					details = append(details, plain.Line(t.Name)+": "+diff)
				}
			}
		}
	}
	return changed, added, len(was), details
}

// diffOf describes how a definition differs in what decides what a model does with the
// tool; "" if it does not.
func diffOf(before, after json.RawMessage) string {
	var diffs []string
	for _, member := range []string{"title", "description", "inputSchema", "outputSchema", "annotations"} {
		old, now := wire.Member(before, member), wire.Member(after, member)
		if bytes.Equal(old, now) || reflect.DeepEqual(meaning(old), meaning(now)) {
			continue
		}
		old, now = around(old, now)
		diffs = append(diffs, fmt.Sprintf("%s was %s and is %s", member, shortened(old), shortened(now)))
	}
	return strings.Join(diffs, "; ")
}

// meaning decodes JSON for a comparison: required and enum are sets.
func meaning(raw json.RawMessage) any {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return nil
	}
	return withSets(v)
}

func withSets(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = withSets(v[i])
		}
	case map[string]any:
		for name, of := range v {
			list, ok := of.([]any)
			if v[name] = withSets(of); !ok || name != "required" && name != "enum" {
				continue
			}
			set := make(map[string]bool, len(list))
			for _, e := range list {
				set[fmt.Sprintf("%T %v", e, e)] = true
			}
			v[name] = set
		}
	}
	return v
}

// around cuts from the beginning what both have, but for a few characters.
func around(a, b json.RawMessage) (_, _ json.RawMessage) {
	const context = 20
	same := 0
	for same < len(a) && same < len(b) && a[same] == b[same] {
		same++
	}
	if same <= 2*context {
		return a, b
	}
	cut := same - context
	return append([]byte("…"), a[cut:]...), append([]byte("…"), b[cut:]...)
}

func shortened(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "missing"
	}
	text := []rune(plain.Line(strings.ToValidUTF8(string(raw[:min(len(raw), 8*maxChanged)]), "")))
	if len(text) > maxChanged {
		return string(text[:maxChanged]) + "…"
	}
	return string(text)
}
