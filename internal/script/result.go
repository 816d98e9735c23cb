package script

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// maxListed is how many lines of calls a text has.
const maxListed = 20

// Result returns the outcome as the result of a tool: the value or the error as text, the log, and the content.
func (o Outcome) Result() json.RawMessage {
	text := "The script returned nothing."
	if len(o.Calls) > 0 {
		text = "The script returned nothing: for a value, write \"return\" before it, and \"await\" before each call.\nIt made these calls:\n" + list(o.Calls)
	}
	if o.Value != nil {
		text = string(o.Value)
		if unquoted, ok := wire.String(o.Value); ok {
			text = unquoted
		}
	}
	if o.Err != nil {
		text = o.Failure()
	}
	content := []any{map[string]string{"type": "text", "text": text}}
	if o.Log != "" {
		content = append(content, map[string]string{"type": "text", "text": "The log:\n" + o.Log})
	}
	for _, block := range o.Content {
		content = append(content, block)
	}
	return wire.Marshal(struct {
		Content []any `json:"content"`
		IsError bool  `json:"isError,omitempty"`
	}{content, o.Err != nil})
}

// Failure says why the script failed, and which calls took effect.
func (o Outcome) Failure() string {
	text := o.Err.Error()
	if o.Err.Column > 0 {
		text += fmt.Sprintf("\nat line %d, column %d of the script", o.Err.Line, o.Err.Column)
	} else if o.Err.Line > 0 {
		text += fmt.Sprintf("\nat line %d of the script", o.Err.Line)
	}
	return text + "\n" + Effects(o.Calls)
}

// list returns a line for each call, one for all calls of the same tool on the same line.
func list(calls []Made) string {
	var lines []string
	times := make(map[string]int)
	for _, made := range calls {
		line := fmt.Sprintf("line %d: %s", made.Line, made.Tool)
		if times[line]++; times[line] == 1 {
			lines = append(lines, line)
		}
	}
	for i, line := range lines {
		if n := times[line]; n > 1 {
			lines[i] += fmt.Sprintf(" (%d times)", n)
		}
	}
	if n := len(lines) - maxListed; n > 0 {
		lines = append(lines[:maxListed], fmt.Sprintf("and %d more", n))
	}
	return strings.Join(lines, "\n")
}

// Effects says which calls of a script that failed took effect.
func Effects(calls []Made) string {
	done := slices.DeleteFunc(slices.Clone(calls), func(made Made) bool { return !made.OK || made.Reads })
	open := slices.DeleteFunc(slices.Clone(calls), func(made Made) bool { return !made.Open || made.Reads })
	text := "No call succeeded that may change something." // one that failed, such as a stored script, may have done a part
	if len(calls) == 0 {
		text = "No call took effect."
	} else if len(done) > 0 {
		text = "These calls took effect:\n" + list(done)
	}
	if len(open) > 0 {
		text += "\nThese were under way at the end, and it is not known whether they took effect:\n" + list(open)
	}
	return text
}
