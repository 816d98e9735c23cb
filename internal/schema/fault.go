package schema

import (
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

var english = message.NewPrinter(language.English)

// A place is a member or an item.
type place struct {
	name  string
	index int // if name is ""
	item  bool
}

// A fault is a place where the value does not fit.
type fault struct {
	path  []place
	kind  jsonschema.ErrorKind
	value any // that does not fit its type or the values that are allowed, or defaults
}

// defaults are the members that a schema requires, if each has a default.
type defaults map[string]any

// appendPath appends the names of places to the name of a root.
func appendPath(root string, path []place) string {
	for _, p := range path {
		if p.item {
			root += "." + strconv.Itoa(p.index)
		} else {
			root += "." + p.name
		}
	}
	return root
}

func (f fault) text(root string) string {
	text := appendPath(root, f.path) + ": " + f.kind.LocalizedString(english)
	if len(text) > maxFault {
		text = strings.ToValidUTF8(text[:maxFault], "") + "…"
	}
	return text
}
