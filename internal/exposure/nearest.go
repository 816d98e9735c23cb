package exposure

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/prose"
)

// A NameError says that a name means no tool or prompt, or several.
type NameError struct {
	Kind      string // "tool" or "prompt"
	Name      string
	Ambiguous []string // the IDs of the items that it could mean
	Nearest   string   // the ID of the item that was probably meant; may be ""
}

func (e *NameError) Error() string {
	name := e.Name[:min(len(e.Name), maxAsked)]
	switch {
	case len(e.Ambiguous) > 0:
		return fmt.Sprintf("several servers have a %s %q; write one of: %s", e.Kind, name, strings.Join(e.Ambiguous[:min(len(e.Ambiguous), maxAmbiguous)], ", "))
	case e.Nearest != "":
		return fmt.Sprintf("unknown %s %q; did you mean %s?", e.Kind, name, e.Nearest)
	}
	return fmt.Sprintf("unknown %s %q", e.Kind, name)
}

const (
	maxAsked     = 500    // bytes of a name that an error repeats, or has a similar name for
	maxCompared  = 20_000 // items that are compared with a name that is not known
	maxAmbiguous = 20     // that an error names
)

// nearest returns the ID of the item, of the first maxCompared, whose exposed name, ID or own name was probably meant by a
// misspelled one; "" if there is none.
func nearest[T comparable](n *Names[T], name string) string {
	if len(name) > maxAsked || len(name) < 3 {
		return ""
	}
	words, ids, elsewhere := []string(nil), make(map[string]string), "" // a tool of another server
	for i, t := range n.items[:min(len(n.items), maxCompared)] {
		for _, word := range []string{n.exposed[i], n.id(t), n.own(int32(i))} {
			if prose.Similar(name, word) {
				words, ids[word] = append(words, word), n.id(t)
			} else if strings.HasSuffix(name, ":"+word) || strings.HasSuffix(name, "__"+word) {
				elsewhere = n.id(t)
			}
		}
	}
	word, _ := prose.Nearest(name, words)
	return cmp.Or(ids[word], elsewhere)
}
