package discovery

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// A larger definition is not offered: no model could use it, and it could break clients
// that parse recursively.
const (
	maxBytes = 1 << 20
	maxDepth = wire.MaxLevels
	maxName  = 1000 // bytes of a tool's name
)

// parse parses JSON into a tree. Parts of it that are not edited keep their bytes.
func parse(raw []byte) (hujson.Value, error) {
	if len(raw) > maxBytes {
		return hujson.Value{}, fmt.Errorf("its definition has %d bytes, more than %d", len(raw), maxBytes)
	}
	switch levels, err := wire.Levels(raw); {
	case levels > maxDepth:
		return hujson.Value{}, fmt.Errorf("its definition is nested more than %d levels deep", maxDepth)
	case err != nil:
		return hujson.Value{}, errors.New("its definition is not valid JSON")
	}
	return hujson.Parse(bytes.TrimSpace(raw))
}

// An object is a JSON object that is edited in place. Members that are not
// touched keep their bytes, their order and the space around them.
type object struct{ *hujson.Object }

// asObject returns v as an object, if it is one.
func asObject(v *hujson.Value) (object, bool) {
	if v == nil {
		return object{}, false
	}
	o, ok := v.Value.(*hujson.Object)
	return object{o}, ok
}

// get returns a member's value, or nil if the object has no such member. The pointer is
// valid until a member is added or removed.
func (o object) get(name string) *hujson.Value {
	for i := range o.Members {
		if o.isNamed(i, name) {
			return &o.Members[i].Value
		}
	}
	return nil
}

// name returns the name of member i.
func (o object) name(i int) string { return jsonc.Key(o.Members[i]) }

// isNamed reports whether member i has the name.
func (o object) isNamed(i int, name string) bool {
	literal := o.Members[i].Name.Value.(hujson.Literal)
	if bytes.IndexByte(literal, '\\') < 0 {
		return string(literal[1:len(literal)-1]) == name
	}
	return o.name(i) == name
}

// index returns the index of the last member of each name.
func (o object) index() map[string]int {
	last := make(map[string]int, len(o.Members))
	for i := range o.Members {
		last[o.name(i)] = i
	}
	return last
}

// put replaces a member's value, or adds the member at the end.
func (o object) put(name string, v hujson.ValueTrimmed) {
	if old := o.get(name); old != nil {
		old.Value = v
	} else {
		o.add(name, v)
	}
}

func (o object) add(name string, v hujson.ValueTrimmed) {
	o.Members = append(o.Members, hujson.ObjectMember{
		Name:  hujson.Value{Value: hujson.String(name)},
		Value: hujson.Value{Value: v},
	})
}

// remove removes the members of that name.
func (o object) remove(name string) {
	o.keep(func(i int) bool { return o.name(i) != name })
}

// keep removes the members for which ok is false.
func (o object) keep(ok func(i int) bool) {
	kept := make([]hujson.ObjectMember, 0, len(o.Members))
	for i, m := range o.Members {
		if ok(i) {
			kept = append(kept, m)
		}
	}
	if n := len(kept); n > 0 {
		kept[n-1].Value.AfterExtra = nil // else hujson packs a trailing comma
	}
	o.Members = kept
}

// unique removes all but the last of the members that share a name, as nearly
// every JSON parser does, and returns how many it has removed.
func (o object) unique() int {
	before, last := len(o.Members), o.index()
	if len(last) < before {
		o.keep(func(i int) bool { return last[o.name(i)] == i })
	}
	return before - len(last)
}

// keepElements replaces the elements of an array by some of them.
func keepElements(a *hujson.Array, kept []hujson.Value) {
	if n := len(kept); n > 0 {
		kept[n-1].AfterExtra = nil // else hujson packs a trailing comma
	}
	a.Elements = kept
}

// text returns the string that v is, if it is one.
func text(v *hujson.Value) (string, bool) {
	if v == nil {
		return "", false
	}
	return jsonc.Text(*v)
}

// texts returns the strings of the array that v is, if it is one of strings.
func texts(v *hujson.Value) ([]string, bool) {
	if v == nil {
		return nil, false
	}
	all, ok := jsonc.Strings(*v)
	if !ok || len(all) < len(v.Value.(*hujson.Array).Elements) {
		return nil, false
	}
	return all, true
}

// kind names a value's JSON type for a person.
func kind(v *hujson.Value) string { return kinds[v.Value.Kind()] }

var kinds = map[hujson.Kind]string{
	'n': "null", 't': "a boolean", 'f': "a boolean", '"': "a string", '0': "a number", '[': "an array", '{': "an object",
}
