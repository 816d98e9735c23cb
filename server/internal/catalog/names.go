package catalog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/registry"
)

// How tools are named towards clients.
const (
	Prefixed = "prefixed" // server__tool
	Bare     = "bare"     // tool, where only one server has it
)

// maxName is the length of the longest exposed name, in bytes: 64, which Claude Desktop,
// OpenAI and VS Code allow, less the mcp__metarouter__ that Claude Code puts before it.
const maxName = 47

// Names maps what servers offer to the names that clients see, and back. It is
// immutable.
//
// An exposed name depends on its tool or prompt alone, so it stays the same over
// restarts and in whatever order servers come up; in the bare style, it depends
// on whether another server has one of that name.
type Names[T comparable] struct {
	kind      string // "tool" or "prompt"
	style     string
	separator string
	prefix    string // that callers may put before any name; "" is none
	key       func(T) (server, name string)
	about     func(T) string // says in words what the item is
	items     []T            // sorted by ID; shared with the snapshot
	exposed   []string       // the exposed name of each item
	byExposed []int32        // the indexes of the items, sorted by exposed name
	byName    []int32        // the indexes of the items, sorted by the server's own name, and then by ID
	longest   int            // bytes of the longest name of a server
}

// ToolNames are the names of tools.
type ToolNames = Names[*registry.NormalizedTool]

// ownNames are the names of the router's own tools, including those of features that
// are off. No server's tool is exposed under one of them.
var ownNames = []string{
	"find_tools", "describe_tools", "call_tool", "call_read_only_tool", "route_task", "read_result",
	"list_categories", "classify_text",
}

// IsOwn reports whether one of the router's own tools has the name.
func IsOwn(name string) bool { return slices.Contains(ownNames, name) }

// NewNames names the tools in the given style. The slice must not be modified any more. The separator is "__" if empty. The prefix is
// one that callers may put before any name, which [Names.Unprefixed] takes off.
func NewNames(tools []*registry.NormalizedTool, style, separator, prefix string) *ToolNames {
	n := newNames("tool", tools, func(t *registry.NormalizedTool) (string, string) { return t.Server, t.Name },
		func(t *registry.NormalizedTool) string { return t.Title + " " + t.Description }, style, separator, ownNames)
	n.prefix = prefix
	return n
}

func newPromptNames(prompts []*registry.Prompt, style, separator string) *Names[*registry.Prompt] {
	return newNames("prompt", prompts, func(p *registry.Prompt) (string, string) { return p.Server, p.Name },
		func(p *registry.Prompt) string { return p.Title + " " + p.Description }, style, separator, nil)
}

func newNames[T comparable](kind string, items []T, key func(T) (server, name string), about func(T) string, style, separator string, reserved []string) *Names[T] {
	n := &Names[T]{kind: kind, style: style, separator: cmp.Or(separator, "__"), key: key, about: about}
	if byID := func(a, b T) int { return cmp.Compare(n.id(a), n.id(b)) }; !slices.IsSortedFunc(items, byID) {
		items = slices.SortedFunc(slices.Values(items), byID)
	}
	n.items, n.exposed = items, make([]string, len(items))
	n.byName = n.sorted(func(i int32) string { return n.own(i) })
	taken := make(map[string]bool, len(items)+len(reserved))
	for _, name := range reserved {
		taken[name] = true
	}
	claim := func(i int, name string) {
		if !taken[name] {
			taken[name] = true
			n.exposed[i] = name
		}
	}
	// Items that need no hash choose first, so that no other takes their names.
	for i, t := range items {
		server, name := key(t)
		n.longest = max(n.longest, len(server), len(exposedServer(server)))
		if style == Bare && n.legal(name) && len(n.named(name)) == 1 {
			claim(i, name)
		}
	}
	for i, t := range items {
		if n.exposed[i] == "" && n.plain(t) {
			claim(i, n.prefixed(t))
		}
	}
	for i, t := range items {
		for attempt := 0; n.exposed[i] == ""; attempt++ {
			claim(i, n.hashed(t, attempt))
		}
	}
	n.byExposed = n.sorted(func(i int32) string { return n.exposed[i] })
	return n
}

