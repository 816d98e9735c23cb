package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/selector"
)

// printScore prints the parts of a score, in lines of so many columns; 0 for no limit.
func printScore(w io.Writer, e *selector.Explanation, columns int) {
	for _, f := range e.Features {
		if f.Share != 0 {
			fmt.Fprintf(w, "  %3.0f%%  %s (%.2f × %.1f)\n", 100*f.Share, f.Name, f.Value, f.Weight)
		}
	}
	for _, word := range e.Words {
		var fields []string
		for _, field := range slices.Sorted(maps.Keys(word.Fields)) {
			fields = append(fields, fmt.Sprintf("%s %.0f%%", field, 100*word.Fields[field]))
		}
		line := fmt.Sprintf("%s: %.0f%% of the words, in %s", word.Word, 100*word.Share, strings.Join(fields, ", "))
		fmt.Fprint(w, console.Lines(console.Hang("        ", line, columns)))
	}
	if len(e.Missing) > 0 {
		fmt.Fprint(w, console.Lines(console.Hang("        ", "missing: "+strings.Join(e.Missing, ", "), columns)))
	}
}
