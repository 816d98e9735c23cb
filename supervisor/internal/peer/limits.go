package peer

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcp-metarouter/metarouter/internal/signal"
)

const (
	// defaultQuestions is how many questions a server may ask a minute if its entry
	// does not say.
	defaultQuestions = 60

	// maxRoots is how often a minute a server gets the client's roots in one session, calls
	// aside; further requests wait.
	maxRoots = 60

	// maxDelay is how long a question over the limit waits at most. It is refused if it had
	// to wait longer.
	maxDelay = 10 * time.Second
)

// Limits bound the questions of a server over all its sessions.
type Limits struct {
	perMinute func() int // questions; 0 is defaultQuestions

	asked *rate.Limiter

	mu    sync.Mutex // guards the fields below
	noted int64
	rule  string
}

// NewLimits returns the limits of a server that may ask its clients perMinute questions
// a minute, 0 being 60.
func NewLimits(perMinute func() int) *Limits {
	return &Limits{perMinute: perMinute, asked: perMinuteLimiter(cmp.Or(perMinute(), defaultQuestions))}
}

// perMinuteLimiter returns a limiter of so many events a minute, and at once at most.
func perMinuteLimiter(n int) *rate.Limiter { return rate.NewLimiter(rate.Limit(n)/60, n) }

// take counts a question, and waits until it may be asked, or ctx ends. Its error names the rule that
// forbids the question.
func (l *Limits) take(ctx context.Context) error {
	n := cmp.Or(l.perMinute(), defaultQuestions)
	if l.asked.Burst() != n {
		l.asked.SetLimit(rate.Limit(n) / 60)
		l.asked.SetBurst(n)
	}
	return l.wait(ctx, l.asked, fmt.Errorf("a server may ask its clients %d questions a minute, which \"questionsPerMinute\" in its entry can change", n))
}

// wait waits until a question may be asked, or ctx ends. Its error is the rule, if the question had to wait too long.
func (l *Limits) wait(ctx context.Context, by *rate.Limiter, rule error) error {
	place := by.Reserve()
	switch delay := place.Delay(); {
	case delay > maxDelay:
		place.Cancel()
		return rule
	case delay > 0:
		l.note(rule)
		signal.Within(ctx.Done(), delay)
	}
	return nil
}

// note counts a question that a rule forbids or delays.
func (l *Limits) note(rule error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noted++
	l.rule = rule.Error()
}

// Refused returns how many questions were refused or delayed so far, and the rule for the last of
// them.
func (l *Limits) Refused() (n int64, rule string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.noted, l.rule
}
