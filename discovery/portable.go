package discovery

import (
	"cmp"
	"fmt"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/prose"
)

// A cleaner repairs the parts of a schema that APIs of models refuse, at any depth: a type that JSON Schema
// does not have, and with patterns, what JSON Schema 2020-12 does not know, and a regular expression outside
// of what the engines have in common.
// An API refuses the whole request for one of them. A rule that is removed stays as a sentence of
// the description.
type cleaner struct {
	r        *repairs
	patterns bool
	path     []string
	changed  bool

	dangling map[*hujson.Object]bool // schemas without their references, which led nowhere
	keys     map[string]string       // see keysFor
}

// clean repairs a schema and those within, and reports whether it may allow more than before. It allows no
// less.
func (c *cleaner) clean(o object) (changed bool) {
	if c.patterns {
		changed = c.dialect(o)
		changed = c.pattern(o) || changed
		changed = c.names(o) || changed
		c.rekey(o)
	} else {
		c.unique(o)
		changed = c.types(o)
	}
	var stricter []string // keywords that allow less if their schemas allow more
	for i := range o.Members {
		name, v := o.name(i), &o.Members[i].Value
		kind, ok := subschemas[name]
		if !ok {
			continue
		}
		was := ""
		if kind == negative {
			was = v.String()
		}
		if !c.within(v, name, kind == byName) {
			continue
		}
		changed = true
		if kind == negative {
			stricter = append(stricter, name, was)
		}
	}
	for i := 0; i < len(stricter); i += 2 {
		relax(o, stricter[i], stricter[i+1])
	}
	return changed
}

// unique removes members that come again, as [object.unique] does, and notes it: of a keyword, only the last was repaired.
func (c *cleaner) unique(o object) {
	if n := o.unique(); n > 0 {
		c.note("removed %d members whose name comes again later", n)
	}
}

// The kinds of keywords that have schemas.
const (
	plainly  = iota // the keyword allows more if its schemas allow more
	byName          // it has an object of schemas by name
	negative        // it may allow less if its schemas allow more
)

// subschemas are the keywords that have schemas.
var subschemas = map[string]int{
	"items": plainly, "prefixItems": plainly, "additionalItems": plainly, "unevaluatedItems": plainly,
	"additionalProperties": plainly, "unevaluatedProperties": plainly, "propertyNames": plainly, "contentSchema": plainly,
	"allOf": plainly, "anyOf": plainly, "then": plainly, "else": plainly,
	"properties": byName, "patternProperties": byName, "$defs": byName, "definitions": byName,
	"dependentSchemas": byName, "dependencies": byName,
	"not": negative, "if": negative, "oneOf": negative, "contains": negative,
}

// within cleans the schemas of a keyword.
func (c *cleaner) within(v *hujson.Value, name string, each bool) (changed bool) {
	c.path = append(c.path, name)
	switch of := v.Value.(type) {
	case *hujson.Object:
		if !each {
			changed = c.clean(object{of})
			break
		}
		c.unique(object{of})
		for i := range of.Members {
			if _, ok := of.Members[i].Value.Value.(*hujson.Object); ok {
				changed = c.within(&of.Members[i].Value, object{of}.name(i), false) || changed
			}
		}
	case *hujson.Array:
		for i := range of.Elements {
			if part, ok := asObject(&of.Elements[i]); ok {
				changed = c.clean(part) || changed
			}
		}
	}
	c.path = c.path[:len(c.path)-1]
	return changed
}

// relax removes or replaces a keyword that may allow less since a schema in it allows more.
func relax(o object, keyword, was string) {
	switch {
	case keyword == "contains":
		o.remove("maxContains")
	case keyword == "oneOf" && o.get("anyOf") == nil:
		o.put("anyOf", o.get("oneOf").Value)
		o.remove("oneOf")
	case keyword == "if":
		for _, part := range []string{"then", "else"} {
			if v := o.get(part); v != nil {
				was += ", " + part + " " + v.String()
			}
			o.remove(part)
		}
		fallthrough
	default:
		o.remove(keyword)
		describe(o, fmt.Sprintf("Rule: %s %s.", keyword, was))
	}
}

// types repairs the type of a schema.
func (c *cleaner) types(o object) (changed bool) {
	v := o.get("type")
	if v == nil {
		return false
	}
	one, isText := text(v)
	if isText && isType(one) {
		return false
	}
	old := v.String()
	list, isList := v.Value.(*hujson.Array)
	switch {
	case isText && isType(meantType(one)):
		v.Value = hujson.String(meantType(one))
	case isText && (one == "" || anyTypes[strings.ToLower(one)]):
		o.remove("type")
	case isText:
		o.remove("type")
		describe(o, "Type: "+one+".")
	case isList:
		types, whole := listedTypes(list)
		switch {
		case whole:
			return false
		case len(types) == 0:
			o.remove("type")
		default:
			v.Value = array(types)
		}
	default:
		o.remove("type")
	}
	c.note("type %.80s, which JSON Schema does not have, was repaired", strings.TrimSpace(old))
	return true
}

func isType(name string) bool {
	return slices.Contains([]string{"null", "boolean", "object", "array", "number", "string", "integer"}, name)
}

// meantType returns the type of JSON Schema that a name of a programming language means.
func meantType(name string) string {
	name = strings.ToLower(name)
	return cmp.Or(meantTypes[name], name)
}

var meantTypes = map[string]string{
	"str": "string", "text": "string", "int": "integer", "int32": "integer", "int64": "integer", "long": "integer",
	"float": "number", "float64": "number", "double": "number", "decimal": "number",
	"bool": "boolean", "dict": "object", "map": "object", "list": "array", "tuple": "array",
}

