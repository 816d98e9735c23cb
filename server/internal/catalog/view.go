package catalog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/yosida95/uritemplate/v3"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/urls"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A View is one snapshot of the registry as clients see it. It is immutable.
type View struct {
	Snapshot *registry.Snapshot
	Options  *Options
	Names    *exposure.ToolNames
	Prompts  *exposure.Names[*registry.Prompt]

	// Tools, FlatTools, PromptList, Resources, Templates and Skills are the answers to the list
	// requests. FlatTools is for clients that pass definitions to a model
	// that refuses some schemas. AppTools and FlatAppTools have in addition tools that models may not
	// see, for clients that show the user interfaces of servers.
	Tools, FlatTools, AppTools, FlatAppTools, PromptList, Resources, Templates, Skills List

	// Spared is how many tokens fewer Tools costs than a list of all tools.
	Spared int

	addresses map[string]Address // of resources and templates, by exposed URI
	exposed   map[Address]string // the reverse of addresses
	templates []template         // in the order in which servers had them first
}

// An Address says which server to ask for a resource or template.
type Address struct {
	Server string
	URI    string // or URI template, as the server knows it
}

// A template matches the URIs that a server may know though it does not list them.
type template struct {
	Address
	pattern *uritemplate.Template
}

// Options say how clients see the catalog, and how long they wait for it. They are
// replaced, not modified.
type Options struct {
	Names     string    // [exposure.Prefixed], [exposure.Bare] or [exposure.Own]
	Separator string    // between server and tool; "__" if empty
	Prefix    string    // that callers may put before the name of a tool; may be ""
	Search    bool      // only Pinned and Own are listed, else all tools and Own
	Code      bool      // scripts call the tools that are not listed; with Search
	Pinned    []string  // tools by any form of their names
	Own       []OwnTool // the router's own tools that are listed

	// ListWait is how long all requests together wait for servers that were never
	// listed, from the first of these requests on.
	ListWait time.Duration
}

// An OwnTool is a tool of the router itself, for a list.
type OwnTool struct {
	Name       string
	Definition json.RawMessage
}

// NewView returns the view of a snapshot.
func NewView(snapshot *registry.Snapshot, o *Options) *View {
	v := &View{
		Snapshot:  snapshot,
		Options:   o,
		Names:     exposure.OfTools(snapshot.Tools(), o.Names, o.Separator, o.Prefix),
		Prompts:   exposure.OfPrompts(snapshot.Prompts(), o.Names, o.Separator),
		addresses: make(map[string]Address),
		exposed:   make(map[Address]string),
	}
	v.listTools(o)
	var prompts, resources, templates, skills []listing
	for _, p := range snapshot.Prompts() {
		name := v.Prompts.Exposed(p)
		prompts = append(prompts, newListing(p.Definition, "name", name))
	}
	for _, r := range snapshot.Resources() {
		uri := v.expose(Address{r.Server, r.URI})
		resources = append(resources, newListing(r.Definition, "uri", uri))
	}
	for _, t := range snapshot.Templates() {
		at := Address{t.Server, t.URI}
		uri := v.expose(at)
		templates = append(templates, newListing(t.Definition, "uriTemplate", uri))
		if pattern, err := uritemplate.New(t.URI); err == nil {
			v.templates = append(v.templates, template{at, pattern})
		}
	}
	for _, s := range snapshot.Skills() {
		uri, definition := v.Skill(s, false)
		skills = append(skills, listing{name: uri, definition: definition})
		for _, file := range s.Files() {
			if uri == s.URI {
				v.addresses[file.URI] = Address{s.Server, file.URI}
			}
		}
	}
	slices.SortStableFunc(v.templates, func(a, b template) int { return cmp.Compare(v.since(a.Address), v.since(b.Address)) })
	v.PromptList = newList("prompts", prompts)
	v.Resources = newList("resources", resources)
	v.Templates = newList("resourceTemplates", templates)
	v.Skills = newList("skills", skills)
	v.addInterfaces()
	return v
}

