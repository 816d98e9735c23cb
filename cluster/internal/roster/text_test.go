package roster

import (
	"strings"
	"testing"
)

// Names and versions of nodes are shown in terminals.
func TestIsText(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "1.2.3": true, "1.2 (größer)": true, "a\nb": false, "\x1b[2J": false, "\u009b2J": false, "\u202e1": false, "\xff": false,
		strings.Repeat("x", maxText+1): false,
	} {
		if got := isText(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