// sorted returns the indexes of the items, sorted by a text of each, and then by ID.
func (n *Names[T]) sorted(by func(i int32) string) []int32 {
	order := make([]int32, len(n.items))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(by(a), by(b)) })
	return order
}

// own returns the name by which the server of an item knows it.
func (n *Names[T]) own(i int32) string {
	_, name := n.key(n.items[i])
	return name
}

// named returns the indexes of the items that their servers know by the name, sorted by ID.
func (n *Names[T]) named(name string) []int32 {
	start, _ := slices.BinarySearchFunc(n.byName, name, func(i int32, name string) int { return cmp.Compare(n.own(i), name) })
	end := start
	for end < len(n.byName) && n.own(n.byName[end]) == name {
		end++
	}
	return n.byName[start:end]
}

// index returns the index of the item with the ID.
func (n *Names[T]) index(id string) (i int, ok bool) {
	return slices.BinarySearchFunc(n.items, id, func(t T, id string) int {
		server, name := n.key(t)
		return compareID(server, name, id)
	})
}

// compareID compares [registry.ID] of a server and a name with an ID, without making it.
func compareID(server, name, id string) int {
	for _, part := range [...]string{server, registry.ID("", ""), name} {
		n := min(len(part), len(id))
		if c := cmp.Compare(part, id[:n]); c != 0 {
			return c
		}
		id = id[n:]
	}
	return -len(id)
}

func (n *Names[T]) id(t T) string {
	server, name := n.key(t)
	return registry.ID(server, name)
}

func (n *Names[T]) prefixed(t T) string {
	server, name := n.key(t)
	return exposedServer(server) + n.separator + name
}

// at stands in exposed names between a server and its node, instead of the @ that is legal in few
// clients.
const at = "-at-"

// exposedServer returns the name of a server as it stands in exposed names.
func exposedServer(server string) string {
	name, node, other := cutNode(server)
	if !other {
		return server
	}
	return name + at + node
}

// cutNode returns the parts of a name such as "gpu@box", of a server on another node.
func cutNode(server string) (name, node string, ok bool) {
	i := strings.LastIndexByte(server, '@')
	if i < 0 {
		return server, "", false
	}
	return server[:i], server[i+1:], true
}

// plain reports whether the item may be called server__name: the name is legal, and no
// other item of any server could give the same, but for "a@b" and "a-at-b".
func (n *Names[T]) plain(t T) bool {
	server, _ := n.key(t)
	name := n.prefixed(t)
	return n.legal(name) && strings.Index(name, n.separator) == len(exposedServer(server))
}

func (n *Names[T]) legal(name string) bool {
	return name != "" && len(name) <= maxName && !strings.ContainsFunc(name, n.illegal)
}

func (n *Names[T]) illegal(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
		return false
	}
	return !strings.ContainsRune(n.separator, r)
}

// hashed returns the name, cut and altered as needed, with a hash of the whole name. A name in
// another script is transliterated, or the first words about the item stand for it. The
// attempt is above 0 only if two items have the same hash.
func (n *Names[T]) hashed(t T, attempt int) string {
	server, own := n.key(t)
	key := server + "\x00" + own + strings.Repeat("\x00", attempt)
	sum := sha256.Sum256([]byte(key))
	hash := "_" + hex.EncodeToString(sum[:4])
	name := n.prefixed(t)
	if !isASCII(own) {
		name = exposedServer(server) + n.separator + readable(own, n.about(t))
	}
	if !isASCII(name) {
		name = latin(name)
	}
	name = strings.Map(func(r rune) rune {
		if n.illegal(r) {
			return '_'
		}
		return r
	}, name)
	return name[:min(len(name), maxName-len(hash))] + hash
}

