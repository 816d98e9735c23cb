package hints

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// DefinitionChanges describes the differences of a definition that matter to a model's use of the tool:
// a line for each member that differs. The order of members and of the names in
// "required" and "enum" does not count. A line is clean text with at most the given number
// of characters of the member before, and as many after. Nothing differs from no definition.
func DefinitionChanges(before, after json.RawMessage, characters int) (lines []string) {
	if len(before) == 0 {
		return nil
	}
	for _, member := range []string{"title", "description", "inputSchema", "outputSchema", "annotations"} {
		old, now := wire.Member(before, member), wire.Member(after, member)
		if bytes.Equal(old, now) || reflect.DeepEqual(meaning(old), meaning(now)) {
			continue
		}
		old, now = around(old, now)
		lines = append(lines, fmt.Sprintf("%s was %s and is %s", member, shortened(old, characters), shortened(now, characters)))
	}
	return lines
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

// around cuts the common beginning, but for a few characters.
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

func shortened(raw json.RawMessage, characters int) string {
	if len(raw) == 0 {
		return "missing"
	}
	text := []rune(plain.Line(strings.ToValidUTF8(string(raw[:min(len(raw), 8*characters)]), "")))
	if len(text) > characters {
		return string(text[:characters]) + "…"
	}
	return string(text)
}
