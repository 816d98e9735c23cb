package profile

import (
	"slices"
	"strings"
)

// ReadOnly may be chosen like a profile: it allows all servers, and of the tools those that just
// read. No profile of the configuration can have its name.
const ReadOnly = "@read"

// or separates the profiles of a union.
const or = "|"

// Union returns what is chosen like a profile and allows what any of the profiles allows, such as
// "dev|ops"; "" for none. The order of the names does not matter.
func Union(names ...string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(names))), or)
}
