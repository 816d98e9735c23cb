package peer

import (
	"cmp"
	"fmt"
	"sync"
	"time"
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

	mu      sync.Mutex // guards the fields below
	asked   budget
	refused int64
	rule    string
}

// NewLimits returns the limits of a server that may ask its clients perMinute questions
// a minute, 0 being 60.
func NewLimits(perMinute func() int) *Limits { return &Limits{perMinute: perMinute} }

// take counts a question. Its error names the rule that forbids the question.
func (l *Limits) take() error {
	n := cmp.Or(l.perMinute(), defaultQuestions)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.asked.take(time.Now(), n) {
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

// A budget allows a number of events a minute, so many at once at most. The zero value
// has not been used.
type budget struct {
	spent float64 // falls by the allowed number each minute
	at    time.Time
}

// take reports whether another event is allowed, and counts it then.
func (b *budget) take(now time.Time, perMinute int) bool {
	n := float64(perMinute)
	b.spent = max(0, b.spent-now.Sub(b.at).Minutes()*n)
	b.at = now
	if b.spent+1 > n {
		return false
	}
	b.spent++
	return true
}
