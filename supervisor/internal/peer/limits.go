package peer

import (
	"cmp"
	"fmt"
	"sync"

	"golang.org/x/time/rate"
)

const (
	// defaultQuestions is how many questions a server may ask a minute if its entry
	// does not say.
	defaultQuestions = 60

	// maxRoutine bounds the requests of a server a minute at any time in one session:
	// pings, and separately the client's roots.
	maxRoutine = 10
)

// Limits bound the questions of a server over all its sessions.
type Limits struct {
	perMinute func() int // questions; 0 is defaultQuestions

	asked *rate.Limiter

	mu      sync.Mutex // guards the fields below
	refused int64
	rule    string
}

// NewLimits returns the limits of a server that may ask its clients perMinute questions
// a minute, 0 being 60.
func NewLimits(perMinute func() int) *Limits {
	return &Limits{perMinute: perMinute, asked: perMinuteLimiter(cmp.Or(perMinute(), defaultQuestions))}
}

// perMinuteLimiter returns a limiter of so many events a minute, and at once at most.
func perMinuteLimiter(n int) *rate.Limiter { return rate.NewLimiter(rate.Limit(n)/60, n) }

// take counts a question. Its error names the rule that forbids the question.
func (l *Limits) take() error {
	n := cmp.Or(l.perMinute(), defaultQuestions)
	if l.asked.Burst() != n {
		l.asked.SetLimit(rate.Limit(n) / 60)
		l.asked.SetBurst(n)
	}
	if !l.asked.Allow() {
		return fmt.Errorf("a server may ask its clients %d questions a minute, which \"questionsPerMinute\" in its entry can change", n)
	}
	return nil
}

// refuse counts a question that a rule forbids.
func (l *Limits) refuse(rule error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused++
	l.rule = rule.Error()
}

// Refused returns how many questions were refused so far, and the rule that the last of
// them broke.
func (l *Limits) Refused() (n int64, rule string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused, l.rule
}
