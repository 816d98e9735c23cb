package tools

import (
	"context"
	"encoding/json"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
)

type describeArguments struct {
	IDs []string `json:"ids"`
}

// A Description is the answer of describe_tools for one id: the definition, or the
// reason why no definition is known.
type Description struct {
	ID           string          `json:"id"`
	Kind         string          `json:"kind,omitempty"` // empty for tools
	Capabilities []string        `json:"capabilities,omitempty"`
	Definition   json.RawMessage `json:"definition,omitempty"`
	Doubt        string          `json:"doubt,omitempty"` // why hints in the definition that it does no harm are not believed
	Error        string          `json:"error,omitempty"`
}

func (f *finder) describe(ctx context.Context, args json.RawMessage, _ *call) (json.RawMessage, error) {
	var a describeArguments
	if err := json.Unmarshal(args, &a); err != nil {
		return failure("describe_tools: %v", err), nil
	}
	described := make([]Description, 0, len(a.IDs))
	for _, id := range a.IDs {
		described = append(described, f.describeID(ctx, id)...)
	}
	return answer(map[string]any{"tools": described}), nil
}

// describeID describes everything that has the id: a prompt may share it with a tool.
func (f *finder) describeID(ctx context.Context, id string) []Description {
	items := f.router.Snapshot().Items(id)
	if len(items) == 0 {
		tool, err := f.catalog.Tool(ctx, id) // Tool takes names of other forms, and waits for servers
		items = f.router.Snapshot().Items(id)
		switch {
		case len(items) > 0:
		case err != nil:
			return []Description{{ID: id, Error: err.Error()}}
		default:
			items = []registry.Item{{Tool: tool}}
		}
	}
	described := make([]Description, len(items))
	for i, item := range items {
		described[i] = f.describeItem(item)
	}
	return described
}

// describeItem returns the definition; of a prompt, resource or template with the name
// or URI that clients use.
func (f *finder) describeItem(i registry.Item) Description {
	d := Description{ID: i.ID()}
	if i.Tool != nil {
		d.Capabilities, d.Definition, d.Doubt = i.Tool.Capabilities, i.Tool.Definition, i.Tool.Doubt
		return d
	}
	d.Kind = i.Kind()
	switch {
	case i.Prompt != nil:
		d.Definition = catalog.Renamed(i.Prompt.Definition, "name", f.catalog.View().Prompts.Exposed(i.Prompt))
	case i.Resource != nil:
		d.Definition = catalog.Renamed(i.Resource.Definition, "uri", f.resourceURI(i.Resource))
	case i.Template != nil:
		d.Definition = catalog.Renamed(i.Template.Definition, "uriTemplate", f.templateURI(i.Template))
	}
	return d
}
