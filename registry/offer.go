package registry

import (
	"encoding/json"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// An Offer is all that one server offers, each list in the server's own order.
type Offer struct {
	Tools     []NormalizedTool
	Prompts   []Prompt
	Resources []Resource
	Templates []Template

	Capabilities json.RawMessage // the server's capabilities object, as sent
	Extensions   json.RawMessage // the extensions object in it, as sent; nil if there is none
	Version      string          // of the server, as it says; may be empty

	Dropped []Dropped // what it lists and does not offer, in its order, kind by kind
}

// A Dropped is something that a server lists and that is not offered, and why.
type Dropped struct {
	Kind   string `json:"kind"` // such as KindTool
	Name   string `json:"name"` // the server's own name or URI, or "#3" for the third if it has none
	Reason string `json:"reason"`

	// Filter is the key of the entry's "tools" that keeps it out, as its owner wants:
	// "allow" or "deny". It is empty where it can't be offered. Pattern is the one of
	// deny that it matches.
	Filter  string `json:"filter,omitempty"`
	Pattern string `json:"pattern,omitempty"`
}

// A Prompt is one prompt of one server, cleaned of what would break clients. It
// is shared and never modified once it is in the registry.
type Prompt struct {
	ID          string `json:"id"`     // "server:name", the key among prompts
	Server      string `json:"server"` // the server's name in the configuration
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`

	// Definition is the whole object as the server sent it, but for what Repairs
	// names.
	Definition json.RawMessage `json:"definition"`

	// Repairs says in plain words what was changed in the definition, and why.
	Repairs []string `json:"repairs,omitempty"`
}

// A PromptArgument is what a prompt can be given.
type PromptArgument struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

// Arguments returns what the prompt can be given, in the server's order.
func (p *Prompt) Arguments() []PromptArgument {
	var arguments []PromptArgument
	_ = json.Unmarshal(wire.Member(p.Definition, "arguments"), &arguments) // what is not as it should be is left out
	return arguments
}

// A Resource is one resource of one server, cleaned and shared as a [Prompt] is.
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

// A Template is one resource template of one server, cleaned and shared as a
// [Prompt] is.
type Template struct {
	ID          string          `json:"id"` // "server:uriTemplate", the key among templates
	Server      string          `json:"server"`
	URITemplate string          `json:"uri_template"` // RFC 6570
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	MIMEType    string          `json:"mime_type,omitempty"`
	Definition  json.RawMessage `json:"definition"`
	Repairs     []string        `json:"repairs,omitempty"`
}

// ID returns the key of what a server offers among all of its kind: of a tool or
// prompt by its name, of a resource by its URI, of a template by its URI template.
func ID(server, name string) string { return server + ":" + name }

// A Listing is an [Offer] as a snapshot shares it. It is immutable.
type Listing struct {
	Tools     []*NormalizedTool
	Prompts   []*Prompt
	Resources []*Resource
	Templates []*Template

	Capabilities json.RawMessage
	Extensions   json.RawMessage
	Version      string

	Dropped []Dropped
}

// keyed is a pointer to one thing that a server offers.
type keyed interface {
	comparable
	// key returns the ID, and what it is made of: the server, and the name or URI.
	key() (id, server, name string)
}

func (t *NormalizedTool) key() (id, server, name string) { return t.ID, t.Server, t.Name }
func (p *Prompt) key() (id, server, name string)         { return p.ID, p.Server, p.Name }
func (r *Resource) key() (id, server, name string)       { return r.ID, r.Server, r.URI }
func (t *Template) key() (id, server, name string)       { return t.ID, t.Server, t.URITemplate }
