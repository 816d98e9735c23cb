package discovery

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/tailscale/hujson"
)

var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// targets are the places in a schema to which references lead.
type targets struct {
	places map[string]string // pointers by identifier, and by anchor with "#"
	bases  map[string]bool   // places of identifiers, to which pointers within are relative
	known  map[string]bool   // whether there is something at a pointer
	any    bool              // there are identifiers
	twice  map[string]bool   // anchors that several places have
}

var identifiers = []string{"$id", "id", "$anchor", "$dynamicAnchor"}

func targetsIn(root object) *targets {
	n := &targets{places: map[string]string{"": ""}, bases: map[string]bool{"": true}, known: map[string]bool{}, twice: map[string]bool{}}
	visit(root, "", func(o object, at string) {
		n.known[at] = true
		for _, keyword := range identifiers {
			s, ok := text(o.get(keyword))
			if n.any = n.any || o.get(keyword) != nil; !ok || s == "" {
				continue
			}
			if strings.HasSuffix(keyword, "nchor") {
				s = "#" + s
			} else if s = strings.TrimSuffix(s, "#"); !strings.HasPrefix(s, "#") {
				n.bases[at] = true
			}
			if before, taken := n.places[s]; !taken {
				n.places[s] = at
			} else if before != at {
				n.twice[s] = true
			}
		}
	})
	return n
}

// target returns the pointer to which a reference at a place leads, and the part of the reference after its #. ok is false
// if it names what the schema does not have.
func (n *targets) target(ref, at string, exists func(string) bool) (target, fragment string, ok bool) {
	id, fragment, _ := strings.Cut(ref, "#")
	if plain, err := url.PathUnescape(fragment); err == nil {
		fragment = plain
	}
	target, ok = n.places[id]
	for end := 0; id == "" && end <= len(at); end++ { // the schemas around it, from the root inwards
		if base := at[:end]; n.bases[base] && (end == len(at) || at[end] == '/' && exists(base+fragment)) {
			target = base
		}
	}
	if fragment != "" && fragment[0] != '/' {
		target, ok = n.places["#"+fragment]
		return target, fragment, ok
	}
	return target + fragment, fragment, ok
}

// maxSearches bounds the references of a schema that may lead to something other than a schema object, and maxPointer
// the bytes of a pointer.
const maxSearches, maxPointer = 1000, 4 << 10

// references makes the references of a schema pointers within it, and removes those that lead nowhere, all identifiers,
// since clients keep one table of them for all tools, and anchors that several places have.
func (c *cleaner) references(root object) {
	n := targetsIn(root)
	leads, from := make(map[string]string), make(map[string]object) // by the pointers to references: those to their targets, and the schemas
	whole := hujson.Value{Value: root.Object}
	searches := maxSearches
	exists := func(at string) bool {
		found, ok := n.known[at]
		if !ok && searches > 0 {
			searches--
			v := whole.Find(at)
			found = v != nil && isSchema(v)
			n.known[at] = found
		}
		return found
	}
	lost := func(o object, at, format string, args ...any) {
		c.dangling[o.Object] = true
		c.path = append(c.path[:1], strings.Split(strings.TrimPrefix(at, "/"), "/")...)
		c.note(format, args...)
		c.path = c.path[:1]
	}
	visit(root, "", func(o object, at string) {
		for _, keyword := range []string{"$ref", "$dynamicRef"} {
			ref, ok := text(o.get(keyword))
			if !ok {
				continue
			}
			from[at] = o
			target, fragment, ok := n.target(ref, at, exists)
			dynamic := keyword == "$dynamicRef"
			switch found := "#" + (&url.URL{Path: target}).EscapedPath(); {
			case !ok || !exists(target) || dynamic && (n.twice["#"+fragment] || o.get("$ref") != nil): // which of two it means depends on the way to it
				o.remove(keyword)
				lost(o, at, "%s %.80q was left out, since it leads nowhere in the schema", keyword, ref)
			case dynamic || n.any && found != ref:
				leads[at] = target
				if o.put("$ref", hujson.String(found)); dynamic {
					o.remove(keyword)
					c.changed = true
				}
			default:
				leads[at] = target
			}
		}
	})
	for _, at := range loops(root, leads) {
		from[at].remove("$ref")
		lost(from[at], at, "$ref was left out, since it leads to itself")
	}
	if n.any {
		visit(root, "", func(o object, _ string) {
			for _, keyword := range identifiers {
				if s, ok := text(o.get(keyword)); !ok || !strings.HasSuffix(keyword, "nchor") || n.twice["#"+s] {
					o.remove(keyword)
				}
			}
		})
		c.changed = true
	}
}

// sameValue matches the pointer to a schema for the same value as the schema around it, which the first group points to.
var sameValue = lazy.Regexp(`^(.*)/(?:(?:allOf|anyOf|oneOf)/\d+|if|then|else|not|dependentSchemas/[^/]*)$`)

// loops returns the references, see leads, by which a schema applies itself to the same value: clients that compile one never end.
func loops(root object, leads map[string]string) (endless []string) {
	if len(leads) == 0 { // as nearly all schemas
		return nil
	}
	parts := make(map[string][]string) // schemas for the same value
	visit(root, "", func(_ object, at string) {
		if around := sameValue().FindStringSubmatch(at); around != nil {
			parts[around[1]] = append(parts[around[1]], at)
		}
	})
	done := make(map[string]bool) // false while it is walked
	var walk func(at string) (again bool)
	walk = func(at string) (again bool) {
		if ended, begun := done[at]; begun {
			return !ended
		}
		done[at] = false
		for _, part := range parts[at] {
			again = walk(part) || again
		}
		if target, ok := leads[at]; ok && walk(target) {
			endless = append(endless, at)
		}
		done[at] = true
		return again
	}
	for _, at := range slices.Sorted(maps.Keys(leads)) {
		walk(at)
	}
	return endless
}
