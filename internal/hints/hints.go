// Package hints notes which hints of tools a person has confirmed. A hint, such as
// readOnlyHint, is a claim of the server. The first ones of a tool need no confirmation; a
// tool that later claims to do less harm than before is doubted until a person has confirmed
// the new hints.
//
// [DefinitionChanges] describes how the definition of a tool changed. All functions are pure.
package hints

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/registry"
)

// maxGone bounds the tools of a server that are remembered although they are gone.
const maxGone = 2000

// forgotten is the key of Confirmed of [registry.Offer] that notes that more tools of the
// server are gone than are remembered. No tool has it as its name.
const forgotten = ""

// claims are the hints that a tool does no harm.
type claims struct{ reads, destroysNothing, repeatable bool }

func claimsOf(h registry.Hints) claims {
	reads := h.IsReadOnly()
	return claims{reads, reads || h.Destructive != nil && !*h.Destructive, reads || h.IsIdempotent()}
}

// ClaimMore reports whether hints claim that a tool does less harm than those before.
func ClaimMore(was, is registry.Hints) bool {
	a, b := claimsOf(was), claimsOf(is)
	return b.reads && !a.reads || b.destroysNothing && !a.destroysNothing || b.repeatable && !a.repeatable
}

// Changes describes how hints differ, a line for each: "readOnlyHint was missing and is true".
func Changes(was, is registry.Hints) (lines []string) {
	for _, h := range []struct {
		name    string
		was, is *bool
	}{
		{"readOnlyHint", was.ReadOnly, is.ReadOnly},
		{"destructiveHint", was.Destructive, is.Destructive},
		{"idempotentHint", was.Idempotent, is.Idempotent},
		{"openWorldHint", was.OpenWorld, is.OpenWorld},
	} {
		if a, b := word(h.was), word(h.is); a != b {
			lines = append(lines, fmt.Sprintf("%s was %s and is %s", h.name, a, b))
		}
	}
	return lines
}

func word(hint *bool) string {
	if hint == nil {
		return "missing"
	}
	return fmt.Sprint(*hint)
}

// Confirmed returns Confirmed of an offer that has these tools after another offer of the
// server. Hints that are again as they were confirmed need no confirmation.
func Confirmed(before registry.Offer, after []registry.NormalizedTool) map[string]registry.Hints {
	last := hintsOf(before.Tools) // that were confirmed
	maps.Copy(last, before.Confirmed)
	_, full := last[forgotten]
	delete(last, forgotten)

	kept := make(map[string]registry.Hints)
	for i := range after {
		name := after[i].ServerName()
		was, known := last[name]
		delete(last, name)
		if (known || full) && claimsOf(was) != claimsOf(after[i].Hints) {
			kept[name] = was
		}
	}
	gone := 0
	for _, name := range slices.Sorted(maps.Keys(last)) {
		if claimsOf(last[name]).reads { // it can't claim more when it comes back
			continue
		}
		if gone++; gone > maxGone {
			full = true
			break
		}
		kept[name] = last[name]
	}
	if full {
		kept[forgotten] = registry.Hints{}
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// hintsOf returns the hints of tools by the server's own names.
func hintsOf(tools []registry.NormalizedTool) map[string]registry.Hints {
	all := make(map[string]registry.Hints, len(tools))
	for i := range tools {
		all[tools[i].ServerName()] = tools[i].Hints
	}
	return all
}

// A Change is a tool with hints that no person has confirmed as they are now.
type Change struct {
	Tool *registry.NormalizedTool
	Was  registry.Hints // as they were confirmed
}

// Unconfirmed returns the tools of a server that claim to do less harm than was confirmed, in
// the server's order.
func Unconfirmed(l registry.Listing) (all []Change) {
	if len(l.Confirmed) == 0 {
		return nil
	}
	for _, t := range l.Tools {
		if was, changed := l.Confirmed[t.ServerName()]; changed && ClaimMore(was, t.Hints) {
			all = append(all, Change{t, was})
		}
	}
	return all
}

// Confirm returns Confirmed of an offer after a person has confirmed the hints that were shown,
// by the server's own names of the tools. left are the tools among them, sorted, that have other
// hints now: they stay unconfirmed.
func Confirm(o registry.Offer, shown map[string]registry.Hints) (confirmed map[string]registry.Hints, left []string) {
	confirmed = maps.Clone(o.Confirmed)
	now := hintsOf(o.Tools)
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		if is, listed := now[name]; !listed || Changes(shown[name], is) != nil {
			left = append(left, name)
			continue
		}
		delete(confirmed, name)
	}
	if len(left) == 0 && len(shown) > 0 {
		delete(confirmed, forgotten)
	}
	if len(confirmed) == 0 {
		return nil, left
	}
	return confirmed, left
}

// Doubt returns why the hints of a tool are not believed, given those that were confirmed; ""
// if they claim no more.
func Doubt(was, is registry.Hints) string {
	if !ClaimMore(was, is) {
		return ""
	}
	return "its hints changed and no person has confirmed them: " + strings.Join(Changes(was, is), ", ")
}
