// Package exposure says how clients see a router's tools: under which names ([Names]), and in which
// mode: [Direct] or [Search]. It has the state of servers as JSON, too, as /v1/mesh_scan, the admin API and commands show it.
//
// [Resolve] finds the tool that a name of any form means. The package is for the server, which shows
// the tools, and for commands that explain the names.
package exposure

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
)

// The styles of names.
const (
	Prefixed = "prefixed" // server__tool
	Bare     = "bare"     // tool, where only one server has it
	Own      = "own"      // tool, of any length; for one server alone
)

// Names maps the items that servers offer, tools or prompts, to the names that clients see, and back. It is
// immutable.
//
// An exposed name depends on its item alone, so it stays the same over
// restarts and in whatever order servers come up; in the bare style, it depends
// on whether another server has one of that name.
type Names[T comparable] struct {
	kind      string // "tool" or "prompt"
	style     string
	spelling  spelling
	prefix    string // that callers may put before any name; may be ""
	key       func(T) (server, name string)
	items     []T      // sorted by ID; shared with the snapshot
	exposed   []string // the exposed name of each item
	byExposed []int32  // the indexes of the items, sorted by exposed name
	byName    []int32  // the indexes of the items, sorted by the server's own name, and then by ID
	longest   int      // bytes of the longest name of a server
	longestID int      // bytes of the longest ID
}

// ToolNames are the names of tools.
type ToolNames = Names[*registry.NormalizedTool]

// ownNames are the names of the router's own tools, also of features that
// are off. No server's tool is exposed under one of them, but in the style [Own].
var ownNames = []string{
	"find_tools", "describe_tools", "call_tool", "call_read_only_tool", "route_task", "read_result",
	"list_categories", "classify_text", "run_script",
}

// IsOwn reports whether one of the router's own tools has the name.
func IsOwn(name string) bool { return slices.Contains(ownNames, name) }

// OfTools names the tools in the given style. The slice must not be modified any more. The separator is "__" if empty. The prefix is
// one that callers may put before any name, which [Names.Unprefixed] takes off.
func OfTools(tools []*registry.NormalizedTool, style, separator, prefix string) *ToolNames {
	n := &ToolNames{kind: "tool", style: style, spelling: spelling(separator), prefix: prefix, key: func(t *registry.NormalizedTool) (string, string) { return t.Server, t.Name }}
	reserved := ownNames
	if style == Own { // a server as itself keeps all its names: ours give way
		reserved = nil
	}
	n.expose(tools, func(t *registry.NormalizedTool) string { return t.Title + " " + t.Description }, reserved)
	return n
}

// OfPrompts names the prompts, as [OfTools] names tools.
func OfPrompts(prompts []*registry.Prompt, style, separator string) *Names[*registry.Prompt] {
	n := &Names[*registry.Prompt]{kind: "prompt", style: style, spelling: spelling(separator), key: func(p *registry.Prompt) (string, string) { return p.Server, p.Name }}
	n.expose(prompts, func(p *registry.Prompt) string { return p.Title + " " + p.Description }, nil)
	return n
}

// expose chooses the exposed name of each item. about describes an item in words. No item gets a reserved name.
func (n *Names[T]) expose(items []T, about func(T) string, reserved []string) {
	if byID := func(a, b T) int { return cmp.Compare(n.id(a), n.id(b)) }; !slices.IsSortedFunc(items, byID) {
		items = slices.SortedFunc(slices.Values(items), byID)
	}
	n.items, n.exposed = items, make([]string, len(items))
	n.byName = sorted(len(items), n.own)
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
		server, name := n.key(t)
		n.longest, n.longestID = max(n.longest, len(server), len(exposedServer(server))), max(n.longestID, len(n.id(t)))
		if (n.style == Own && name != "" || n.style == Bare && n.spelling.isLegal(name)) && len(n.named(name)) == 1 {
			claim(i, name)
		}
	}
	for i, t := range items {
		if server, name := n.key(t); n.exposed[i] == "" && n.spelling.isPlain(server, name) {
			claim(i, n.spelling.prefixed(server, name))
		}
	}
	for i, t := range items {
		for attempt := 0; n.exposed[i] == ""; attempt++ {
			server, name := n.key(t)
			claim(i, n.spelling.hashed(server, name, about(t), attempt))
		}
	}
	n.byExposed = sorted(len(items), func(i int32) string { return n.exposed[i] })
}

