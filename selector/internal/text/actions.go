package text

import (
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

// maxActions bounds the parts that [Actions] returns.
const maxActions = 10

// actionEnds match the text between two actions.
var actionEnds = lazy.Regexp(`[.!?;]\s+|\n+|[。！？；]|,?\s+(?:and\s+)?then\s+|,\s+(?:and\s+)?|\s+and\s+`)

// Actions splits a task into the actions that are to be done one after the other. Each
// begins with a word for an action; a part that does not belongs to the one before it.
func Actions(text string) (all []string) {
	text = text[:min(len(text), MaxTask)]
	cuts := actionEnds().FindAllStringIndex(text, -1)
	begin, stems := 0, make(index.Stemmer)
	for _, cut := range append(cuts, []int{len(text), len(text)}) {
		end := cut[0]
		words := content(english(text[begin:end]), stems)
		isAction := len(words) > 1 && beginners()[words[0]]
		switch {
		case len(all) > 0 && !isAction:
			all[len(all)-1] += " " + text[begin:end]
		case len(words) > 0 && len(all) < maxActions:
			all = append(all, text[begin:end])
		}
		begin = cut[1]
	}
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}
