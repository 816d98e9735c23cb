package catalog

import (
	"fmt"
	"strings"
)

// Altered says why the exposed name of an item is not server, separator and its own
// name, or its own name alone in the bare style: as the end of a sentence that begins
// with "since". It is empty if the name is as expected.
func (n *Names[T]) Altered(t T) string {
	exposed, name := n.Exposed(t), n.prefixed(t)
	_, own := n.key(t)
	switch {
	case exposed == "" || exposed == own:
		return ""
	case exposed == name && n.style != Bare:
		return ""
	case exposed == name && len(n.named(own)) > 1:
		return fmt.Sprintf("several servers have a %s of that name", n.kind)
	case n.style == Bare && len(n.named(own)) == 1 && n.legal(own):
		return "one of metarouter's own tools is called that"
	case exposed == name:
		return "its own name can't stand alone"
	case len(name) > maxName:
		return fmt.Sprintf("server and %s together are longer than %d characters", n.kind, maxName)
	case strings.ContainsFunc(name, n.illegal):
		return "there are characters in it that clients refuse"
	case !n.plain(t):
		return fmt.Sprintf("its server's name has %q in it or at its end, so that it could be another server's", n.separator)
	}
	return "another one is called that"
}
