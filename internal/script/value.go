package script

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// Bounds of values.
const (
	maxResult   = 16 << 20 // bytes of a call's value, of the script's, and of all arguments and blocks behind handles
	maxHost     = 13 << 20 // bytes of what a script hands over: 4 Mi UTF-16 code units
	maxMessage  = 16 << 10 // bytes of an error's message
	maxQuestion = 1 << 20  // bytes of the JSON of a search's task, or of the ids of a description
	maxBlocks   = 10_000   // blocks of content in a result
)

// A block is a block of content, without its data. With a handle, it stands for the block in a script.
type block struct {
	Handle   string                                `json:"handle"`
	Type     string                                `json:"type"`
	MimeType string                                `json:"mimeType,omitempty"`
	Name     string                                `json:"name,omitempty"`
	URI      string                                `json:"uri,omitempty"`
	Text     string                                `json:"text,omitempty"`
	Resource *struct{ URI, MimeType, Text string } `json:"resource,omitempty"`
}

// handles are the blocks that a script can put into its answer.
type handles struct {
	budget  *budget
	bytes   int64
	blocks  map[string]json.RawMessage // nil for a block that the answer has
	content []json.RawMessage
}

// value returns the value that a result of tools/call has for a script; an error for a result that is an error.
func (h *handles) value(raw json.RawMessage) (json.RawMessage, error) {
	var result struct {
		StructuredContent, Content *json.RawMessage // nil for null
		IsError                    bool
	}
	err := json.Unmarshal(raw, &result)
	if err == nil && result.StructuredContent != nil && !result.IsError {
		return *result.StructuredContent, nil
	}
	var texts []string
	var values []any
	var fault error
	if err == nil && result.Content != nil {
		err = wire.Elements(*result.Content, func(raw []byte) bool {
			var b block
			switch fault = json.Unmarshal(raw, &b); {
			case fault != nil:
			case len(values) == maxBlocks:
				fault = fmt.Errorf("it has more than %d blocks of content; ask the tool for less", maxBlocks)
			case b.Type == "text":
				texts = append(texts, b.Text)
				values = append(values, b.Text)
			case result.IsError:
				values = append(values, nil)
			default:
				fault = h.keep(raw, &b)
				values = append(values, b)
			}
			return fault == nil
		})
	}
	if err = cmp.Or(fault, err); err != nil {
		return nil, fmt.Errorf("the result can't be read: %w", err)
	}
	text := strings.Join(texts, "\n")
	switch {
	case result.IsError:
		return nil, errors.New(cmp.Or(text, "the tool failed without a message"))
	case len(texts) < len(values) && len(values) == 1:
		return json.Marshal(values[0])
	case len(texts) < len(values):
		return json.Marshal(values)
	case len(texts) == 1 && json.Valid([]byte(text)):
		return json.RawMessage(text), nil
	case len(texts) == 0:
		return json.RawMessage("null"), nil
	}
	return json.Marshal(text)
}

// mayChange reports whether JavaScript may read a number of the JSON as another one.
func mayChange(value []byte) bool {
	digits, begins := 0, true // of a number, and whether one may begin here
	for _, c := range value {
		switch {
		case c >= '0' && c <= '9' && (begins || digits > 0):
			digits++
		case digits > 15, digits > 0 && c|0x20 == 'e':
			return true
		default:
			digits = 0
		}
		begins = c <= ' ' || c == ',' || c == ':' || c == '[' || c == '-' && begins
	}
	return digits > 15
}

// keep keeps a block, and gives it a handle.
func (h *handles) keep(raw json.RawMessage, b *block) error {
	if err := h.take(len(raw) + 256); err != nil { // a handle takes about so much more
		return err
	}
	if h.blocks == nil {
		h.blocks = map[string]json.RawMessage{}
	}
	b.Handle = fmt.Sprintf("h%d", len(h.blocks)+1)
	h.blocks[b.Handle] = bytes.Clone(raw)
	if r := b.Resource; r != nil {
		b.URI, b.MimeType, b.Text, b.Resource = r.URI, r.MimeType, r.Text, nil
	}
	return nil
}

// take counts bytes that the outcome has.
func (h *handles) take(n int) error {
	if h.bytes+int64(n) > maxResult || !h.budget.take(int64(n)) {
		return errorf("LimitError", "the script's arguments, images and resources have more than %s, or no memory is left for scripts", safefile.Size(maxResult))
	}
	h.bytes += int64(n)
	return nil
}

// give puts a block into the answer, once. It reports whether there is one.
func (h *handles) give(name string) bool {
	raw, ok := h.blocks[name]
	if raw != nil {
		h.content = append(h.content, raw)
		h.blocks[name] = nil
	}
	return ok
}

func (h *handles) close() { h.budget.used.Add(-h.bytes) }
