package embeddings

import (
	"context"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/internal/encoder"
	"github.com/mcp-metarouter/metarouter/internal/vectors"
)

const maxTools = 20_000 // that get vectors

// A Tool is what the model gets of a tool.
type Tool struct {
	ID          string
	Server      string
	Name        string
	Description string
}

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

// Cosines returns those of each vector of a task and all tools, by number. It is nil if a vector has
// not the length of those of the tools.
func (s *Set) Cosines(task []vectors.Vector) [][]float32 {
	for _, v := range task {
		if len(v) != s.dim {
			return nil
		}
	}
	return s.matrix.Dot(task)
}

// Build returns the vectors of the tools, and has the model make those that the store lacks. It
// returns them with an error if they can't be saved.
func (s *Store) Build(ctx context.Context, tools []Tool) (*Set, error) {
	tools = tools[:min(len(tools), maxTools)]
	texts := make([]string, len(tools))
	for i, t := range tools {
		texts[i] = t.text()
	}
	failed, unsaved := s.Fill(ctx, texts), s.save()
	if failed != nil {
		return nil, errors.Join(failed, unsaved)
	}
	set := &Set{Model: s.model, numbers: make(map[string]int, len(tools))}
	var all []vectors.Vector
	for i, t := range tools {
		v := s.vectors[s.key(texts[i])]
		if set.dim == 0 {
			set.dim = len(v)
		}
		if v != nil && len(v) == set.dim {
			set.numbers[t.ID] = len(all)
			all = append(all, v)
		}
	}
	set.matrix = encoder.NewMatrix(all)
	return set, unsaved
}

// text returns the server's name, the tool's, and the beginning of the description.
func (t Tool) text() string {
	return strings.TrimSpace(apart(t.Server)+" "+apart(t.Name)) + ". " + beginning(strings.Join(strings.Fields(t.Description), " "))
}

// apart returns the words of a name: "getUser_id" is "get User id".
func apart(name string) string {
	var b strings.Builder
	var before rune
	for i, r := range name {
		next, _ := utf8.DecodeRuneInString(name[i+utf8.RuneLen(r):])
		switch {
		case strings.ContainsRune("_-./:", r):
			r = ' '
		case unicode.IsUpper(r) && (unicode.IsLower(before) || unicode.IsDigit(before) || unicode.IsUpper(before) && unicode.IsLower(next)):
			b.WriteByte(' ')
		}
		b.WriteRune(r)
		before = r
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// near is how many bytes of a description's sentences a model gets.
const near = 200

// beginning returns the first sentences of a description, on one line: at least one, as far as
// near allows.
func beginning(text string) string {
	end := 0
	for end < len(text) {
		n := strings.IndexAny(text[end:], ".!?")
		stop := len(text)
		if n >= 0 {
			stop = end + n + 1
		}
		if end > 0 && stop > near {
			break
		}
		end = stop
	}
	return strings.ToValidUTF8(text[:min(end, near)], "")
}
