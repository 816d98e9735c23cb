package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// fillWait is how long a client, with its model and its person, may take to fill in
// arguments or to agree to a call.
const fillWait = 5 * time.Minute

// ownName stands for the router where otherwise a server's name stands.
const ownName = "metarouter"

// fill completes the arguments of a call by asking the client: first its model for
// the missing arguments that the task states, then the person for the rest, and for
// permission unless the call is permitted. It returns the arguments, and whether the
// person has agreed to the call. If the client can't be asked or does not answer,
// the arguments stay as they are.
func fill(ctx context.Context, c *toolCall, task string, tool *registry.NormalizedTool, args json.RawMessage, permitted bool) (filled json.RawMessage, agreed bool) {
	ctx, cancel := context.WithTimeout(ctx, fillWait)
	defer cancel()
	if len(selector.Missing(tool, args)) > 0 {
		args = merged(args, sampled(ctx, c.From, task, tool, args))
	}
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

// sampled asks the client's model for the arguments; nil if the client has no model.
func sampled(ctx context.Context, from session.Client, task string, tool *registry.NormalizedTool, args json.RawMessage) json.RawMessage {
	if !session.Answers(from.Capabilities(), createMessage) {
		return nil
	}
	const instructions = "You fill in the arguments of a tool. Answer with one JSON object that holds the arguments which the task states, " +
		"by the JSON Schema, and nothing else. Leave out what the task does not say; never guess."
	text, err := sample(ctx, from, instructions, fmt.Sprintf(
		"Task: %s\n\nTool: %s\n%s\n\nJSON Schema of its arguments: %s\n\nGiven already: %s",
		task, tool.ID, tool.Description, tool.InputSchema, args), 1000)
	if err != nil {
		return nil
	}
	return objectIn(text)
}

// objectIn returns the JSON object in a model's answer, perhaps within a fence; nil if
// the answer has no object.
func objectIn(text string) json.RawMessage {
	begin, end := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}')
	if begin < 0 || end < begin {
		return nil
	}
	object := json.RawMessage(text[begin : end+1])
	if !json.Valid(object) {
		return nil
	}
	return object
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

// maxFilled bounds the arguments that a client's model or its person adds.
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
