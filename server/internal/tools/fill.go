package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// fillWait is how long a person may take to fill in arguments or to agree to a call.
const fillWait = 5 * time.Minute

// ownName stands for the router where otherwise a server's name stands.
const ownName = "metarouter"

// fill asks the person for the missing arguments of a call, and for permission unless
// the call is permitted. It returns the arguments, and whether the person has agreed
// to the call. If the person can't be asked or does not answer, the arguments stay as
// they are.
func fill(ctx context.Context, c *toolCall, tool *registry.NormalizedTool, args json.RawMessage, permitted bool) (filled json.RawMessage, agreed bool) {
	ctx, cancel := context.WithTimeout(ctx, fillWait)
	defer cancel()
	missing := selector.Missing(tool, args)
	if permitted && len(missing) == 0 {
		return args, false
	}
	form, ok := formFor(tool, missing)
	if !ok {
		return args, false
	}
	content, ok := elicited(ctx, c.From, tool, args, form)
	if !ok {
		return args, false
	}
	return merged(args, content), true
}

// The limits of a form that a person is asked to fill in.
const (
	maxFormFields = 20
	maxFormField  = 10 << 10 // bytes of a property's schema
)

// formFor returns the schema of a form for the arguments. Forms are flat: an
// argument that is an object or a list can't be asked for. Neither can very many, or a
// long list of values.
func formFor(tool *registry.NormalizedTool, missing []string) (form json.RawMessage, ok bool) {
	all := wire.Member(tool.InputSchema, "properties")
	properties := json.RawMessage("{}")
	if len(missing) > maxFormFields {
		return nil, false
	}
	for _, name := range missing {
		property := primitive(wire.Member(all, name))
		if property == nil || len(name)+len(property) > maxFormField {
			return nil, false
		}
		properties = wire.SetMember(properties, name, property)
	}
	if missing == nil {
		missing = []string{}
	}
	return wire.Marshal(map[string]any{"type": "object", "properties": properties, "required": missing}), true
}

// primitive returns the parts of a property's schema that a form may have; nil if
// forms do not have its type.
func primitive(schema json.RawMessage) json.RawMessage {
	var kept []string
	kind, _ := wire.String(wire.Member(schema, "type"))
	switch kind {
	case "string":
		kept = []string{"type", "title", "description", "minLength", "maxLength", "enum", "default"}
		switch format, _ := wire.String(wire.Member(schema, "format")); format {
		case "email", "uri", "date", "date-time":
			kept = append(kept, "format")
		}
	case "number", "integer":
		kept = []string{"type", "title", "description", "minimum", "maximum", "default"}
	case "boolean":
		kept = []string{"type", "title", "description", "default"}
	default:
		return nil
	}
	property := json.RawMessage("{}")
	for _, key := range kept {
		if value := wire.Member(schema, key); value != nil {
			property = wire.SetMember(property, key, value)
		}
	}
	return property
}

// elicited shows the person the call with the form, and returns the filled-in form. It
// reports false unless the person agreed to the call.
func elicited(ctx context.Context, from session.Client, tool *registry.NormalizedTool, args, form json.RawMessage) (content json.RawMessage, ok bool) {
	const method = "elicitation/create"
	if !session.ShowsForms(from.Capabilities()) {
		return nil, false
	}
	message := fmt.Sprintf("Run %s with the arguments %s?", tool.ID, args)
	if len(args) > maxShownArguments {
		message = fmt.Sprintf("Run %s with the %d bytes of arguments that were given?", tool.ID, len(args))
	}
	result, err := from.Ask(ctx, ownName, session.Message{Method: method, Params: wire.Marshal(map[string]any{
		"mode": "form", "message": message, "requestedSchema": form,
	})})
	if err != nil {
		return nil, false
	}
	action, _ := wire.String(wire.Member(result, "action"))
	return wire.Member(result, "content"), action == "accept"
}

// maxShownArguments bounds the bytes of arguments that a person is shown.
const maxShownArguments = 2000

// maxFilled bounds the arguments that a person adds.
const maxFilled = 100

// merged returns the arguments, completed with the members of more unless these are too many.
func merged(args, more json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(more, &members) != nil || len(members) > maxFilled {
		return args
	}
	for name, value := range members {
		if wire.Member(args, name) == nil {
			args = wire.SetMember(args, name, value)
		}
	}
	return args
}
