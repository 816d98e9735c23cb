//go:build linux

package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

const (
	rate     = 300 // calls a second of the load
	underWay = 400 // calls at most: with those of the other gateway, fewer than may wait for a server
)

// A load makes calls over a gateway at a steady rate, whether or not earlier ones were answered, unless too many are under way.
type load struct {
	name    string // begins the ids of its calls
	client  *mcptest.HTTPClient
	servers []string      // exposed names
	rate    int           // calls a second
	waits   time.Duration // for an answer; 0 is two minutes

	mu       sync.Mutex // guards the fields below
	outcomes []outcome
}

// run makes calls until ctx ends, and waits for all answers.
func (l *load) run(ctx context.Context) {
	const tick = 10 * time.Millisecond
	var calls errgroup.Group
	calls.SetLimit(underWay)
	defer calls.Wait()
	began, made := time.Now(), 0
	for ticks := time.NewTicker(tick); ; {
		select {
		case <-ctx.Done():
			ticks.Stop()
			return
		case <-ticks.C:
		}
		for due := int(time.Since(began).Seconds() * float64(l.rate)); made < due; made++ {
			server, tool, ms := l.pick()
			id := fmt.Sprintf("%s-%d", l.name, made)
			calls.TryGo(func() error {
				l.record(l.call(id, server, tool, ms))
				return nil
			})
		}
	}
}

// pick chooses a call: half are reads, a quarter each are puts and charges.
func (l *load) pick() (server, tool string, ms int) {
	server, tool = l.servers[rand.IntN(len(l.servers))], read
	switch rand.IntN(4) {
	case 0:
		tool = put
	case 1:
		tool = charge
	}
	ms = rand.IntN(20)
	if rand.IntN(20) == 0 {
		ms = 300
	}
	return server, tool, ms
}

// call makes one call.
func (l *load) call(id, server, tool string, ms int) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(l.waits, 2*time.Minute))
	defer cancel()
	o := outcome{id: id, server: server, tool: tool, began: time.Now()}
	raw, err := l.client.Call(ctx, server+"__"+tool, map[string]any{"id": id, "ms": ms})
	o.ended = time.Now()
	if err != nil {
		o.status, o.text = hungUp, err.Error()
		if errors.Is(err, context.DeadlineExceeded) {
			o.status = unanswered
		} else if _, answered := errors.AsType[*mcptest.Error](err); answered {
			o.status = failed
		}
		return o
	}
	var r result
	if err := json.Unmarshal(raw, &r); err != nil {
		o.status, o.text = failed, fmt.Sprintf("the result is %q", raw)
		return o
	}
	o.status, o.text = succeeded, r.text()
	o.node, o.path, o.verified = r.Meta.NodeID, r.Meta.ExecutionPath, r.Meta.Verified
	if r.IsError {
		o.status = failed
	}
	return o
}

func (l *load) record(o outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outcomes = append(l.outcomes, o)
}

// reportBroken fails the test with the first broken promises.
func reportBroken(t testing.TB, broken []string) {
	t.Helper()
	for _, text := range broken[:min(len(broken), 20)] {
		t.Error(text)
	}
}
