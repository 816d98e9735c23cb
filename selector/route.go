package selector

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// harmful are the inferred capabilities of tools that are never run on a guess,
// unless their server says that they only read.
var harmful = []string{"write", "delete", "payment"}

// MayRun reports whether the selected tool is safe to run though nobody named
// it: the confidence is at least the threshold, and the server declares the tool
// read-only, or not destructive while nothing in it speaks of writing, deleting
// or paying. Otherwise reason says what stands against it.
func MayRun(s Selection, threshold float64) (ok bool, reason string) {
	if s.Tool == nil {
		return false, "no tool fits the task"
	}
	if s.Confidence < threshold {
		return false, fmt.Sprintf("confidence %.2f is below %.2f", s.Confidence, threshold)
	}
	return Harmless(s.Tool)
}

// Harmless reports whether the tool does no harm, as far as its server and its words
// tell; see [MayRun]. Otherwise reason says what speaks against it.
func Harmless(t *registry.NormalizedTool) (ok bool, reason string) {
	if t.Hints.IsReadOnly() {
		return true, ""
	}
	if t.Hints.Destructive == nil || *t.Hints.Destructive {
		return false, "its server does not say that it is harmless (readOnlyHint true, or destructiveHint false)"
	}
	if i := slices.IndexFunc(harmful, func(tag string) bool { return slices.Contains(t.Capabilities, tag) }); i >= 0 {
		return false, fmt.Sprintf("it has the capability %q", harmful[i])
	}
	return true, ""
}

// Missing returns the arguments that the tool's schema requires at its top level
// and that args, a JSON object or nil, lacks.
func Missing(t *registry.NormalizedTool, args json.RawMessage) []string {
	var schema struct {
		Required []string `json:"required"`
	}
	if json.Unmarshal(t.InputSchema, &schema) != nil {
		return nil
	}
	return slices.DeleteFunc(schema.Required, func(name string) bool { return wire.Member(args, name) != nil })
}
