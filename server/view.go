package server

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/yosida95/uritemplate/v3"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// pageSize is the most items that one answer to a list request holds.
const pageSize = 1000

// A view is the catalog as clients see it. It is immutable.
type view struct {
	snapshot  *registry.Snapshot
	names     *ToolNames
	prompts   *Names[*registry.Prompt]
	addresses map[string]address // of resources and templates, by exposed URI
	exposed   map[address]string // the other way round
	templates []template         // in order of their exposed URI templates
	lists     map[string]list    // by method
	spared    int                // tokens that the list of tools would cost more with all of them
}

// An address is where a resource or template is to be asked for.
type address struct {
	server string
	uri    string // or URI template, as the server knows it
}

// A template tells the URIs that a server may know though it does not list them.
type template struct {
	address
	pattern *uritemplate.Template
}

// A list is what one of the list methods answers, by name.
type list struct {
	member string // of the result
	items  []listing
}

// A listing is one item of a list.
type listing struct {
	name       string // or URI
	definition json.RawMessage
}

// view returns the current view, making it if the catalog has changed.
func (s *Server) view() *view {
	snapshot := s.router.Snapshot()
	if v := s.current.Load(); v != nil && v.snapshot == snapshot {
		return v
	}
	v := s.viewOf(snapshot)
	s.current.Store(v)
	return v
}

// viewOf returns the view of a catalog.
func (s *Server) viewOf(snapshot *registry.Snapshot) *view {
	v := &view{
		snapshot:  snapshot,
		names:     NewNames(snapshot.Tools(), s.opts.Names, s.opts.Separator),
		prompts:   newPromptNames(snapshot.Prompts(), s.opts.Names, s.opts.Separator),
		addresses: make(map[string]address),
		exposed:   make(map[address]string),
		lists:     make(map[string]list),
	}
	v.add("tools/list", "tools", s.tools(v.names, func(t *registry.NormalizedTool) json.RawMessage { return t.Definition }))
	v.add(flatTools, "tools", s.tools(v.names, flat))
	if s.search {
		v.spared = selector.ListTokens(snapshot.Tools()) - v.lists["tools/list"].tokens()
	}
	v.add("prompts/list", "prompts", v.promptListings())
	v.add("resources/list", "resources", v.resourceListings())
	v.add("resources/templates/list", "resourceTemplates", v.templateListings())
	v.noteInterfaces()
	return v
}

func (v *view) add(method, member string, items []listing) {
	slices.SortFunc(items, func(a, b listing) int { return cmp.Compare(a.name, b.name) })
	v.lists[method] = list{member, items}
}

// tokens returns what the list costs a model.
func (l list) tokens() int {
	bytes := 0
	for _, item := range l.items {
		bytes += len(item.definition)
	}
	return bytes / selector.BytesPerToken
}

// flatTools is the list of tools for clients that pass definitions to a model that
// refuses some.
const flatTools = "tools/list, flat"

func flat(t *registry.NormalizedTool) json.RawMessage {
	if t.Flat != nil {
		return t.Flat
	}
	return t.Definition
}

// tools returns the tools that are listed: all, or ours and those that are pinned.
func (s *Server) tools(names *ToolNames, definition func(*registry.NormalizedTool) json.RawMessage) (items []listing) {
	tools := s.router.Snapshot().Tools()
	if s.search {
		tools = s.pinned(names)
	}
	for name, own := range s.own {
		if s.lists(name) {
			items = append(items, listing{name, own.Definition})
		}
	}
	for _, t := range tools {
		name := names.Exposed(t)
		items = append(items, listing{name, named(definition(t), "name", name)})
	}
	return items
}

// lists reports whether the tool of our own is listed.
func (s *Server) lists(name string) bool {
	switch name {
	case "read_result":
		return s.opts.LimitsResults
	case "list_categories", "classify_text":
		return s.opts.Classifies
	}
	return s.search
}

// pinned returns those of the pinned tools that there are, each once.
func (s *Server) pinned(names *ToolNames) []*registry.NormalizedTool {
	var tools []*registry.NormalizedTool
	for _, name := range s.opts.Pinned {
		t, err := names.Resolve(name)
		if err == nil && !slices.Contains(tools, t) {
			tools = append(tools, t)
		}
	}
	return tools
}