// isOf reports whether v is the view of the snapshot with the options. Nil is not.
func (v *View) isOf(snapshot *registry.Snapshot, o *Options) bool {
	return v != nil && v.Snapshot == snapshot && v.Options == o
}

// listTools makes the lists of tools: of all tools, or of the pinned ones.
func (v *View) listTools(o *Options) {
	tools := v.Snapshot.Tools()
	if o.Search {
		tools = v.pinned(o.Pinned)
	}
	visible := slices.DeleteFunc(slices.Clone(tools), func(t *registry.NormalizedTool) bool { return !t.ForModels() })
	v.Tools, v.FlatTools = v.toolLists(o, visible)
	if v.AppTools, v.FlatAppTools = v.Tools, v.FlatTools; len(visible) < len(tools) && !o.Search {
		v.AppTools, v.FlatAppTools = v.toolLists(o, tools)
	}
	if o.Search {
		v.Spared = exposure.Tokens(v.Snapshot.Tools()) - v.Tools.Tokens()
	}
}

// shadows reports whether a server that is shown as itself has a tool of the name, so that none of ours can have it.
func (v *View) shadows(name string) bool {
	t, ok := v.Names.Only(name)
	return ok && v.Options.Names == exposure.Own && t.Name == name
}

// toolLists returns the list of our own tools and of those given, and the same for clients that
// refuse some schemas.
func (v *View) toolLists(o *Options, tools []*registry.NormalizedTool) (list, flat List) {
	list = v.toolList(o, tools, false)
	if slices.ContainsFunc(tools, func(t *registry.NormalizedTool) bool { return t.Flat != nil }) {
		return list, v.toolList(o, tools, true)
	}
	return list, list
}

func (v *View) toolList(o *Options, tools []*registry.NormalizedTool, flat bool) List {
	all := make([]listing, 0, len(o.Own)+len(tools))
	for _, own := range o.Own {
		if v.shadows(own.Name) {
			continue
		}
		all = append(all, listing{name: own.Name, definition: own.Definition})
	}
	for _, t := range tools {
		definition := t.Definition
		if flat && t.Flat != nil {
			definition = t.Flat
		}
		all = append(all, newListing(definition, "name", v.Names.Exposed(t)))
	}
	return newList("tools", all)
}

// pinned returns the pinned tools that the snapshot has, each once.
func (v *View) pinned(names []string) []*registry.NormalizedTool {
	var tools []*registry.NormalizedTool
	for _, name := range names {
		t, ok := v.Names.Only(name)
		if ok && !slices.Contains(tools, t) {
			tools = append(tools, t)
		}
	}
	return tools
}

// Renamed returns the definition with the member set to the name or URI that
// clients see.
func Renamed(definition json.RawMessage, member, name string) json.RawMessage {
	if wire.IsString(wire.Member(definition, member), name) {
		return definition
	}
	return wire.SetMember(definition, member, wire.AppendString(nil, name))
}

// expose chooses the URI under which clients see the resource at the address: the
// server's own URI, unless that belongs to another server. Where it belongs to no server, the
// server that comes first by name has it.
func (v *View) expose(at Address) string {
	uri := at.URI
	if _, taken := v.addresses[uri]; taken || v.belongsToOther(at) {
		uri = at.Qualified()
	}
	v.addresses[uri], v.exposed[at] = at, uri
	return uri
}

// Skill returns a skill as clients see it, and the URI of its SKILL.md. All of its URIs name the server, so that relative
// references in its files stay right, if one of them belongs to another server, if its files are not known, or with qualified.
func (v *View) Skill(s *registry.Skill, qualified bool) (uri string, definition json.RawMessage) {
	files, dynamic := s.Files(), !wire.IsArray(wire.Member(s.Definition, "resources"))
	foreign := func(f registry.SkillEntry) bool {
		at, taken := v.addresses[f.URI]
		return taken && at.Server != s.Server || v.belongsToOther(Address{s.Server, f.URI})
	}
	if !qualified && (!dynamic || v.Options.Names == exposure.Own) && !slices.ContainsFunc(files, foreign) {
		return s.URI, s.Definition
	}
	if definition = s.Definition; !dynamic {
		var entries []json.RawMessage
		for file := range wire.Values(wire.Member(definition, "resources")) {
			entries = append(entries, Renamed(file, "uri", Address{s.Server, files[len(entries)].URI}.Qualified()))
		}
		definition = wire.SetMember(definition, "resources", wire.Marshal(entries))
	}
	uri = Address{s.Server, s.URI}.Qualified()
	return uri, Renamed(definition, "uri", uri)
}

