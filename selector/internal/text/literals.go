package text

import "github.com/mcp-metarouter/metarouter/internal/index"

// A Literal is a value in a task, such as a path, that a tool is to get as an argument. It
// is no word of the task.
type Literal struct {
	Type      index.Type
	Text      string // as it stands in the task
	Extension string // of a path, without the dot; "" if it has none
}
