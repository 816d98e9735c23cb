package registry

import (
	"bytes"
	"encoding/json"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// A NormalizedTool is one tool of one server, cleaned of faults that would break
// clients and tagged with its uses. It is shared and never modified
// once it is in the registry.
type NormalizedTool struct {
	ID     string `json:"id"`     // "server:name", the key
	Server string `json:"server"` // the server's name in the configuration
	Name   string `json:"name"`   // the tool's name, after any renaming by the configuration

	// Original is the name by which the server knows the tool. It differs from
	// Name only where the configuration renames it.
	Original string `json:"original,omitempty"`

	Title        string   `json:"title,omitempty"`
	Description  string   `json:"description,omitempty"`
	Capabilities []string `json:"capabilities,omitempty"` // sorted, lower-case tags such as "browser"
	Hints        Hints    `json:"hints,omitzero"`

	// InputSchema is the schema of the arguments, always an object schema.
	InputSchema json.RawMessage `json:"input_schema"`

	// Fixed are arguments, an object, that every call has and that clients may not send: a
	// profile sets them. InputSchema and Definition do not have them, ServerSchema does. Nil if a
	// profile fixes nothing.
	Fixed json.RawMessage `json:"-"`

	// ServerSchema is the schema with which arguments are compared, if InputSchema, which clients
	// see, lacks rules of it: arguments that a profile fixes, and patterns that APIs of models refuse. Nil if
	// it is InputSchema.
	ServerSchema json.RawMessage `json:"-"`

	// Keys are the server's own keys of properties, by those that InputSchema and Definition have in their place, since
	// APIs of models refuse the server's. They are at any depth. Nil if there are none.
	Keys map[string]string `json:"-"`

	// Doubt says why Hints are not believed where they declare that the tool does no harm: its
	// name says that it deletes, or no person has confirmed hints that changed. "" if they are.
	Doubt string `json:"doubt,omitempty"`

	// Held says that no client sees the tool, until a person has seen that it is new or how it changed.
	Held bool `json:"held,omitempty"`

	// Definition is the whole tool object as the server sent it, but for the changes that
	// Repairs names and for the name, which is Name.
	Definition json.RawMessage `json:"definition"`

	// Flat is Definition for clients that give it to an API of models, which would refuse it: allOf, anyOf and oneOf at the
	// top level of the schema are merged into one object schema, and references lead to definitions of the root. Nil if the
	// APIs take Definition.
	Flat json.RawMessage `json:"flat,omitempty"`

	// Repairs says in plain words how the definition was changed, and why.
	Repairs []string `json:"repairs,omitempty"`

	// Suspect has the texts that give a model orders, or hid from people: the place and the words.
	Suspect []string `json:"suspect,omitempty"`
}

// ServerName returns the name by which the server knows the tool.
func (t *NormalizedTool) ServerName() string {
	if t.Original != "" {
		return t.Original
	}
	return t.Name
}

// Hints are the tool's annotations; nil where the server says nothing.
type Hints struct {
	ReadOnly    *bool `json:"readOnlyHint,omitempty"`
	Destructive *bool `json:"destructiveHint,omitempty"`
	Idempotent  *bool `json:"idempotentHint,omitempty"`
	OpenWorld   *bool `json:"openWorldHint,omitempty"`
}

// GobEncode keeps false apart from nil, which gob does not.
func (h Hints) GobEncode() ([]byte, error) { return json.Marshal(h) }

// GobDecode is the inverse of GobEncode.
func (h *Hints) GobDecode(text []byte) error { return json.Unmarshal(text, h) }

// IsReadOnly reports whether the server says that the tool changes nothing.
func (h Hints) IsReadOnly() bool { return h.ReadOnly != nil && *h.ReadOnly }

// IsDestructive reports whether the server says that the tool may destroy
// something.
func (h Hints) IsDestructive() bool { return h.Destructive != nil && *h.Destructive }

// IsIdempotent reports whether the server says that calls with the same arguments
// have no more effect than one.
func (h Hints) IsIdempotent() bool { return h.Idempotent != nil && *h.Idempotent }

// Reads reports whether the tool changes nothing: the server says so, and nothing speaks
// against it.
func (t *NormalizedTool) Reads() bool { return t.Hints.IsReadOnly() && t.Doubt == "" }

// ArgumentSchema returns the schema with which arguments are compared: also with the part that clients do not see.
func (t *NormalizedTool) ArgumentSchema() json.RawMessage {
	if t.ServerSchema != nil {
		return t.ServerSchema
	}
	return t.InputSchema
}

// Repeatable reports whether a second call with the same arguments does no harm: the server
// says so, and nothing speaks against it.
func (t *NormalizedTool) Repeatable() bool {
	return t.Doubt == "" && (t.Hints.IsReadOnly() || t.Hints.IsIdempotent())
}

// ForModels reports whether a model may see the tool. MCP Apps: the tool is for the user interface
// of its server alone if its _meta.ui.visibility is a list without "model".
func (t *NormalizedTool) ForModels() bool {
	if !bytes.Contains(t.Definition, []byte(`"visibility"`)) {
		return true
	}
	visibility := wire.Member(wire.Member(wire.Member(t.Definition, "_meta"), "ui"), "visibility")
	sees := false
	err := wire.Elements(visibility, func(value []byte) bool {
		sees = sees || string(value) == `"model"`
		return true
	})
	return sees || err != nil // another value says nothing
}
