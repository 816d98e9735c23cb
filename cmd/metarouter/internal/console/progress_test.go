package console

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Work is shown after a second, and then every five.
func TestProgress(t *testing.T) {
	for took, want := range map[time.Duration]int{time.Second - 1: 0, 2 * time.Second: 1, 7 * time.Second: 2, 60 * time.Second: 12} {
		synctest.Test(t, func(t *testing.T) {
			shown := 0
			each(func() { time.Sleep(took) }, func(time.Time) { shown++ })
			expect.Equal(t, shown, want, "%s", took)
		})
	}
}
