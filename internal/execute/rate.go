package execute

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/rate"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/registry"
)

// maxRated bounds the tools with counted calls. If there are more, the counts begin again.
const maxRated = 10_000

// rates count the calls of tools with a limited rate, for each principal. The zero value is
// ready.
type rates struct {
	mu     sync.Mutex // guards byTool
	byTool map[string]*rate.Limiter
}

// A rateError is a call that came too soon.
type rateError struct {
	tool  string
	rate  rate.Limit
	again time.Duration
}

func (e *rateError) Error() string {
	return fmt.Sprintf(`%s was not called: its calls are limited to %s for each principal, at most %d at once ("tools", "rate" of its entry); try again in %d s`,
		e.tool, e.rate, e.rate.Burst, int(math.Ceil(e.again.Seconds())))
}

// Is makes it an error of a call that was not sent.
func (*rateError) Is(target error) bool { return target == session.ErrNotSent }

// IsTooSoon reports whether err is from a call that came too soon for the rate of its tool.
func IsTooSoon(err error) bool { return errors.As(err, new(*rateError)) }

// take counts a call of the tool. Its error is a [*rateError] if the call comes too soon.
func (r *rates) take(t *registry.NormalizedTool, p *Policy, principal string) error {
	limit, pattern := forTool(p.Rates, t.ServerName())
	if pattern == "" || limit.PerSecond <= 0 {
		return nil
	}
	if wait := r.of(t.ID, limit).Take(principal, 1, 1); wait > 0 {
		return &rateError{t.ID, limit, wait}
	}
	return nil
}

// of returns the limiter of a tool. One that was in before goes on if the rate is the same.
func (r *rates) of(tool string, limit rate.Limit) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.byTool[tool]
	if l != nil && l.Limit == limit {
		return l
	}
	if r.byTool == nil || len(r.byTool) >= maxRated {
		r.byTool = make(map[string]*rate.Limiter)
	}
	l = rate.New(limit.PerSecond, limit.Burst)
	r.byTool[tool] = l
	return l
}