// Exposed returns the name under which clients see the item, "" if the item was not
// given to [NewNames].
func (n *Names[T]) Exposed(t T) string {
	if i, ok := n.index(n.id(t)); ok {
		return n.exposed[i]
	}
	return ""
}

// Resolve finds the item that a caller means: by its exposed name, by server:name,
// server__name, with "@" or "-at-" before the name of another node, server.name or the separator in use, or by its own name if only one
// server has that. The error, a [*NameError], names all items that could be meant, or
// the nearest ones if no item has the name. These are looked for until ctx ends.
func (n *Names[T]) Resolve(ctx context.Context, name string) (T, error) {
	if t, ok := n.exact(name); ok {
		return t, nil
	}
	var none T
	switch found := n.find(name); len(found) {
	case 0:
		return none, &NameError{Kind: n.kind, Name: name, Nearest: n.nearest(ctx, name)}
	case 1:
		return found[0], nil
	default:
		return none, &NameError{Kind: n.kind, Name: name, Ambiguous: n.ids(found)}
	}
}

// exact returns the item that has the exposed name or the ID.
func (n *Names[T]) exact(name string) (t T, ok bool) {
	i, ok := slices.BinarySearchFunc(n.byExposed, name, func(i int32, name string) int { return cmp.Compare(n.exposed[i], name) })
	if ok {
		return n.items[n.byExposed[i]], true
	}
	if i, ok = n.index(name); ok {
		return n.items[i], true
	}
	return t, false
}

// Only is Resolve without an error that explains.
func (n *Names[T]) Only(name string) (t T, ok bool) {
	if t, ok = n.exact(name); ok {
		return t, true
	}
	if found := n.find(name); len(found) == 1 {
		return found[0], true
	}
	return t, false
}

// find returns the items that a name may mean that is not exact.
func (n *Names[T]) find(name string) []T {
	if found := n.qualified(name); len(found) > 0 {
		return found
	}
	var found []T
	for _, i := range n.named(name) {
		found = append(found, n.items[i])
	}
	return found
}

// Unprefixed returns the name without the prefix, unless the name means something with it: an
// item, or what a server may have that the name begins with. Such a server is taken to have all
// its items if some are known, and then the rest counts if that is known.
func (n *Names[T]) Unprefixed(name string, servers []adapter.ServerInfo) string {
	rest, ok := strings.CutPrefix(name, n.prefix)
	if n.prefix == "" || !ok || rest == "" || n.known(name) {
		return name
	}
	server, _, ok := Split(name, n.separator, servers)
	if !ok {
		return rest
	}
	listed := slices.ContainsFunc(servers, func(s adapter.ServerInfo) bool { return s.Name == server && s.Tools > 0 })
	if listed && n.known(rest) {
		return rest
	}
	return name
}

// known reports whether the name means an item, several, or one of the router's own tools.
func (n *Names[T]) known(name string) bool {
	_, ok := n.exact(name)
	return ok || IsOwn(name) || len(n.find(name)) > 0
}

// qualified returns the items that name means if a separator in it divides the server
// from the rest.
func (n *Names[T]) qualified(name string) []T {
	var found []T
	for _, separator := range separators(n.separator) {
		for i := range min(len(name), n.longest+1) {
			if strings.HasPrefix(name[i:], separator) {
				for _, server := range meantServers(name[:i]) {
					at, ok := n.index(registry.ID(server, name[i+len(separator):]))
					if ok && !slices.Contains(found, n.items[at]) {
						found = append(found, n.items[at])
					}
				}
			}
		}
	}
	return found
}

// meantServers returns the servers that a caller may mean by the name of one: also those that stand
// so in exposed names.
func meantServers(name string) []string {
	all := []string{name}
	for i := 0; ; i++ {
		next := strings.Index(name[i:], at)
		if next < 0 {
			return all
		}
		i += next
		all = append(all, name[:i]+"@"+name[i+len(at):])
	}
}

