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
	day         = int64(24 * time.Hour / time.Millisecond)
)

// A mark is what one client says of a tool for a query. It also is what stands
// in the file.
type mark struct {
	Who  uint32  `json:"who"`            // the hash of the client
	At   int64   `json:"at"`             // its last call, in Unix milliseconds
	Base float32 `json:"base,omitempty"` // its votes of the days before, as they stood that day
	Vote int8    `json:"vote,omitempty"` // its vote of that day, from -2 to 1
}

// called returns the mark after a call. The vote of a day is 1 after a success,
// and a failure lowers it by one: what fails takes back what the client gave,
// and a success after failures makes them good.
func (m mark) called(at int64, failed bool) mark {
	at = max(at, m.At)
	if at/day != m.At/day {
		m.Base, m.Vote = float32(m.votes(at)), 0
	}
	m.At = at
	if failed {
		m.Vote = max(m.Vote-1, -mostFor)
	} else {
		m.Vote = 1
	}
	return m
}

// votes returns what the mark counts at a time: from -1 to 2 at first, half of
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
	m.Vote = min(max(m.Vote, -mostFor), 1)
	return m
}

// spent reports whether nothing changes if the mark is forgotten.
func (m mark) spent(at int64) bool { return m.votes(at) == 0 && at/day != m.At/day }

// strength returns the votes of all clients.
func strength(marks []mark, at int64) float64 {
	var sum float64
	for _, m := range marks {
		sum += m.votes(at)
	}
	return sum
}

// evidence returns what the marks say for the same query, from -0.3 to 1.
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
func recorded(marks []mark, who uint32, at int64, failed bool) []mark {
	is := func(m mark) bool { return m.Who == who }
	marks = slices.Clone(marks)
	if i := slices.IndexFunc(marks, is); i >= 0 {
		marks[i] = marks[i].called(at, failed)
		return marks
	}
	marks = strongest(marks, maxClients-1, at)
	return merged(append(marks, mark{Who: who}.called(at, failed)), nil, at)
}

// merged returns the marks of both, by client. What a client said last counts.
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
