package prose

import (
	"fmt"
	"strings"
	"testing"
)

// A very long word is compared with many others in a moment.
func TestLongWord(t *testing.T) {
	words := make([]string, 5000)
	for i := range words {
		words[i] = fmt.Sprint("program", i)
	}
	long := strings.Repeat("X", 4<<20)
	if n := testing.AllocsPerRun(1, func() { Nearest(long, words) }); n > 10 {
		t.Errorf("a word of 4 MiB was copied: %v allocations", n)
	}
}