// separators are what a caller may write between server and tool.
func separators(inUse string) []string { return []string{"__", ".", ":", cmp.Or(inUse, "__")} }

// cutSeparator returns rest, which follows a server's name, without the separator at
// its beginning.
func cutSeparator(rest, inUse string) (name string, ok bool) {
	for _, s := range separators(inUse) {
		if name, ok = strings.CutPrefix(rest, s); ok {
			return name, true
		}
	}
	return "", false
}

// A NameError says that a name means no tool or prompt, or several.
type NameError struct {
	Kind      string // "tool" or "prompt"
	Name      string
	Ambiguous []string // the IDs of the items that it could mean
	Nearest   []string // the IDs of the items with similar names; may be empty
}

func (e *NameError) Error() string {
	name := e.Name[:min(len(e.Name), maxAsked)]
	switch {
	case len(e.Ambiguous) > 0:
		return fmt.Sprintf("several servers have a %s %q; write one of: %s", e.Kind, name, strings.Join(e.Ambiguous[:min(len(e.Ambiguous), maxAmbiguous)], ", "))
	case len(e.Nearest) > 0:
		return fmt.Sprintf("unknown %s %q; did you mean %s?", e.Kind, name, strings.Join(e.Nearest, " or "))
	}
	return fmt.Sprintf("unknown %s %q", e.Kind, name)
}

// AsListed returns a [NameError] with the names that clients see in lists, in place of IDs. Any other
// error stays.
func (n *Names[T]) AsListed(err error) error {
	e, ok := errors.AsType[*NameError](err)
	if !ok {
		return err
	}
	listed := func(ids []string) (names []string) {
		for _, id := range ids {
			if i, ok := n.index(id); ok {
				id = n.exposed[i]
			}
			names = append(names, id)
		}
		return names
	}
	return &NameError{e.Kind, e.Name, listed(e.Ambiguous), listed(e.Nearest)}
}

const (
	maxNearest    = 3
	minSimilarity = 0.3
	maxAsked      = 500    // bytes of a name that an error repeats, or has similar names for
	maxCompared   = 20_000 // items whose names are compared with one that is not known
	maxAmbiguous  = 20     // that an error names
)

// nearest returns the IDs of the items whose names are most similar to the given one, of the
// first maxCompared; nil if ctx ends.
func (n *Names[T]) nearest(ctx context.Context, name string) []string {
	if len(name) > maxAsked {
		return nil
	}
	wanted := bigrams(nil, name)
	type near struct {
		id         string
		similarity float64
	}
	var all []near
	var pairs []uint64
	similarity := func(to string) float64 {
		pairs = bigrams(pairs[:0], to)
		return dice(wanted, pairs)
	}
	for i, t := range n.items[:min(len(n.items), maxCompared)] {
		if i%1000 == 0 && ctx.Err() != nil {
			return nil
		}
		id := n.id(t)
		_, own := n.key(t)
		if s := max(similarity(own), similarity(id)); s >= minSimilarity {
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

// bigrams appends the pairs of neighbouring letters and digits of s, sorted, to pairs, which is
// empty.
func bigrams(pairs []uint64, s string) []uint64 {
	var last rune
	for _, r := range s[:min(len(s), 4*maxName)] {
		if r = unicode.ToLower(r); !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			continue
		}
		if last != 0 {
			pairs = append(pairs, uint64(last)<<32|uint64(r))
		}
		last = r
	}
	slices.Sort(pairs)
	return pairs
}

// dice returns the Sørensen–Dice coefficient of two sorted lists, from 0 (nothing in
// common) to 1.
func dice(a, b []uint64) float64 {
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

func (n *Names[T]) ids(items []T) []string {
	list := make([]string, len(items))
	for i, t := range items {
		list[i] = n.id(t)
	}
	slices.Sort(list)
	return list
}
