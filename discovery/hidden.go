package discovery

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/urls"
)

const hiddenNote = "removed characters that a person does not see"

// mayHide reports whether a string of the JSON may have hidden characters: raw or escaped.
func mayHide(raw []byte) bool {
	if bytes.Contains(raw, []byte(`\u`)) || bytes.IndexByte(raw, 0x7f) >= 0 {
		return true
	}
	for i := range raw {
		if raw[i] >= utf8.RuneSelf {
			rest := string(raw[i:])
			return plain.Visible(rest) != rest
		}
	}
	return false
}

// nameOf returns a name as people read it: without hidden characters, in one line.
func nameOf(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == '\t' {
			return ' '
		}
		return r
	}, plain.Visible(name))
}

// reveal removes hidden characters from all strings of a definition, but for the value of
// the member key: the server knows the element by it.
//
// The names of arguments and the values that a schema allows lose them too, though the
// server may then refuse a call: text for a model hides there as well as in a description.
func (r *repairs) reveal(o object, key string) {
	for i := range o.Members {
		m := &o.Members[i]
		name := o.name(i)
		changed := revealIn(&m.Name)
		if name != key {
			changed = revealIn(&m.Value) || changed
		}
		if changed {
			r.note("%s: %s", plain.Line(name), hiddenNote)
		}
	}
}

// identify returns the member by which the server knows a prompt, resource or template. It
// is an error if it is missing or has hidden characters: two could look the same.
func identify(o object, key string) (string, error) {
	s, _ := text(o.get(key))
	switch {
	case s == "":
		return "", fmt.Errorf("it has no %s", key)
	case nameOf(s) != s:
		return "", fmt.Errorf("its %s has characters that a person does not see", key)
	case key != "name" && urls.IsOwn(s):
		return "", fmt.Errorf("its %s begins with %s, which is the router's own", key, urls.OwnScheme)
	}
	return s, nil
}

// revealIn removes hidden characters from all strings of a value, and reports whether there
// were any.
func revealIn(v *hujson.Value) (changed bool) {
	switch of := v.Value.(type) {
	case hujson.Literal:
		if of.Kind() != '"' || !mayHide(of) {
			return false
		}
		if s := of.String(); plain.Visible(s) != s {
			v.Value = hujson.String(plain.Visible(s))
			return true
		}
	case *hujson.Object:
		for i := range of.Members {
			changed = revealIn(&of.Members[i].Name) || changed
			changed = revealIn(&of.Members[i].Value) || changed
		}
	case *hujson.Array:
		for i := range of.Elements {
			changed = revealIn(&of.Elements[i]) || changed
		}
	}
	return changed
}
