package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Bounds of values.
const (
	maxResult  = 16 << 20 // bytes of a call's value, of the script's, and of all arguments and blocks behind handles
	maxHost    = 13 << 20 // bytes of what a script hands over: 4 Mi UTF-16 code units
	maxMessage = 16 << 10 // bytes of an error's message
)

// A toolResult is the result of tools/call.
type toolResult struct {
	Structured *json.RawMessage `json:"structuredContent"`
	Content    []block          `json:"content"`
	IsError    bool             `json:"isError"`
}

// A block is a block of content, without its data.
type block struct {
	Type     string         `json:"type"`
	Text     string         `json:"text"`
	MimeType string         `json:"mimeType"`
	Name     string         `json:"name"`
	URI      string         `json:"uri"`
	Resource *blockResource `json:"resource"`
}

type blockResource struct {
	URI      string `json:"uri"`
	MimeType string `json:"mimeType"`
	Text     string `json:"text"`
}

// A handle stands for a block in a script.
type handle struct {
	Handle   string `json:"handle"`
	Type     string `json:"type"`
	MimeType string `json:"mimeType,omitempty"`
	Name     string `json:"name,omitempty"`
	URI      string `json:"uri,omitempty"`
	Text     string `json:"text,omitempty"`
}

// handles are the blocks that a script can put into its answer.
type handles struct {
	budget  *budget
	bytes   int64
	blocks  map[string]json.RawMessage // nil for a block that the answer has
	content []json.RawMessage
}

// value returns the value that a result has for a script; an error for a result that is an error.
func (h *handles) value(raw json.RawMessage) (json.RawMessage, error) {
	var result toolResult
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, fmt.Errorf("the result can't be read: %w", err)
	}
	var texts []string
	var values []any
	var raws struct {
		Content []json.RawMessage `json:"content"`
	}
	for i, b := range result.Content {
		if b.Type == "text" {
			texts = append(texts, b.Text)
			values = append(values, b.Text)
			continue
		}
		if result.IsError || result.Structured != nil {
			continue
		}
		if raws.Content == nil {
			if err := json.Unmarshal(raw, &raws); err != nil {
				return nil, fmt.Errorf("the result can't be read: %w", err)
			}
		}
		kept, err := h.keep(raws.Content[i], b)
		if err != nil {
			return nil, err
		}
		values = append(values, kept)
	}
	text := strings.Join(texts, "\n")
	switch {
	case result.IsError && text == "":
		return nil, errors.New("the tool failed without a message")
	case result.IsError:
		return nil, errors.New(text)
	case result.Structured != nil:
		return *result.Structured, nil
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

// keep keeps a block, and returns its handle.
func (h *handles) keep(raw json.RawMessage, b block) (handle, error) {
	if err := h.take(len(raw)); err != nil {
		return handle{}, err
	}
	if h.blocks == nil {
		h.blocks = map[string]json.RawMessage{}
	}
	kept := handle{Handle: fmt.Sprintf("h%d", len(h.blocks)+1), Type: b.Type, MimeType: b.MimeType, Name: b.Name, URI: b.URI}
	if r := b.Resource; r != nil {
		kept.URI, kept.MimeType, kept.Text = r.URI, r.MimeType, r.Text
	}
	h.blocks[kept.Handle] = append(json.RawMessage(nil), raw...)
	return kept, nil
}

// take counts bytes that the outcome has.
func (h *handles) take(n int) error {
	if h.bytes+int64(n) > maxResult || !h.budget.take(int64(n)) {
		return errorf("LimitError", "the script's arguments, images and resources have more than %d bytes, or no memory is left for scripts", maxResult)
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

// limited cuts a text to n bytes.
func limited(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}
