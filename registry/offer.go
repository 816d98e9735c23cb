package registry

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/urls"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// An Offer is all that one server offers, each list in the server's own order.
type Offer struct {
	Tools     []NormalizedTool
	Prompts   []Prompt
	Resources []Resource
	Templates []Template
	Skills    []Skill

	Capabilities json.RawMessage // the server's capabilities object, as sent
	Extensions   json.RawMessage // the extensions object in Capabilities, as sent; nil without
	Version      string          // the server's own; may be empty
	Look         json.RawMessage // name, title, websiteUrl and icons of its serverInfo, as an object; nil without
	Instructions string          // for models, of the server as a whole; may be empty
	Suspect      []string        // what Suspect of [NormalizedTool] is, in Instructions

	Dropped []Dropped // listed by the server and not offered by the router, in the server's order, kind by kind

	// LastSeen has, by the server's own name of a tool, the definition that a person last
	// saw, if the tool has another one since then or is gone; nil if that is not kept.
	LastSeen map[string]json.RawMessage

	// Confirmed has, by the server's own name of a tool, the hints that a person last confirmed,
	// or that were the first ones, if the tool has others since then or is gone; see package
	// internal/hints. Nil if there is no such tool.
	Confirmed map[string]Hints
}

// A Dropped is something that a server lists and that is not offered, and why.
type Dropped struct {
	Kind   string `json:"kind"` // such as KindTool
	Name   string `json:"name"` // the server's own name or URI, "#3" for the third without a name, or "" for the whole list
	Reason string `json:"reason"`
	Cut    bool   `json:"cut,omitempty"` // of the whole list, only the items after the pages that were read are missing

	// Filter is the key of the entry's "tools" that leaves it out: "allow" or "deny". It is
	// empty if it cannot be offered. Pattern is the pattern of "deny" that it matches.
	Filter  string `json:"filter,omitempty"`
	Pattern string `json:"pattern,omitempty"`
}

// A Prompt is one prompt of one server, cleaned of faults that would break clients. It
// is shared and never modified once it is in the registry.
type Prompt struct {
	ID          string `json:"id"`     // "server:name", the key among prompts
	Server      string `json:"server"` // the server's name in the configuration
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`

	// Definition is the whole object as the server sent it, but for the changes that Repairs
	// names.
	Definition json.RawMessage `json:"definition"`

	// Repairs says in plain words how the definition was changed, and why.
	Repairs []string `json:"repairs,omitempty"`
}

// A PromptArgument is one argument of a prompt.
type PromptArgument struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

// Arguments returns the prompt's arguments in the server's order.
func (p *Prompt) Arguments() []PromptArgument {
	var arguments []PromptArgument
	_ = json.Unmarshal(wire.Member(p.Definition, "arguments"), &arguments) // arguments of another type are left out
	return arguments
}

// A Resource is one resource of one server, cleaned and shared like a [Prompt].
type Resource struct {
	ID          string          `json:"id"` // "server:uri", the key among resources
	Server      string          `json:"server"`
	URI         string          `json:"uri"`
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	MIMEType    string          `json:"mime_type,omitempty"`
	Definition  json.RawMessage `json:"definition"`
	Repairs     []string        `json:"repairs,omitempty"`
}

type (
	// A Template is a resource template. Its URI is a URI template of RFC 6570.
	Template = Resource

	// A Skill is the resource of a SKILL.md. Its Definition is the entry of skills/list.
	Skill = Resource
)

// A SkillEntry is a file of a skill.
type SkillEntry struct {
	URI    string
	Digest string // of its content, "sha256:" and 64 hexadecimal digits; "" if the skill is dynamic
	Size   int64  // of its content, in bytes; -1 if it is unknown
}

// Files returns the files of a skill, SKILL.md included; of a dynamic skill, SKILL.md alone.
func (r *Resource) Files() (files []SkillEntry) {
	if wire.Elements(wire.Member(r.Definition, "resources"), func(file []byte) bool {
		e := SkillEntry{URI: wire.Text(file, "uri"), Digest: wire.Text(file, "digest"), Size: -1}
		_ = json.Unmarshal(wire.Member(file, "size"), &e.Size)
		files = append(files, e)
		return true
	}) != nil {
		return []SkillEntry{{URI: r.URI, Size: -1}}
	}
	return files
}

// Holds reports whether a URI is in the folder of a skill, whatever its case.
func (r *Resource) Holds(uri string) bool {
	folder := strings.TrimSuffix(r.URI, urls.SkillFile[1:])
	return len(uri) >= len(folder) && strings.EqualFold(uri[:len(folder)], folder)
}

// ID returns the key of an item among all items of its kind. name is the name of a tool or
// prompt, the URI of a resource, or the URI template of a template.
func ID(server, name string) string { return server + ":" + name }

// items are the items of one server, or of all.
type items struct {
	Tools     []*NormalizedTool
	Prompts   []*Prompt
	Resources []*Resource
	Templates []*Template
	Skills    []*Skill
}

// equal reports whether both are the same items in the same order.
func (i items) equal(other items) bool {
	return slices.Equal(i.Tools, other.Tools) && slices.Equal(i.Prompts, other.Prompts) && slices.Equal(i.Resources, other.Resources) &&
		slices.Equal(i.Templates, other.Templates) && slices.Equal(i.Skills, other.Skills)
}

// A Listing is an [Offer] as a snapshot shares it. It is immutable.
type Listing struct {
	items

	Capabilities json.RawMessage
	Extensions   json.RawMessage
	Version      string
	Look         json.RawMessage
	Instructions string
	Suspect      []string

	Dropped   []Dropped
	LastSeen  map[string]json.RawMessage
	Confirmed map[string]Hints
}

// keyed is a pointer to one thing that a server offers.
type keyed interface {
	comparable
	// key returns the ID and its parts: the server, and the name or URI.
	key() (id, server, name string)
}

func (t *NormalizedTool) key() (id, server, name string) { return t.ID, t.Server, t.Name }
func (p *Prompt) key() (id, server, name string)         { return p.ID, p.Server, p.Name }
func (r *Resource) key() (id, server, name string)       { return r.ID, r.Server, r.URI }
