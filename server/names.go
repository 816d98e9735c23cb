package server

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/mcp-metarouter/metarouter/registry"
)

// How tools are named towards clients.
const (
	Prefixed = "prefixed" // server__tool
	Bare     = "bare"     // tool, where only one server has it
)

// maxName is the longest exposed name: 64, which is what Claude Desktop, OpenAI
// and VS Code allow, less the mcp__metarouter__ that Claude Code puts before it.
const maxName = 47

// Names maps tools to the names that clients see, and back. It is immutable.
//
// An exposed name depends on its tool alone, so it stays the same over restarts
// and in whatever order servers come up; in the bare style, it depends on
// whether another server has a tool of that name.
type Names struct {
	separator string
	exposed   map[string]string // by tool ID
	tools     map[string]*registry.NormalizedTool
	byID      map[string]*registry.NormalizedTool
	byName    map[string][]*registry.NormalizedTool // by the tool's own name, sorted by ID
}

// ownNames are the names of the router's own tools, those of features that may be
// switched off too. No server's tool is exposed under one of them.
var ownNames = []string{
	"find_tools", "describe_tools", "call_tool", "call_read_only_tool", "route_task", "read_result",
	"list_categories", "classify_text",
}

// NewNames names the tools in the given style. The separator is "__" if empty.
func NewNames(tools []*registry.NormalizedTool, style, separator string) *Names {
	n := &Names{
		separator: cmp.Or(separator, "__"),
		exposed:   make(map[string]string, len(tools)),
		tools:     make(map[string]*registry.NormalizedTool, len(tools)),
		byID:      make(map[string]*registry.NormalizedTool, len(tools)),
		byName:    make(map[string][]*registry.NormalizedTool, len(tools)),
	}
	for _, name := range ownNames {
		n.tools[name] = nil
	}
	tools = slices.SortedFunc(slices.Values(tools), func(a, b *registry.NormalizedTool) int { return cmp.Compare(a.ID, b.ID) })
	for _, t := range tools {
		n.byID[t.ID] = t
		n.byName[t.Name] = append(n.byName[t.Name], t)
	}
	// Those that need no hash choose first, so that nobody takes their names.
	if style == Bare {
		for _, t := range tools {
			if len(n.byName[t.Name]) == 1 && n.legal(t.Name) {
				n.claim(t.Name, t)
			}
		}
	}
	for _, t := range tools {
		if n.exposed[t.ID] == "" && n.plain(t) {
			n.claim(t.Server+n.separator+t.Name, t)
		}
	}
	for _, t := range tools {
		for attempt := 0; n.exposed[t.ID] == ""; attempt++ {
			n.claim(n.hashed(t, attempt), t)
		}
	}
	for _, name := range ownNames {
		delete(n.tools, name)
	}
	return n
}

func (n *Names) claim(name string, t *registry.NormalizedTool) {
	if _, taken := n.tools[name]; !taken {
		n.tools[name] = t
		n.exposed[t.ID] = name
	}
}

// plain reports whether the tool may be called server__tool as it is: the name is
// legal, and no other server and tool could give the same.
func (n *Names) plain(t *registry.NormalizedTool) bool {
	name := t.Server + n.separator + t.Name
	return n.legal(name) && strings.Index(name, n.separator) == len(t.Server)
}

func (n *Names) legal(name string) bool {
	return name != "" && len(name) <= maxName && !strings.ContainsFunc(name, n.illegal)
}

func (n *Names) illegal(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
		return false
	}
	return !strings.ContainsRune(n.separator, r)
}

// hashed returns the name cut and altered as needed, with a hash of the tool.
// The attempt is above 0 only if two tools have the same hash.
func (n *Names) hashed(t *registry.NormalizedTool, attempt int) string {
	key := t.Server + "\x00" + t.Name + strings.Repeat("\x00", attempt)
	sum := sha256.Sum256([]byte(key))
	hash := "_" + hex.EncodeToString(sum[:4])
	name := strings.Map(func(r rune) rune {
		if n.illegal(r) {
			return '_'
		}
		return r
	}, t.Server+n.separator+t.Name)
	return name[:min(len(name), maxName-len(hash))] + hash
}

// Exposed returns the name under which clients see the tool, "" if the tool is
// not among those named.
func (n *Names) Exposed(t *registry.NormalizedTool) string { return n.exposed[t.ID] }

