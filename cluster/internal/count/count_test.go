package count

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/session"
)

func TestOutcomeOf(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want Outcome
	}{
		{nil, OK},
		{&session.Error{Code: -32602}, Error},
		{fmt.Errorf("offer: %w", session.ErrNotSent), NotSent},
		{fmt.Errorf("offer: %w: %w", session.ErrNotSent, context.DeadlineExceeded), NotSent},
		{fmt.Errorf("node gone: %w", session.ErrClosed), Unknown},
		{context.Canceled, Cancelled},
		{context.DeadlineExceeded, Cancelled},
		{errors.New("else"), Error},
	} {
		if got := OutcomeOf(tt.err); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.err, got, tt.want)
		}
	}
}

// Many goroutines count at once, and nothing gets lost.
func TestCounts(t *testing.T) {
	var c Counts
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				c.To("a", OK)
				c.From("a", Unknown)
				c.Dropped(Clock)
			}
		})
	}
	all.Wait()
	to, from, dropped := c.Now()
	if !maps.Equal(to["a"], Calls{OK: 800}) || !maps.Equal(from["a"], Calls{Unknown: 800}) || !maps.Equal(dropped, map[Reason]uint64{Clock: 800}) {
		t.Errorf("to %v, from %v, dropped %v", to, from, dropped)
	}
	to["a"][OK] = 0 // a copy
	if to, _, _ := c.Now(); to["a"][OK] != 800 {
		t.Errorf("what Now returned is shared: %v", to)
	}
	(*Counts)(nil).To("a", OK)
	(*Counts)(nil).Dropped(Clock)
	(*Counts)(nil).Now()
}

// However many nodes call, the names stay few.
func TestManyNodes(t *testing.T) {
	var c Counts
	for i := range 10 * maxNodes {
		c.From(fmt.Sprint(i), OK)
	}
	_, from, _ := c.Now()
	if len(from) != maxNodes+1 || from[Others][OK] != 9*maxNodes || from["0"][OK] != 1 {
		t.Errorf("%d nodes, %d calls of others", len(from), from[Others][OK])
	}
}
