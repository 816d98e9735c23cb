package transport

import (
	"context"
	"fmt"
	"html"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

const (
	// maxRetryAfter is the longest Retry-After that a request waits for.
	maxRetryAfter = 5 * time.Second
	// maxResent is how often a request is sent again after such waits.
	maxResent = 3
)

// patient sends the request that build returns, as do does. A server that limits its rate (429) has
// refused the request before it ran: if it names a short wait, the request waits, and is sent again.
// Of a server that is busy (503) this is not known, so only a repeatable request is.
func (s *Site) patient(ctx context.Context, repeatable bool, build func() (*http.Request, error)) (*http.Response, error) {
	for resent := 0; ; resent++ {
		resp, err := s.do(ctx, build)
		if err != nil {
			return nil, err
		}
		wait, ok := retryAfter(resp)
		limited := resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable && repeatable
		if !ok || !limited || wait > maxRetryAfter || resent == maxResent {
			return resp, nil
		}
		discardBody(resp)
		if signal.Within(ctx.Done(), wait) {
			return nil, context.Cause(ctx)
		}
	}
}

// retryAfter returns how long a server that is busy asks to wait: in seconds, or until a date.
func retryAfter(resp *http.Response) (wait time.Duration, ok bool) {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	value := strings.TrimSpace(resp.Header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(value)
	return max(0, time.Until(at)), err == nil
}

// retryAdvice says how long to wait before the next attempt, "" if the server does not say it.
func retryAdvice(resp *http.Response) string {
	wait, ok := retryAfter(resp)
	if !ok {
		return ""
	}
	return fmt.Sprintf("try again in %.0f seconds", math.Ceil(wait.Seconds()))
}

var (
	htmlPage = lazy.Regexp(`(?i)^\s*<(!doctype html|html)`)
	title    = lazy.Regexp(`(?is)<title[^>]*>(.*?)</title`)
)

// titleOf returns the title of an HTML page, and all of any other text.
func titleOf(text string) string {
	if !htmlPage().MatchString(text) {
		return text
	}
	if m := title().FindStringSubmatch(text); m != nil {
		return html.UnescapeString(m[1])
	}
	return "an HTML page without a title"
}