// Resolve finds the tool that a caller means: by its exposed name, by
// server:tool, server__tool, server.tool or the separator in use, or by the
// tool's own name where one server has it. The error names all tools that
// could be meant, or the nearest ones if there is none.
func (n *Names) Resolve(name string) (*registry.NormalizedTool, error) {
	if t, ok := n.tools[name]; ok {
		return t, nil
	}
	if t, ok := n.byID[name]; ok {
		return t, nil
	}
	found := n.qualified(name)
	if len(found) == 0 {
		found = n.byName[name]
	}
	switch len(found) {
	case 0:
		return nil, &NameError{Name: name, Nearest: n.nearest(name)}
	case 1:
		return found[0], nil
	}
	return nil, &NameError{Name: name, Ambiguous: ids(found)}
}

// qualified returns the tools that name means if some separator in it divides
// the server from the tool.
func (n *Names) qualified(name string) []*registry.NormalizedTool {
	var found []*registry.NormalizedTool
	for _, separator := range separators(n.separator) {
		for i := range len(name) {
			if strings.HasPrefix(name[i:], separator) {
				t, ok := n.byID[registry.ToolID(name[:i], name[i+len(separator):])]
				if ok && !slices.Contains(found, t) {
					found = append(found, t)
				}
			}
		}
	}
	return found
}

// separators are those that a caller may put between server and tool.
func separators(inUse string) []string { return []string{"__", ".", ":", cmp.Or(inUse, "__")} }

// separates reports whether rest, what follows a server's name, begins with a
// separator.
func separates(rest, inUse string) bool {
	return slices.ContainsFunc(separators(inUse), func(s string) bool { return strings.HasPrefix(rest, s) })
}

// A NameError says that a name means no tool, or several.
type NameError struct {
	Name      string
	Ambiguous []string // the IDs of the tools that it could mean
	Nearest   []string // the IDs of tools with names like it; may be empty
}

func (e *NameError) Error() string {
	switch {
	case len(e.Ambiguous) > 0:
		return fmt.Sprintf("several tools are named %q: %s", e.Name, strings.Join(e.Ambiguous, ", "))
	case len(e.Nearest) > 0:
		return fmt.Sprintf("unknown tool %q; the nearest are: %s", e.Name, strings.Join(e.Nearest, ", "))
	}
	return fmt.Sprintf("unknown tool %q", e.Name)
}

const (
	maxNearest    = 3
	minSimilarity = 0.3
)

// nearest returns the IDs of the tools whose names are most like the given one.
func (n *Names) nearest(name string) []string {
	wanted := bigrams(name)
	type near struct {
		id         string
		similarity float64
	}
	var all []near
	for id, t := range n.byID {
		s := max(dice(wanted, bigrams(t.Name)), dice(wanted, bigrams(id)))
		if s >= minSimilarity {
			all = append(all, near{id, s})
		}
	}
	slices.SortFunc(all, func(a, b near) int {
		return cmp.Or(cmp.Compare(b.similarity, a.similarity), cmp.Compare(a.id, b.id))
	})
	nearest := make([]string, 0, maxNearest)
	for _, t := range all[:min(len(all), maxNearest)] {
		nearest = append(nearest, t.id)
	}
	return nearest
}

// bigrams returns the pairs of neighbouring letters and digits of s, sorted.
func bigrams(s string) []string {
	var pairs []string
	var last rune
	for _, r := range strings.ToLower(s) {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			continue
		}
		if last != 0 {
			pairs = append(pairs, string([]rune{last, r}))
		}
		last = r
	}
	slices.Sort(pairs)
	return pairs
}

// dice returns the Sørensen–Dice coefficient of two sorted lists: how much they
// have in common, from 0 to 1.
func dice(a, b []string) float64 {
	common := 0
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch cmp.Compare(a[i], b[j]) {
		case -1:
			i++
		case 1:
			j++
		default:
			common, i, j = common+1, i+1, j+1
		}
	}
	if common == 0 {
		return 0
	}
	return 2 * float64(common) / float64(len(a)+len(b))
}

func ids(tools []*registry.NormalizedTool) []string {
	list := make([]string, len(tools))
	for i, t := range tools {
		list[i] = t.ID
	}
	slices.Sort(list)
	return list
}
