package content

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// mayHaveOdd reports whether a block of the content may have a member of a wrong type. That is judged by its bytes.
func mayHaveOdd(content []byte) bool {
	for _, sign := range []string{"null", `"annotations"`, `"_meta"`, `"resource`} {
		if bytes.Contains(content, []byte(sign)) {
			return true
		}
	}
	return false
}

// optional are the members that an object need not have, and the values that clients take for them.
var optional = map[string]func([]byte) bool{
	"_meta": wire.IsObject, "annotations": wire.IsObject, "title": isString, "description": isString, "mimeType": isString,
	"size": func(v []byte) bool { return IsInteger(v) && v[0] != '-' }, "icons": areIcons,
}

// ofAnnotations are the members of annotations.
var ofAnnotations = map[string]func([]byte) bool{
	"audience": func(v []byte) bool { return areAll(v, isRole) },
	"priority": func(v []byte) bool {
		n, err := strconv.ParseFloat(string(v), 64)
		return err == nil && n >= 0 && n <= 1
	},
	"lastModified": func(v []byte) bool {
		s, _ := wire.String(v)
		_, err := time.Parse(time.RFC3339, s)
		return err == nil && timeForm().MatchString(s)
	},
}

// timeForm matches the times that clients take: the time package accepts more.
var timeForm = lazy.Regexp(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$`)

// Takes reports whether clients take the value of an optional member of an object, or of its annotations.
func Takes(member string, value []byte) bool {
	takes := optional[member]
	if takes == nil {
		takes = ofAnnotations[member]
	}
	return takes(value)
}

// ofCompletion are the members of a completion.
var ofCompletion = map[string]func([]byte) bool{
	"hasMore": IsFlag, "total": IsInteger,
}

func isString(v []byte) bool { return v[0] == '"' }

// IsInteger reports whether a value is a whole number that clients can hold.
func IsInteger(v []byte) bool {
	n, err := strconv.ParseFloat(string(v), 64)
	return err == nil && n == float64(int64(n)) && n < 1<<53 && n > -1<<53
}

// areAll reports whether a value is an array, and each of its elements as it must be.
func areAll(v []byte, is func(element []byte) bool) bool {
	for element := range wire.Values(v) {
		if !is(element) {
			return false
		}
	}
	return wire.IsArray(v)
}

func isRole(v []byte) bool { return string(v) == `"user"` || string(v) == `"assistant"` }

func areIcons(v []byte) bool {
	return areAll(v, func(icon []byte) bool {
		src := wire.Member(icon, "src")
		ok := len(src) > 0 && isString(src)
		for key, v := range wire.All(icon) {
			switch key {
			case "mimeType":
				ok = ok && isString(v)
			case "theme":
				ok = ok && (string(v) == `"light"` || string(v) == `"dark"`)
			case "sizes":
				ok = ok && areAll(v, isString)
			}
		}
		return ok
	})
}

// members leaves out the optional members of an object that clients refuse: null, or of another type.
func (r *Repairs) members(at string, object []byte, takes map[string]func([]byte) bool) []byte {
	var odd []string
	for key, value := range wire.All(object) {
		if ok := takes[key]; ok != nil && !ok(value) && !slices.Contains(odd, key) {
			odd = append(odd, key)
		}
	}
	for _, key := range odd {
		r.Note("%s: left out %s, which clients refuse", at, key)
		object = wire.DeleteMember(object, key)
	}
	return object
}

// both leaves out the optional members of an object and of its annotations that clients refuse.
func (r *Repairs) both(at string, object []byte) []byte {
	return r.Inside(at, r.members(at, object, optional), "annotations", func(at string, value []byte) []byte {
		return r.members(at, value, ofAnnotations)
	})
}

// flag makes isError a boolean, or leaves it out.
func (r *Repairs) flag(result []byte) []byte {
	v := wire.Member(result, "isError")
	if v == nil || IsFlag(v) {
		return result
	}
	r.Note("isError: must be a boolean")
	if IsTrue(v) {
		return wire.SetMember(result, "isError", []byte("true"))
	}
	return wire.DeleteMember(result, "isError")
}

// IsFlag reports whether the value is a boolean.
func IsFlag(v []byte) bool { return string(v) == "true" || string(v) == "false" }

// IsTrue reports whether a server means true by the value.
func IsTrue(v []byte) bool {
	return string(v) == "true" || bytes.EqualFold(v, []byte(`"true"`)) || string(v) == "1"
}

// list returns the member of a result that must be an array. One element stands for an array of it, also in place of the result, and
// "content" for "contents".
func (r *Repairs) list(result []byte, member string) (repaired, elements []byte) {
	elements = wire.Member(result, member)
	switch {
	case wire.IsArray(elements):
		return result, elements
	case !isAbsent(elements):
		elements = array(elements)
	case member == "contents" && wire.IsArray(wire.Member(result, "content")):
		elements = wire.Member(result, "content")
	case member != "values" && slices.ContainsFunc([]string{"text", "blob", "content"}, func(name string) bool { return !isAbsent(wire.Member(result, name)) }):
		elements = array(result)
	default:
		elements = []byte("[]")
	}
	r.Note("%s: made an array", member)
	return wire.SetMember(result, member, elements), elements
}

// words makes a member of an object a string, if it has one.
func (r *Repairs) words(at string, object []byte, member string) []byte {
	v := wire.Member(object, member)
	if v == nil || isString(v) {
		return object
	}
	r.Note("%s.%s: made a string", at, member)
	if string(v) == "null" {
		return wire.DeleteMember(object, member)
	}
	return wire.SetMember(object, member, wire.AppendString(nil, string(v)))
}
