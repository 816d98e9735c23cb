package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/script"
	"github.com/mcp-metarouter/metarouter/internal/script/host"
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
	Declaration  string          `json:"declaration,omitempty"` // of a tool, in TypeScript, in place of Definition
	Doubt        string          `json:"doubt,omitempty"`       // why hints in the definition that it does no harm are not believed
	Error        string          `json:"error,omitempty"`
	Instructions string          `json:"server_instructions,omitempty"` // of the server, with its first description
}

// maxDescribed is how many bytes of definitions an answer has, unless the first is longer.
const maxDescribed = 1 << 20

// describe answers describe_tools.
func (f *finder) describe(ctx context.Context, a describeArguments, c *toolCall) (json.RawMessage, error) {
	described, size := []Description{}, 0
	seen := make(map[string]bool) // servers
	err := script.Each(ctx, a.IDs, func(id string) error {
		for _, d := range f.describeID(ctx, id, c.declares) {
			if n := len(d.Definition) + len(d.Declaration); size > 0 && size+n > maxDescribed {
				d = Description{ID: d.ID, Kind: d.Kind, Error: fmt.Sprintf("its definition of %d bytes makes the answer too long; describe it alone", n)}
			}
			if server, _, ok := strings.Cut(d.ID, ":"); ok && d.Error == "" && !seen[server] {
				seen[server] = true
				d.Instructions = f.instructions(server, math.MaxInt)
			}
			size += len(d.Definition) + len(d.Declaration) + len(d.Instructions)
			described = append(described, d)
		}
		return nil
	})
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return failure("describe_tools: %v", err), nil
	}
	return answer(map[string]any{"tools": described}), nil
}

// describeID describes everything that has the id: a prompt may share it with a tool. The name of a server returns its instructions.
func (f *finder) describeID(ctx context.Context, id string, declares bool) []Description {
	items := f.Router.Snapshot().Items(id)
	if len(items) == 0 {
		tool, err := f.Catalog.Tool(ctx, id) // Tool takes names of other forms, and waits for servers
		items = f.Router.Snapshot().Items(id)
		switch {
		case len(items) > 0:
		case err != nil:
			if whole := f.instructions(id, math.MaxInt); whole != "" {
				return []Description{{ID: id, Kind: "server", Instructions: whole}}
			}
			return []Description{{ID: id, Error: err.Error()}}
		default:
			items = []registry.Item{{Tool: tool}}
		}
	}
	described := make([]Description, len(items))
	for i, item := range items {
		described[i] = f.describeItem(item, declares)
	}
	return described
}

// describeItem returns the definition; of a prompt, resource or template with the name
// or URI that clients use.
func (f *finder) describeItem(i registry.Item, declares bool) Description {
	d := Description{ID: i.ID()}
	if i.Tool != nil {
		if !i.Tool.ForModels() {
			d.Error = "only the user interface of its server uses it"
			return d
		}
		if d.Capabilities, d.Doubt = i.Tool.Capabilities, i.Tool.Doubt; declares {
			d.Declaration = host.Declare(i.Tool, i.Tool.Description, script.Full)
		} else {
			d.Definition = i.Tool.Definition
		}
		return d
	}
	d.Kind = i.Kind()
	switch {
	case i.Prompt != nil:
		d.Definition = catalog.Renamed(i.Prompt.Definition, "name", f.Catalog.View().Prompts.Exposed(i.Prompt))
	case i.Resource != nil:
		d.Definition = catalog.Renamed(i.Resource.Definition, "uri", f.exposedURI(i.Resource.Server, i.Resource.URI))
	case i.Skill != nil:
		_, d.Definition = f.Catalog.View().Skill(i.Skill, false)
	case i.Template != nil:
		d.Definition = catalog.Renamed(i.Template.Definition, "uriTemplate", f.exposedURI(i.Template.Server, i.Template.URI))
	}
	return d
}
