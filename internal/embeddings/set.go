package embeddings

import (
	"cmp"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/encoder"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A Set is the vectors of tools at one time, by one model. It is immutable.
type Set struct {
	Model   Model          // that made the vectors
	numbers map[string]int // of the tools that have a vector, by ID: their rows in matrix
	matrix  *encoder.Matrix
	dim     int // the length of the vectors
}

// Number returns the number of the tool of that ID, if it has a vector.
func (s *Set) Number(id string) (number int, ok bool) {
	number, ok = s.numbers[id]
	return number, ok
}

// Cosines returns, for each vector of a task, the cosines with all tools, by number. It is nil if a
// vector has another length than the vectors of the tools.
func (s *Set) Cosines(task []encoder.Vector) [][]float32 {
	for _, v := range task {
		if len(v) != s.dim {
			return nil
		}
	}
	return s.matrix.Dot(task)
}

// A Tool is a tool with the text that a model gets of it.
type Tool struct{ id, text string }

// Tools returns the tools with their texts: the name of the server, the name of the tool, and the
// beginning of the description.
func Tools(all []*registry.NormalizedTool) []Tool {
	tools := make([]Tool, len(all))
	for i, t := range all {
		description := strings.Join(strings.Fields(cmp.Or(t.Description, t.Title)), " ")
		tools[i] = Tool{t.ID, strings.TrimSpace(apart(t.Server)+" "+apart(t.Name)) + ". " + beginning(description)}
	}
	return tools
}

var (
	separator = lazy.Regexp(`[_\-./:]`)
	hump      = lazy.Regexp(`([\p{Ll}\p{Nd}])(\p{Lu})`)
	acronym   = lazy.Regexp(`(\p{Lu})(\p{Lu}\p{Ll})`)
)

// apart returns the words of a name: "getUser_id" is "get User id".
func apart(name string) string {
	name = separator().ReplaceAllString(name, " ")
	name = acronym().ReplaceAllString(hump().ReplaceAllString(name, "$1 $2"), "$1 $2")
	return strings.Join(strings.Fields(name), " ")
}

// near is how many bytes of a description a model gets.
const near = 200

// beginning returns the sentences of a description that fit into near bytes, or the beginning of
// the first one.
func beginning(text string) string {
	if len(text) > near {
		text = text[:near]
		if end := strings.LastIndexAny(text, ".!?") + 1; end > 0 {
			text = text[:end]
		}
	}
	return strings.ToValidUTF8(text, "")
}
