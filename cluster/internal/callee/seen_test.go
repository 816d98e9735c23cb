package callee

import (
	"strconv"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
)

// An ID is remembered until its frame is too old by the clock, and stays known when the clock is
// set back.
func TestSeen(t *testing.T) {
	start := time.UnixMilli(1_700_000_000_000)
	from, other := frame.Address{Key: "k", Instance: "i"}, frame.Address{Key: "k", Instance: "j"}
	for _, tt := range []struct {
		name string
		sent time.Duration // the time in the frame, from start
		then time.Duration // when it comes again
		want novelty
	}{
		{"at once", 0, 0, isKnown},
		{"a minute later", 0, maxSkew, isKnown},
		{"from a clock ahead", maxSkew, 2*maxSkew - time.Second, isKnown},
		{"forgotten, and too old", 0, 5 * time.Minute, isKnown},
		{"the clock was set back", 0, -time.Hour, isKnown},
	} {
		var s seen
		sent := start.Add(tt.sent).UnixMilli()
		if got := s.add(from, "1", sent, start); got != isNew {
			t.Errorf("%s: at first it is %d", tt.name, got)
		}
		if got := s.add(other, "1", sent, start); got != isNew {
			t.Errorf("%s: that of another router is %d", tt.name, got)
		}
		s.add(from, "2", start.Add(tt.then).UnixMilli(), start.Add(tt.then))
		if got := s.add(from, "1", sent, start.Add(tt.then)); got != tt.want {
			t.Errorf("%s: it is %d, want %d", tt.name, got, tt.want)
		}
		s.add(from, "3", start.Add(5*time.Minute).UnixMilli(), start.Add(10*time.Minute))
		if got := s.add(from, "1", sent, start); got != isKnown {
			t.Errorf("%s: after the clock was set back, it is %d", tt.name, got)
		}
	}
}

// The IDs of a node are bounded; there is room again when they are forgotten.
func TestSeenBounds(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	a, b := frame.Address{Key: "a", Instance: "i"}, frame.Address{Key: "b", Instance: "i"}
	var s seen
	for i := range maxSeenOf {
		if got := s.add(a, strconv.Itoa(i), now.UnixMilli(), now); got != isNew {
			t.Fatalf("ID %d is %d", i, got)
		}
	}
	if got := s.add(a, "more", now.UnixMilli(), now); got != isFull {
		t.Errorf("one more is %d", got)
	}
	if got := s.add(b, "more", now.UnixMilli(), now); got != isNew {
		t.Errorf("one of another node is %d", got)
	}
	now = now.Add(maxSkew + 2*seenStep)
	if got := s.add(a, "more", now.UnixMilli(), now); got != isNew || s.total != 1 {
		t.Errorf("later, one is %d, and %d are remembered", got, s.total)
	}
}

func BenchmarkSeen(b *testing.B) {
	now := time.Now()
	from := frame.Address{Key: "k", Instance: "i"}
	var s seen
	for i := 0; b.Loop(); i++ {
		s.add(from, strconv.Itoa(i), now.UnixMilli(), now)
	}
}
