package usage

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const (
	voteWorth   = 0.3  // evidence
	mostFor     = 2    // votes of a client
	mostAgainst = -1   // votes of a client, and of all of them together
	spentVote   = 0.05 // less is nothing
	halfLife    = 30 * day
	guessLife   = 7 * day // in which a second call has to confirm a guess
	day         = int64(24 * time.Hour / time.Millisecond)
)

// A mark is one client's opinion of a tool for a query. It also is the record
// in the file.
type mark struct {
	Who  uint32  `json:"who"`            // the hash of the client
	At   int64   `json:"at"`             // its last call, in Unix milliseconds
	Base float32 `json:"base,omitempty"` // its votes of the days before, as they stood that day
	Vote int8    `json:"vote,omitempty"` // its vote of that day, from -2 to 2

	// Guess says that the client once called the tool after a search to which the tool seems
	// not to belong. This counts nothing until such a call comes again.
	Guess bool `json:"guess,omitempty"`
}

// called returns the mark after a call. The vote of a day is from its strongest success,
// 1 or 2. A failure takes back the client's vote of that day, and each further one lowers the
// vote by one; a success after failures makes them good.
func (m mark) called(at int64, u Use) mark {
	at = max(at, m.At)
	if at/day != m.At/day {
		m.Base, m.Vote = float32(m.votes(at)), 0
	}
	m.At = at
	switch {
	case u.Failed && m.Vote > 0:
		m.Vote = 0
	case u.Failed:
		m.Vote = max(m.Vote-1, -mostFor)
	case u.Withdrawn:
		m.Vote, m.Guess = min(m.Vote, 0), false
		m.At++ // later than the call, for merged
	case u.Guess && !m.Guess:
		m.Guess = true
	case u.Unsure || u.Unlisted:
		m.Vote, m.Guess = 2, false
	default:
		m.Vote, m.Guess = max(m.Vote, 1), false
	}
	return m
}

// votes returns the weight of the mark at a time: from -1 to 2 at first, half of
// it 30 days later, and in the end nothing.
func (m mark) votes(at int64) float64 {
	v := m.sum() * math.Exp2(-float64(max(at-m.At, 0))/float64(halfLife))
	if math.Abs(v) < spentVote {
		return 0
	}
	return v
}

func (m mark) sum() float64 {
	return min(max(float64(m.Base)+float64(m.Vote), mostAgainst), mostFor)
}

// bounded returns the mark as it can be at a time.
func (m mark) bounded(at int64) mark {
	m.At = min(max(m.At, 0), at)
	m.Base = min(max(m.Base, mostAgainst), mostFor)
	m.Vote = min(max(m.Vote, -mostFor), mostFor)
	return m
}

// spent reports whether nothing changes if the mark is forgotten.
func (m mark) spent(at int64) bool {
	if m.Guess && at-m.At < guessLife {
		return false
	}
	return m.votes(at) == 0 && at/day != m.At/day
}

// strength returns the votes of all clients.
func strength(marks []mark, at int64) float64 {
	var sum float64
	for _, m := range marks {
		sum += m.votes(at)
	}
	return sum
}

// evidence returns the sum of the marks for the same query, from -0.3 to 1.
func evidence(marks []mark, at int64) float64 {
	return min(voteWorth*max(strength(marks, at), mostAgainst), 1)
}

// compare orders by how much marks say, be it for or against a tool, then by age.
func compare(a, b []mark, at int64) int {
	return cmp.Or(
		cmp.Compare(math.Abs(strength(a, at)), math.Abs(strength(b, at))),
		cmp.Compare(last(a), last(b)))
}

// last returns the time of the last call.
func last(marks []mark) int64 {
	var at int64
	for _, m := range marks {
		at = max(at, m.At)
	}
	return at
}

// recorded returns the marks after a call of a client. If there are too many, a
// new client takes the place of the one that says least.
func recorded(marks []mark, who uint32, at int64, u Use) []mark {
	is := func(m mark) bool { return m.Who == who }
	marks = slices.Clone(marks)
	if i := slices.IndexFunc(marks, is); i >= 0 {
		marks[i] = marks[i].called(at, u)
		return marks
	}
	marks = strongest(marks, maxClients-1, at)
	return merged(append(marks, mark{Who: who}.called(at, u)), nil, at)
}

// merged returns the marks of both, by client. A client's last mark counts.
func merged(a, b []mark, at int64) []mark {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(x, y mark) int {
		return cmp.Or(cmp.Compare(x.Who, y.Who), cmp.Compare(y.At, x.At), cmp.Compare(y.sum(), x.sum()))
	})
	all = slices.CompactFunc(all, func(x, y mark) bool { return x.Who == y.Who })
	return strongest(all, maxClients, at)
}

// strongest removes the marks that say least until there are n, in place.
func strongest(marks []mark, n int, at int64) []mark {
	for len(marks) > n {
		least := 0
		for i := range marks {
			if compare(marks[i:i+1], marks[least:least+1], at) < 0 {
				least = i
			}
		}
		marks = slices.Delete(marks, least, least+1)
	}
	return marks
}

// living returns the marks that still count and are later than a time.
func living(marks []mark, after, at int64) []mark {
	var kept []mark
	for _, m := range marks {
		if m.At > after && !m.spent(at) {
			kept = append(kept, m)
		}
	}
	return kept
}
