package schema

import (
	"slices"
	"strconv"

	"github.com/mcp-metarouter/metarouter/internal/prose"
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
	value any // with repairs; only for kinds that isAllowed finds, or defaults
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
	return prose.Cut(appendPath(root, f.path)+": "+f.kind.LocalizedString(english), maxFault)
}

// fail records a fault at the value at hand.
func (e *evaluation) fail(what func() jsonschema.ErrorKind) {
	if e.wantsMore() {
		e.faults = append(e.faults, fault{path: slices.Clone(e.path), kind: what()})
	}
}

// failAs is fail for the value v, which may be repaired.
func (e *evaluation) failAs(v any, what func() jsonschema.ErrorKind) {
	before := len(e.faults)
	if e.fail(what); e.repairs && len(e.faults) > before {
		e.faults[before].value = v
	}
}
