package caller

import (
	"strings"
	"testing"
)

// Reasons of other nodes are shown in terminals.
func TestShown(t *testing.T) {
	for text, want := range map[string]string{
		"": "it gave no reason", "größer": "größer", "a\nb": "a b", "\x1b[2J": " [2J", "\u009b2J": " 2J", "\u202e1": " 1", "a\xff": "a",
		strings.Repeat("x", maxReason+1): strings.Repeat("x", maxReason),
	} {
		if got := shown(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
