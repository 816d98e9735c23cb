package exposure

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/mcp-metarouter/metarouter/internal/prose"
)

// A NameError says that a name means no tool or prompt, or several.
type NameError struct {
	Kind      string // "tool" or "prompt"
	Name      string
	Ambiguous []string // the IDs of the items that it could mean
	Nearest   []string // the IDs of the items with similar names; may be empty
}

func (e *NameError) Error() string {
	name := e.Name[:min(len(e.Name), maxAsked)]
	switch {
	case len(e.Ambiguous) > 0:
		return fmt.Sprintf("several servers have a %s %q; write one of: %s", e.Kind, name, strings.Join(e.Ambiguous[:min(len(e.Ambiguous), maxAmbiguous)], ", "))
	case len(e.Nearest) > 0:
		return fmt.Sprintf("unknown %s %q; did you mean %s?", e.Kind, name, strings.Join(e.Nearest, " or "))
	}
	return fmt.Sprintf("unknown %s %q", e.Kind, name)
}

const (
	maxNearest    = 3
	minSimilarity = 0.55
	maxAsked      = 500    // bytes of a name that an error repeats, or has similar names for
	maxCompared   = 20_000 // items that are compared with a name that is not known
	maxAmbiguous  = 20     // that an error names
)

// nearest returns the IDs of the items with the names most similar to the given one, of the
// first maxCompared; nil if ctx ends.
func nearest[T comparable](ctx context.Context, n *Names[T], name string) []string {
	if len(name) > maxAsked {
		return nil
	}
	wanted := bigrams(nil, name)
	type near struct {
		id         string
		similarity float64
	}
	var all []near
	var pairs []uint64
	similarity := func(to string) float64 {
		pairs = bigrams(pairs[:0], to)
		return dice(wanted, pairs)
	}
	for i, t := range n.items[:min(len(n.items), maxCompared)] {
		if i%1000 == 0 && ctx.Err() != nil {
			return nil
		}
		id := n.id(t)
		_, own := n.key(t)
		if s := max(similarity(own), similarity(id)); s >= minSimilarity || prose.Similar(name, id) {
			all = append(all, near{id, s})
		}
	}
	slices.SortFunc(all, func(a, b near) int {
		return cmp.Or(cmp.Compare(b.similarity, a.similarity), cmp.Compare(a.id, b.id))
	})
	ids := make([]string, 0, maxNearest)
	for _, t := range all[:min(len(all), maxNearest)] {
		ids = append(ids, t.id)
	}
	return ids
}

// bigrams appends the pairs of neighbouring letters and digits of s, sorted, to pairs, which is
// empty.
func bigrams(pairs []uint64, s string) []uint64 {
	var last rune
	for _, r := range s[:min(len(s), 4*maxName)] {
		if r = unicode.ToLower(r); !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			continue
		}
		if last != 0 {
			pairs = append(pairs, uint64(last)<<32|uint64(r))
		}
		last = r
	}
	slices.Sort(pairs)
	return pairs
}

// dice returns the Sørensen–Dice coefficient of two sorted lists, from 0 (nothing in
// common) to 1.
func dice(a, b []uint64) float64 {
	common := 0
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch cmp.Compare(a[i], b[j]) {
		case -1:
			i++
		case 1:
			j++
		default:
			common, i, j = common+1, i+1, j+1
		}
	}
	if common == 0 {
		return 0
	}
	return 2 * float64(common) / float64(len(a)+len(b))
}