// sorted returns the first n indexes, sorted by a text of each, and then by their value.
func sorted(n int, text func(i int32) string) []int32 {
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(text(a), text(b)) })
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
	return slices.BinarySearchFunc(n.items, id, func(t T, id string) int { return cmp.Compare(n.id(t), id) })
}

func (n *Names[T]) id(t T) string { return registry.ID(n.key(t)) }

// Exposed returns the name under which clients see the item, "" if the item has no name here.
func (n *Names[T]) Exposed(t T) string {
	if i, ok := n.index(n.id(t)); ok {
		return n.exposed[i]
	}
	return ""
}

// Resolve finds the item that a caller means: by its exposed name, by server:name,
// server__name, with "@" or "-at-" before the name of another node, server.name or the separator in use, or by its own name if only one
// server has that. The error, a [*NameError], names all items that could be meant, or
// the nearest one if no item has the name.
func (n *Names[T]) Resolve(name string) (t T, err error) {
	found := n.find(name)
	switch len(found) {
	case 0:
		return t, &NameError{Kind: n.kind, Name: name, Nearest: nearest(n, name)}
	case 1:
		return found[0], nil
	}
	ids := make([]string, len(found))
	for i, t := range found {
		ids[i] = n.id(t)
	}
	slices.Sort(ids)
	return t, &NameError{Kind: n.kind, Name: name, Ambiguous: ids}
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
	if t, ok = n.exact(name); ok { // without a slice: each call comes here
		return t, true
	}
	if found := n.find(name); len(found) == 1 {
		return found[0], true
	}
	return t, false
}

// find returns the items that a name may mean.
func (n *Names[T]) find(name string) (found []T) {
	if t, ok := n.exact(name); ok {
		return []T{t}
	}
	if found = n.qualified(name); len(found) == 0 {
		for _, i := range n.named(name) {
			found = append(found, n.items[i])
		}
	}
	return found
}

// Unprefixed returns the name without the prefix, unless the name means something with it: an
// item, or an item that a server may have if the name begins with its name. Such a server is taken to have all
// its items if some are known, and then the rest counts if that is known.
func (n *Names[T]) Unprefixed(name string, servers func() []status.Server) string {
	rest, ok := strings.CutPrefix(name, n.prefix)
	if n.prefix == "" || !ok || rest == "" || n.known(name) {
		return name
	}
	all := servers() // there may be thousands
	server, _, ok := Split(name, string(n.spelling), all)
	if !ok {
		return rest
	}
	listed := slices.ContainsFunc(all, func(s status.Server) bool { return s.Name == server && s.Tools > 0 })
	if listed && n.known(rest) {
		return rest
	}
	return name
}

// known reports whether the name means an item, several, or one of the router's own tools.
func (n *Names[T]) known(name string) bool { return IsOwn(name) || len(n.find(name)) > 0 }

// qualified returns the items that name means if a separator in it divides the server
// from the rest.
func (n *Names[T]) qualified(name string) []T {
	var found []T
	for _, separator := range n.spelling.separators() {
		for i := max(0, len(name)-n.longestID-len(separator)); i < min(len(name), n.longest+1); i++ {
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

// meantServers returns the servers that a caller may mean by the name of one: also those that have
// it in exposed names.
func meantServers(name string) []string {
	all := []string{name}
	for i := 0; ; i++ {
		next := strings.Index(name[i:], nodeMark)
		if next < 0 {
			return all
		}
		i += next
		all = append(all, name[:i]+"@"+name[i+len(nodeMark):])
	}
}

// AsListed returns a [NameError] with the names that clients see in lists, in place of IDs. Any other
// error stays.
func (n *Names[T]) AsListed(err error) error {
	e, ok := errors.AsType[*NameError](err)
	if !ok {
		return err
	}
	listed := func(id string) string {
		if i, ok := n.index(id); ok {
			return n.exposed[i]
		}
		return id
	}
	names := &NameError{Kind: e.Kind, Name: e.Name, Nearest: listed(e.Nearest)}
	for _, id := range e.Ambiguous {
		names.Ambiguous = append(names.Ambiguous, listed(id))
	}
	return names
}
