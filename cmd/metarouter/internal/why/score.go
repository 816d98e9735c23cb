package why

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/selector"
)

// PrintScore prints the parts of a score, in lines without tabs, which do not
// change the columns of the table.
func PrintScore(w io.Writer, e *selector.Explanation) {
	for _, f := range e.Features {
		if f.Share != 0 {
			fmt.Fprintf(w, "  %3.0f%%  %s (%.2f × %.1f)\n", 100*f.Share, f.Name, f.Value, f.Weight)
		}
	}
	for _, word := range e.Words {
		as := ""
		if len(word.As) > 0 {
			as = " as " + strings.Join(word.As, ", ")
		}
		var fields []string
		for _, field := range slices.Sorted(maps.Keys(word.Fields)) {
			fields = append(fields, fmt.Sprintf("%s %.0f%%", field, 100*word.Fields[field]))
		}
		fmt.Fprintf(w, "        %s%s: %.0f%% of the words, in %s\n", word.Word, as, 100*word.Share, strings.Join(fields, ", "))
	}
	if len(e.Missing) > 0 {
		fmt.Fprintf(w, "        missing: %s\n", strings.Join(e.Missing, ", "))
	}
}
