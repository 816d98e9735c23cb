// Package usage remembers which tool was called after which query and turns it
// into evidence for ranking: a tool that was used for this query, or for one
// like it, is likely the tool that is looked for.
//
// All of it stays on this machine, in one file of its owner's. It holds the
// stems of queries and their first 200 bytes without secrets, the names of tools
// and short hashes of clients, never an argument or a result.
//
// Evidence is made of votes. A client has one vote a day on a tool for a query: for the
// tool if the call succeeded, less for each call that failed. The vote counts double if the
// search was not sure of the tool, or did not list it, since then the client knew better. A
// client counts at most two votes for a tool and one against it, so that one client cannot
// push a tool up or down by calling it often; that takes several clients. Votes halve every
// 30 days without use, until they are forgotten.
//
// The memory is bounded: 2,000 tools, ten queries a tool, eight clients
// for each of these, 64 words a query of 64 bytes, and 4 MB in memory and on
// disk. The strongest is kept.
package usage

import (
	"os"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"
)

const (
	maxTools    = 2000
	maxQueries  = 10  // a tool
	maxClients  = 8   // a tool and query
	maxWords    = 64  // a query
	maxWordLen  = 64  // bytes
	maxToolLen  = 256 // bytes
	maxBytes    = 4 << 20
	alikeEnough = 0.2 // a query that is less alike is not evidence

	// Evidence from queries that are only alike does not decide; see package rank.
	// "close an issue" is much like "open an issue".
	sameQuery = 0.9
	mostAlike = 0.44
)

// A Store holds the lessons learned under one configuration. All methods may be called
// at any time from any goroutine. On a nil Store, which is learning turned off, they do
// nothing.
//
// Other processes write the file too, so each write first merges their additions into the
// memory.
type Store struct {
	config string
	path   string // "" keeps nothing on disk
	open   func(path string) (*os.File, error)
	log    *zap.Logger
	wake   chan struct{} // something is to be saved

	file  sync.Mutex // guards the file and known; is taken before mu
	known [32]byte   // the sum of the bytes last read or written

	mu      sync.RWMutex // guards the rest; never held while the disk is used
	memory  *memory
	learned bool // something was recorded
}

// A Use is one call of a tool after a search.
type Use struct {
	Client string    // who called: the key of a session or principal; only a hash of it is kept
	Task   string    // the query as it was typed
	Words  []string  // the words of the query, stemmed; a use without any is not recorded
	Tool   string    // "server:tool"
	Failed bool      // the call failed
	At     time.Time // when; zero is now

	Unsure   bool // the search was not sure of any tool, or listed the tool only as one of the nearest
	Unlisted bool // the search did not list the tool
	First    bool // nothing else explains the call: it is the first after a search that was not sure

	// Guess says that the tool seems not to belong to the query: such a use counts nothing
	// until the client calls the tool after the query once more.
	Guess bool

	// Withdrawn takes back the votes of the client's calls for the tool today: a later call has
	// shown which tool the query was for.
	Withdrawn bool
}

// Record learns from a call.
func (s *Store) Record(u Use) {
	if s == nil {
		return
	}
	words := bounded(u.Words)
	if len(words) == 0 || !validTool(u.Tool) {
		return
	}
	if u.At.IsZero() {
		u.At = time.Now()
	}
	who, at, typed := s.hash(u.Client), u.At.UnixMilli(), shown(u.Task)

	s.mu.Lock()
	used := s.memory.use(u.Tool, words)
	used.marks = recorded(used.marks, who, at, u)
	s.memory.setTyped(used.query, typed)
	if !u.Withdrawn {
		used.tool.calls++
	}
	if u.Failed {
		used.tool.failures++
	}
	if len(used.tool.uses) > maxQueries {
		s.memory.drop(used.tool.weakest(at, used))
	}
	s.memory.shrink(at)
	s.learned = true
	s.mu.Unlock()

	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Match returns the evidence for each tool that was used after a query like
// this one. It is at most 1, for a tool that several clients have used with
// success after the same query; one client alone gives at most 0.6. It is
// negative, down to -0.3, for a tool that mostly failed. Two queries are alike
// by the cosine of their words, rare words counting more (idf over the past
// queries), whatever their order. The words are stemmed as in a Use.
func (s *Store) Match(words []string, now time.Time) map[string]float64 {
	if s == nil {
		return nil
	}
	words = bounded(words)
	at := now.UnixMilli()
	found := make(map[string]float64)
	against := make(map[string]float64)

	s.mu.RLock()
	s.memory.alike(words, func(q *query, similarity float64) {
		for _, u := range q.uses {
			name, e := u.tool.name, similarity*evidence(u.marks, at)
			if similarity < sameQuery {
				e = min(e, mostAlike)
			}
			switch {
			case e > 0:
				found[name] = max(found[name], e)
			case e < 0:
				against[name] = min(against[name], e)
			}
		}
	})
	s.mu.RUnlock()

	for name, e := range against {
		found[name] += e
	}
	return found
}

// bounded returns the words, each once, without texts that are no words, up to the bounds.
func bounded(words []string) []string {
	kept := make([]string, 0, min(len(words), maxWords))
	for _, w := range words {
		if len(kept) == maxWords {
			break
		}
		if w != "" && len(w) <= maxWordLen && utf8.ValidString(w) && !slices.Contains(kept, w) {
			kept = append(kept, w)
		}
	}
	return kept
}

func validTool(name string) bool {
	return name != "" && len(name) <= maxToolLen && utf8.ValidString(name)
}

// cost is the size of a word of a query in the file, as long as nothing in it has
// to be escaped.
func cost(word string) int { return len(word) + len(`"",`) }
