package telemetry

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metarouter/metarouter/selector"
)

func TestLedger(t *testing.T) {
	var l Ledger
	if got := l.Entries(); got == nil || len(got) != 0 {
		t.Errorf("at first: %v", got)
	}
	for range 2 {
		l.Executed(selector.Execution{Tool: tool("a", "t"), Client: "c", Profile: "work", Result: make([]byte, 43)})
	}
	l.Executed(selector.Execution{Tool: tool("a", "t"), Answered: tool("b", "t"), Client: "c", Profile: "work", Result: make([]byte, 8)})
	l.Executed(selector.Execution{Client: "c", Result: make([]byte, 4)})
	l.Listed("c", "ci", "work", 7)
	l.Listed("c", "ci", "work", 5)
	want := []Entry{
		{"", "c", "", 1, 1, 0}, {"", "c", "work", 0, 0, 12}, {"a", "c", "work", 2, 20, 0}, {"b", "c", "work", 1, 2, 0},
	}
	if got := l.Entries(); !slices.Equal(got, want) {
		t.Errorf("got %+v", got)
	}
}

// However clients name themselves, the entries are bounded and no call is lost.
func TestLedgerIsBounded(t *testing.T) {
	var l Ledger
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range maxEntries {
				l.Executed(selector.Execution{Tool: tool("s", "t"), Client: fmt.Sprint(i, "\xff", j)})
				l.Executed(selector.Execution{Tool: tool("s", "t"), Client: strings.Repeat("long", 1000) + fmt.Sprint(i, j)})
			}
		})
	}
	all.Wait()
	entries, calls := l.Entries(), int64(0)
	for _, e := range entries {
		calls += e.Calls
		if len(e.Client) > 3*maxValue {
			t.Fatalf("a name of %d bytes", len(e.Client))
		}
	}
	if calls != 8*maxEntries || len(entries) > maxEntries+1 {
		t.Errorf("%d calls in %d entries", calls, len(entries))
	}
}
