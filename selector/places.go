package selector

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector/internal/text"
)

// Values of a call that are compared with places: how many, and how deep in its arguments. Each level is read again.
const maxClues, maxDepth = 256, 8

// A clue says how much speaks for the place of a tool; 0 is nothing.
type clue func(t *registry.NormalizedTool) float64

// choosePlaces moves the place to use to the front of each candidate's Places. The server
// that the task names decides, then the arguments of the call, then the values in the task.
// Between servers that stand in for each other, the state, the load and the priority decide.
// Otherwise the candidate is Ambiguous.
func choosePlaces(e *execute.Executor, q Query, candidates []Candidate) {
	var clues []clue
	for i := range candidates {
		c := &candidates[i]
		if len(c.Places) < 2 {
			continue
		}
		if clues == nil {
			clues = cluesOf(e, q)
		}
		best := c.Places
		for _, f := range clues {
			if best = strongest(best, f); interchangeable(e, best) {
				break
			}
		}
		c.Ambiguous = !interchangeable(e, best)
		best = slices.Clone(best)
		e.Sort(best)
		rest := slices.DeleteFunc(slices.Clone(c.Places), func(t *registry.NormalizedTool) bool { return slices.Contains(best, t) })
		c.Places = append(best, rest...)
		c.Tool = c.Places[0]
	}
}

// choices returns how many different tools there are.
func choices(c *index.Collection, tools []*registry.NormalizedTool) int {
	different := make(map[uint64]bool)
	for _, t := range tools {
		if d, ok := c.Document(registry.Item{Tool: t}); ok {
			different[d.Same] = true
		}
	}
	return len(different)
}

// strongest returns the tools for which the clue says most, or all if it says nothing.
func strongest(tools []*registry.NormalizedTool, f clue) (best []*registry.NormalizedTool) {
	most := 0.0
	for _, t := range tools {
		switch x := f(t); {
		case x > most:
			most, best = x, []*registry.NormalizedTool{t}
		case x == most:
			best = append(best, t)
		}
	}
	return best
}

// interchangeable reports whether the servers of the tools stand in for each other, so that any
// of them will do.
func interchangeable(e *execute.Executor, tools []*registry.NormalizedTool) bool {
	p := e.PolicyOf(tools[0].Server)
	return !slices.ContainsFunc(tools[1:], func(t *registry.NormalizedTool) bool {
		return !slices.Contains(p.StandIns, t.Server) && !slices.Contains(p.Twins, t.Server)
	})
}

// placeWords are in the names of parameters that say where a tool works, or for which person.
var placeWords = []string{
	"path", "file", "dir", "folder", "root", "cwd", "drive", "vault", "repo", "database", "uri", "url", "host",
	"account", "user", "owner", "mail", "tenant", "org", "team", "project", "workspace", "profile",
}

// sameEverywhere reports whether the tool does the same on all servers that have it: it is
// read-only, touches nothing outside, and takes neither a path nor an account.
func sameEverywhere(t *registry.NormalizedTool) bool {
	if !t.Reads() || t.Hints.OpenWorld == nil || *t.Hints.OpenWorld {
		return false
	}
	takes := t.ArgumentSchema() // a profile fixes some arguments, and not for all servers alike
	if nested(takes, "allOf", "anyOf", "oneOf", "$ref") {
		return false
	}
	for name, schema := range wire.All(wire.Member(takes, "properties")) { // without any, it takes nothing
		isPlace := slices.ContainsFunc(placeWords, func(word string) bool { return strings.Contains(strings.ToLower(name), word) })
		if isPlace || nested(schema, "properties", "items", "allOf", "anyOf", "oneOf", "$ref") {
			return false
		}
	}
	return true
}

// nested reports whether a schema has one of the keys, under which there may be more parameters.
func nested(schema []byte, keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return wire.Member(schema, key) != nil })
}

// cluesOf returns the clues that tell places apart, the strongest first.
func cluesOf(e *execute.Executor, q Query) []clue {
	at := func(values []string) clue {
		values = slices.Clone(values[:min(len(values), maxClues)])
		return func(t *registry.NormalizedTool) float64 { return e.PolicyOf(t.Server).Location.Covers(values) }
	}
	task := cmp.Or(q.whole, q.Task)
	task = strings.ToLower(task[:min(len(task), text.MaxTask)])
	return []clue{
		func(t *registry.NormalizedTool) float64 { return named(task, t) },
		at(texts(q.Arguments, nil, 0)),
		at(text.Values(q.Task)),
	}
}

// texts appends the strings of a JSON value, at most maxClues.
func texts(value []byte, to []string, depth int) []string {
	add := func(value []byte) bool {
		to = texts(value, to, depth+1)
		return len(to) < maxClues
	}
	if text, ok := wire.String(value); ok {
		to = append(to, text)
	} else if wire.IsObject(value) && depth < maxDepth {
		_ = wire.Members(value, func(_ string, value []byte) bool { return add(value) }) // invalid JSON has no strings
	} else if wire.IsArray(value) && depth < maxDepth {
		_ = wire.Elements(value, add)
	}
	return to
}

// named returns how clearly a task, in lower case, names the tool's server. A name that is
// just a word of the tool, such as "files", counts only where the task says that it is a
// server, or writes it as in an ID.
func named(task string, t *registry.NormalizedTool) float64 {
	name := strings.ToLower(t.Server)
	exact, loose := mentions(task, name), mentions(spaced(task), spaced(name))
	if !exact && !loose {
		return 0
	}
	if mentions(spaced(strings.ToLower(t.Name+" "+t.Description)), spaced(name)) {
		exact = slices.ContainsFunc([]string{name + " server", "server " + name, `"` + name + `"`, "'" + name + "'", "`" + name + "`", name + ":", name + "__"},
			func(form string) bool { return strings.Contains(task, form) })
		if !exact {
			return 0
		}
	}
	length := float64(len(name))
	if exact {
		length += 1000 // above any that is written another way
	}
	return length
}

// mentions reports whether a text has a name that is no part of a longer word or name.
func mentions(text, name string) bool {
	for from := 0; name != ""; {
		i := strings.Index(text[from:], name)
		if i < 0 {
			return false
		}
		start := from + i
		if !continues(reversed(text[:start])) && !continues(text[start+len(name):]) {
			return true
		}
		from = start + 1
	}
	return false
}

// continues reports whether a name goes on in rest: with a letter or digit, or with one
// after a hyphen, dot, slash or underscore.
func continues(rest string) bool {
	if rest != "" && strings.ContainsRune("-_./", rune(rest[0])) {
		rest = rest[1:]
	}
	return rest != "" && (rest[0] >= '0' && rest[0] <= '9' || rest[0] >= 'a' && rest[0] <= 'z')
}

// reversed returns the last two bytes in reverse order.
func reversed(text string) string {
	b := []byte(text[max(0, len(text)-2):])
	slices.Reverse(b)
	return string(b)
}

// spaced returns a text with spaces in place of the separators of names.
func spaced(text string) string {
	return strings.NewReplacer("-", " ", "_", " ", ".", " ").Replace(text)
}
