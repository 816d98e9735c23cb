//go:build linux

package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// lastsVariable says how long all cases take together; by default each takes about a second.
const lastsVariable = "METAROUTER_HOSTILE"

// lasts returns how long each of the cases of a test attacks, where all tests have this many.
func lasts(t *testing.T, short time.Duration) time.Duration {
	asked := os.Getenv(lastsVariable)
	if asked == "" {
		return short
	}
	all, err := time.ParseDuration(asked)
	expect.OK(t, err)
	const cases = 110 // about
	return max(short, all*time.Duration(lanes())/cases)
}

// deadline is how long an honest call may take, however busy the machine is.
const deadline = 2 * time.Minute

// An honest client makes calls until its context ends.
type honest struct {
	t     *testing.T
	call  func(ctx context.Context, tool string, arguments any) (json.RawMessage, error)
	pause time.Duration
}

// honestLoad is the load of an honest client over HTTP.
func (r *router) honestLoad() *honest {
	c := r.client(`{}`)
	return &honest{t: r.t, call: c.Call, pause: 10 * time.Millisecond}
}

// work makes calls with some workers until ctx ends, and waits for the last answers.
func (h *honest) work(ctx context.Context) {
	const workers = 2
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := 0; ctx.Err() == nil && !h.t.Failed(); i++ {
				h.one(fmt.Sprintf("%d of worker %d é", i, w))
				select {
				case <-time.After(h.pause):
				case <-ctx.Done():
				}
			}
		})
	}
	all.Wait()
}

// begin waits until the server has started, which a busy machine delays.
func (h *honest) begin() {
	mcptest.WaitFor(h.t, "the honest server's first answer", func() bool { return h.fault("before the attack") == "" })
}

// one makes a call and checks its answer.
func (h *honest) one(message string) {
	if fault := h.fault(message); fault != "" {
		h.t.Error(fault)
	}
}

// fault makes a call, and says what is wrong with its answer; "" for nothing.
func (h *honest) fault(message string) string {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	arguments := fmt.Sprintf(`{"message":%q}`, message)
	result, err := h.call(ctx, "honest__echo", json.RawMessage(arguments))
	if text, isError := textOf(result); err == nil && !isError && text == arguments {
		return ""
	}
	return fmt.Sprintf("an honest call: %.500s, %v, want %s", result, err, arguments)
}

// textOf returns the text of a CallToolResult.
func textOf(result json.RawMessage) (text string, isError bool) {
	var r struct {
		Content []struct{ Text string }
		IsError bool
	}
	if json.Unmarshal(result, &r) != nil || len(r.Content) == 0 {
		return "", true
	}
	return r.Content[0].Text, r.IsError
}
