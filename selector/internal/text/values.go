package text

import (
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

// maxValues bounds the values of a task.
const maxValues = 64

// value matches a text in quotation marks, or one without spaces.
var value = lazy.Regexp("\"[^\"\n]+\"|`[^`\n]+`|“[^”\n]+”|\\S+")

// Values returns the paths, URLs and hosts in a task, and what looks like one of them.
func Values(task string) (all []string) {
	for _, v := range value().FindAllString(task[:min(len(task), MaxTask)], -1) {
		v = strings.TrimRight(strings.Trim(v, "\"'`“”()[]<>,;!?"), ".:")
		if strings.ContainsAny(v, `/\.`) && len(all) < maxValues {
			all = append(all, v)
		}
	}
	return all
}