func (v *view) promptListings() (items []listing) {
	for _, p := range v.snapshot.Prompts() {
		name := v.prompts.Exposed(p)
		items = append(items, listing{name, named(p.Definition, "name", name)})
	}
	return items
}

func (v *view) resourceListings() (items []listing) {
	for _, r := range v.snapshot.Resources() {
		uri := v.expose(address{r.Server, r.URI})
		items = append(items, listing{uri, named(r.Definition, "uri", uri)})
	}
	return items
}

func (v *view) templateListings() (items []listing) {
	for _, t := range v.snapshot.Templates() {
		at := address{t.Server, t.URITemplate}
		uri := v.expose(at)
		items = append(items, listing{uri, named(t.Definition, "uriTemplate", uri)})
		if pattern, err := uritemplate.New(t.URITemplate); err == nil {
			v.templates = append(v.templates, template{at, pattern})
		}
	}
	return items
}

// named returns the definition under the name that clients see.
func named(definition json.RawMessage, member, name string) json.RawMessage {
	if old, ok := wire.String(wire.Member(definition, member)); ok && old == name {
		return definition
	}
	return wire.SetMember(definition, member, wire.AppendString(nil, name))
}

// expose returns the URI under which clients see what is at the address: the
// server's own, unless a server that comes first by name has the same.
func (v *view) expose(at address) string {
	uri := at.uri
	if _, taken := v.addresses[uri]; taken {
		uri = at.qualified()
	}
	v.addresses[uri], v.exposed[at] = at, uri
	return uri
}

const ownScheme = "metarouter://"

// qualified returns a URI that says which server knows it.
func (a address) qualified() string { return ownScheme + url.PathEscape(a.server) + "/" + a.uri }

// parseQualified is the inverse of qualified.
func parseQualified(uri string) (a address, ok bool) {
	rest, ok := strings.CutPrefix(uri, ownScheme)
	if !ok {
		return a, false
	}
	server, uri, ok := strings.Cut(rest, "/")
	if server, err := url.PathUnescape(server); ok && err == nil {
		return address{server, uri}, true
	}
	return a, false
}

// noteInterfaces notes the resources that tools name as their user interface (MCP
// Apps) and that need not be listed.
func (v *view) noteInterfaces() {
	for _, t := range v.snapshot.Tools() {
		if !bytes.Contains(t.Definition, []byte("esourceUri")) {
			continue
		}
		meta := wire.Member(t.Definition, "_meta")
		for _, member := range [][]byte{wire.Member(wire.Member(meta, "ui"), "resourceUri"), wire.Member(meta, "ui/resourceUri")} {
			if uri, ok := wire.String(member); ok && v.addresses[uri].uri == "" {
				v.addresses[uri] = address{t.Server, uri}
			}
		}
	}
}

// page returns the items behind the cursor, as the members of a list result that
// both eras have. A cursor is the name of the last item before the page, so that
// pages fit together though the list changes between them.
//
// It reports false if the cursor is none of ours.
func (l list) page(cursor string) (page json.RawMessage, ok bool) {
	start := 0
	if cursor != "" {
		last, ok := decodeCursor(cursor)
		if !ok {
			return nil, false
		}
		i, found := slices.BinarySearchFunc(l.items, last, func(i listing, name string) int { return cmp.Compare(i.name, name) })
		if start = i; found {
			start++
		}
	}
	end := min(start+pageSize, len(l.items))
	size := 64
	for _, i := range l.items[start:end] {
		size += len(i.definition) + 1
	}
	page = append(make([]byte, 0, size), `{"`+l.member+`":[`...)
	for i, item := range l.items[start:end] {
		if i > 0 {
			page = append(page, ',')
		}
		page = append(page, item.definition...)
	}
	page = append(page, ']')
	if end < len(l.items) {
		page = append(page, `,"nextCursor":`...)
		page = wire.AppendString(page, encodeCursor(l.items[end-1].name))
	}
	return append(page, '}'), true
}

const cursorPrefix = "after:"

func encodeCursor(name string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(cursorPrefix + name))
}

func decodeCursor(cursor string) (name string, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return "", false
	}
	return strings.CutPrefix(string(b), cursorPrefix)
}

// same reports whether a client that knows a need not be told of l.
func (l list) same(a list) bool {
	return slices.EqualFunc(l.items, a.items, func(a, b listing) bool {
		return a.name == b.name && bytes.Equal(a.definition, b.definition)
	})
}