// anyTypes are names for a value of any type.
var anyTypes = map[string]bool{"any": true, "mixed": true, "unknown": true, "json": true, "*": true}

// listedTypes returns the types of a list, or nothing if one of them is no type; whole says that the list
// needs no repair. A null without quotes means "null".
func listedTypes(list *hujson.Array) (types []string, whole bool) {
	whole = len(list.Elements) > 0
	for i := range list.Elements {
		one, ok := text(&list.Elements[i])
		if list.Elements[i].Value.Kind() == 'n' {
			one = "null"
		}
		meant := meantType(one)
		whole = whole && ok && isType(one) && !slices.Contains(types, meant)
		switch {
		case !isType(meant):
			return nil, false
		case !slices.Contains(types, meant):
			types = append(types, meant)
		}
	}
	return types, whole
}

// pattern removes a regular expression that some engine does not know.
func (c *cleaner) pattern(o object) (changed bool) {
	v := o.get("pattern")
	if v == nil {
		return false
	}
	expr, ok := text(v)
	if ok && isCommon(expr) {
		return false
	}
	o.remove("pattern")
	if ok {
		describe(o, "Must match the regular expression "+expr)
	}
	c.note("pattern %.80q was moved into the description, since APIs of models refuse it", expr)
	return true
}

// names removes the patterns of patternProperties that some engine does not know.
func (c *cleaner) names(o object) (changed bool) {
	properties, ok := asObject(o.get("patternProperties"))
	if !ok {
		return false
	}
	var rules []string
	properties.keep(func(i int) bool {
		name := properties.name(i)
		if isCommon(name) {
			return true
		}
		rules = append(rules, fmt.Sprintf("Values under names that match %s: %s.", name, strings.TrimSpace(properties.Members[i].Value.String())))
		return false
	})
	if rules == nil {
		return false
	}
	for _, keyword := range []string{"additionalProperties", "unevaluatedProperties"} {
		if v := o.get(keyword); v != nil && v.Value.Kind() != 't' { // it is for names that no pattern matches
			rules = append(rules, fmt.Sprintf("Values under other names: %s.", strings.TrimSpace(v.String())))
			o.remove(keyword)
		}
	}
	describe(o, rules...)
	c.note("patterns of names were moved into the description, since APIs of models refuse them")
	return true
}

const maxRule = 500 // bytes of a rule in a description

// describe adds rules to the description of a schema.
func describe(o object, rules ...string) {
	for i, rule := range rules {
		rules[i] = prose.Cut(plain.Line(rule), maxRule+len("…"))
	}
	if old, _ := text(o.get("description")); old != "" {
		rules = slices.Insert(rules, 0, old)
	}
	o.put("description", hujson.String(strings.Join(rules, "\n")))
}

// note notes a repair with its place, in which keywords are left out.
func (c *cleaner) note(format string, args ...any) {
	place := slices.DeleteFunc(slices.Clone(c.path), func(name string) bool { return name == "properties" })
	c.changed = true
	c.r.note("%s: "+format, append([]any{plain.Line(strings.Join(place, "."))}, args...)...)
}

var (
	// commonEscape matches an escape that all engines in use know, class a class, and repetition one such as {2,5}.
	commonEscape = lazy.Regexp(`\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[dDwWsSbBtnrfv^$\\.*+?()\[\]{}|/-])`)
	class        = lazy.Regexp(`\[\^?[^\]]*\]`)
	repetition   = lazy.Regexp(`\{(\d+)(?:,(\d*))?\}`)

	// uncommonClass and uncommon match what some engine refuses in an outline: empty and named classes, and ranges of
	// classes; repeated assertions, unusual groups, and syntax characters as themselves.
	uncommonClass = lazy.Regexp(`(?s)^\[\^?\]|.\[:|\x{E002}|\x{E001}-[^\]]|[^\[^]-\x{E001}|\\`)
	uncommon      = lazy.Regexp(`[\^$\x{E002}][*+?]|\(\?(?:[^:]|$)|[{}\]\\\x{E003}]`)
)

// isCommon reports whether a regular expression means the same in the engines in use: ECMAScript's, also with the flag u, which
// clients' validators set, without look-around, references to groups, names of groups, flags and classes of Unicode.
func isCommon(expr string) bool {
	for _, r := range repetition().FindAllStringSubmatch(expr, -1) {
		from, err := strconv.Atoi(r[1])
		to, err2 := strconv.Atoi(cmp.Or(r[2], r[1]))
		if cmp.Or(err, err2) != nil || from > to {
			return false
		}
	}
	expr = repetition().ReplaceAllString(expr, "{1}") // Go allows no more than 1000
	outline := commonEscape().ReplaceAllStringFunc(expr, func(escape string) string {
		switch escape[1] {
		case 'd', 'D', 'w', 'W', 's', 'S':
			return "\uE001"
		case 'b', 'B':
			return "\uE002"
		case '-': // u knows it within classes only
			return "\uE003"
		}
		return "a"
	})
	rest := repetition().ReplaceAllString(class().ReplaceAllString(outline, "a"), "+")
	if slices.ContainsFunc(class().FindAllString(outline, -1), uncommonClass().MatchString) || uncommon().MatchString(rest) {
		return false
	}
	_, err := syntax.Parse(commonEscape().ReplaceAllStringFunc(expr, func(escape string) string {
		if escape[1] == 'u' {
			return `\x{` + escape[2:] + `}`
		}
		return escape
	}), syntax.Perl)
	return err == nil
}