// since returns when the server had its URI template first; the templates that belong to
// another server come last.
func (v *View) since(at Address) int64 {
	claim, ok := v.Snapshot.Claims()[at.URI]
	if ok && claim.Server == at.Server {
		return claim.Since
	}
	return math.MaxInt64
}

// belongsToOther reports whether another server had the URI first.
func (v *View) belongsToOther(at Address) bool {
	claim, ok := v.Snapshot.Claims()[at.URI]
	return ok && claim.Server != at.Server
}

// Exposed returns the URI or URI template under which clients see the resource at the
// address, "" if the snapshot does not have it.
func (v *View) Exposed(at Address) string { return v.exposed[at] }

const ownScheme = urls.OwnScheme + "//"

// IsListed reports whether a server lists the resource with this URI, as clients see it.
func (v *View) IsListed(uri string) bool {
	_, ok := v.addresses[uri]
	return ok
}

// Qualified returns a URI that names the server.
func (a Address) Qualified() string { return ownScheme + url.PathEscape(a.Server) + "/" + a.URI }

// parseQualified is the inverse of Qualified.
func parseQualified(uri string) (a Address, ok bool) {
	rest, ok := strings.CutPrefix(uri, ownScheme)
	server, uri, ends := strings.Cut(rest, "/")
	server, err := url.PathUnescape(server)
	return Address{server, uri}, ok && ends && err == nil
}

// addInterfaces adds the resources that tools name as their user interface (MCP
// Apps): servers need not list them.
func (v *View) addInterfaces() {
	for _, t := range v.Snapshot.Tools() {
		if !bytes.Contains(t.Definition, []byte("esourceUri")) {
			continue
		}
		meta := wire.Member(t.Definition, "_meta")
		for _, member := range [][]byte{wire.Member(wire.Member(meta, "ui"), "resourceUri"), wire.Member(meta, "ui/resourceUri")} {
			uri, ok := wire.String(member)
			at := Address{t.Server, uri}
			if ok && v.addresses[uri].URI == "" && !v.belongsToOther(at) && !urls.IsOwn(uri) {
				v.addresses[uri] = at
			}
		}
	}
}

// locate returns where to ask for a resource, to be tried one after the other: the
// server to which it belongs, or the servers with templates that match it, in the order in which they had
// them first, or else all the given servers that have any resources. A URI that is long for a template, whose pattern
// takes quadratic time or more, does not match it.
func (v *View) locate(ctx context.Context, uri string, servers []string) []Address {
	if at, ok := v.addresses[uri]; ok {
		return []Address{at}
	}
	if at, ok := parseQualified(uri); ok {
		return []Address{at}
	}
	if urls.IsOwn(uri) {
		return nil
	}
	if claim, ok := v.Snapshot.Claims()[uri]; ok { // it lists the URI no more
		return []Address{{claim.Server, uri}}
	}
	var found []Address
	const most = 4 << 10 // bytes of a URI times the variables of a template: at most some 20 ms
	for _, t := range v.templates {
		if ctx.Err() == nil && len(uri)*max(1, len(t.pattern.Varnames())) <= most && t.pattern.Match(uri) != nil && !slices.Contains(found, Address{t.Server, uri}) {
			found = append(found, Address{t.Server, uri})
		}
	}
	if len(found) > 0 {
		return found
	}
	for _, server := range servers {
		if wire.Member(v.Snapshot.Offer(server).Capabilities, "resources") != nil {
			found = append(found, Address{server, uri})
		}
	}
	return found
}
