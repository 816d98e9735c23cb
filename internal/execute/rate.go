package execute

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/rate"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/registry"
)

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

// takeRate counts a call of the tool. Its error is a [*rateError] if the call comes too soon. After an edit of the rate, the count begins again.
func takeRate(calls *rate.Limiter, t *registry.NormalizedTool, p *Policy, principal string) error {
	limit, pattern := forTool(p.Rates, t.ServerName())
	if pattern == "" || limit.PerSecond <= 0 {
		return nil
	}
	if wait := calls.TakeOf(limit, fmt.Sprintf("%v %d %q %s", limit.PerSecond, limit.Burst, t.ID, principal), 1, 1); wait > 0 {
		return &rateError{t.ID, limit, wait}
	}
	return nil
}
