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
// What is remembered is bounded: 2,000 tools, ten queries a tool, eight clients
// for each of these, 64 words a query of 64 bytes, and 4 MB in memory and on
// disk. The strongest is kept.
package usage

import (
	"cmp"
	"math"
	"os"
	"slices"
	"strings"
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
	alikeEnough = 0.2 // what is less like the query is not evidence

	// Evidence from queries that are only alike is less than what decides; see package rank.
	// "close an issue" is much like "open an issue".
	sameQuery = 0.9
	mostAlike = 0.44
)

// A Store is what was learned under one configuration. All methods may be called
// at any time from any goroutine. On a nil Store, which is learning turned off, they do
// nothing.
//
// Memory and file are one type: other processes write the file too, so each write first
// merges what they have added into the memory.
type Store struct {
	config string
	path   string // "" keeps nothing on disk
	open   func(path string) (*os.File, error)
	log    *zap.Logger
	wake   chan struct{} // something is to be saved

	file  sync.Mutex // guards the file and known; is taken before mu
	known [32]byte   // the sum of what was last read or written

	mu      sync.RWMutex // guards the rest; never held while the disk is used
	tools   map[string]*tool
	queries map[string]*query // by key
	words   map[string]*word
	slots   []*query // by slot, nil where it is free
	free    []int32  // slots
	size    int      // bytes of the words of all queries
	learned bool     // something was recorded
	cleared int64    // uses until this time are forgotten, in Unix milliseconds
}

type tool struct {
	name            string
	calls, failures int
	uses            []*use
}

// A query is a set of words after which tools were used.
type query struct {
	key   string // its words, sorted
	slot  int32
	typed string   // as a client wrote it last, without secrets; "" if that is not known
	texts []string // its words as they came, never changed
	words []*word  // the same
	uses  []*use
}

// A word knows the queries that contain it.
type word struct {
	slots []int32
	log   float64 // of how many these are
}

// A use is that a tool was called after a query.
type use struct {
	tool  *tool
	query *query
	marks []mark // by client, replaced and never changed
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

	// Withdrawn takes back what the client's calls gave the tool today: a later call has
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
	used := s.use(u.Tool, words)
	used.marks = recorded(used.marks, who, at, u)
	s.setTyped(used.query, typed)
	if !u.Withdrawn {
		used.tool.calls++
	}
	if u.Failed {
		used.tool.failures++
	}
	if len(used.tool.uses) > maxQueries {
		s.drop(used.tool.weakest(at, used))
	}
	s.shrink(at)
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
	s.alike(words, func(q *query, similarity float64) {
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

// alike calls yield for each past query that is like these words. s.mu must be
// held.
func (s *Store) alike(words []string, yield func(q *query, similarity float64)) {
	all := math.Log(float64(1 + len(s.queries))) // idf is log((1+queries)/queries with the word)
	shared := make([]float32, len(s.slots))      // weight of the words in common, by slot
	touched := make([]int32, 0, len(s.slots)/2)
	var weight float64
	for _, text := range words {
		w := s.words[text]
		if w == nil {
			weight += all // as rare as what was seen once
			continue
		}
		idf := all - w.log
		weight += idf
		for _, slot := range w.slots {
			if shared[slot] == 0 {
				touched = append(touched, slot)
			}
			shared[slot] += float32(idf)
		}
	}
	for _, slot := range touched {
		common := float64(shared[slot])
		if common < alikeEnough*alikeEnough*weight {
			continue // not alike enough even if the past query has no other word
		}
		q := s.slots[slot]
		past := all * float64(len(q.words))
		for _, w := range q.words {
			past -= w.log
		}
		if similarity := min(1, common/math.Sqrt(weight*past)); similarity >= alikeEnough {
			yield(q, similarity)
		}
	}
}

// use returns the use of a tool after a query, and adds it if it is new.
// s.mu must be held, as in all that follows.
func (s *Store) use(name string, words []string) *use {
	t := s.tools[name]
	if t == nil {
		name = strings.Clone(name) // so as not to hold on to the whole text
		t = &tool{name: name}
		s.tools[name] = t
	}
	key := strings.Join(slices.Sorted(slices.Values(words)), " ")
	for _, u := range t.uses {
		if u.query.key == key {
			return u
		}
	}
	q := s.queries[key]
	if q == nil {
		q = s.index(key, words)
	}
	u := &use{tool: t, query: q}
	t.uses = append(t.uses, u)
	q.uses = append(q.uses, u)
	return u
}

// index adds a query.
func (s *Store) index(key string, words []string) *query {
	q := &query{key: key}
	if n := len(s.free); n > 0 {
		q.slot, s.free = s.free[n-1], s.free[:n-1]
		s.slots[q.slot] = q
	} else {
		q.slot = int32(len(s.slots))
		s.slots = append(s.slots, q)
	}
	for _, text := range words {
		text = strings.Clone(text)
		w := s.words[text]
		if w == nil {
			w = &word{}
			s.words[text] = w
		}
		w.set(append(w.slots, q.slot))
		q.words = append(q.words, w)
		q.texts = append(q.texts, text)
		s.size += cost(text)
	}
	s.queries[key] = q
	return q
}

// unindex removes a query.
func (s *Store) unindex(q *query) {
	for i, w := range q.words {
		at := slices.Index(w.slots, q.slot)
		last := len(w.slots) - 1
		w.slots[at] = w.slots[last]
		w.set(w.slots[:last])
		if last == 0 {
			delete(s.words, q.texts[i])
		}
		s.size -= cost(q.texts[i])
	}
	s.size -= len(q.typed)
	s.slots[q.slot] = nil
	s.free = append(s.free, q.slot)
	delete(s.queries, q.key)
}

func (w *word) set(slots []int32) {
	w.slots = slots
	w.log = math.Log(float64(len(slots)))
}

// drop forgets a use, and its tool and query if they have no other.
func (s *Store) drop(u *use) {
	is := func(other *use) bool { return other == u }
	if u.tool.uses = slices.DeleteFunc(u.tool.uses, is); len(u.tool.uses) == 0 {
		delete(s.tools, u.tool.name)
	}
	if u.query.uses = slices.DeleteFunc(u.query.uses, is); len(u.query.uses) == 0 {
		s.unindex(u.query)
	}
}

// weakest returns the use of the tool that says least, but not spare: a new
// query takes the place of the weakest, else it could never grow strong.
func (t *tool) weakest(at int64, spare *use) *use {
	var least *use
	for _, u := range t.uses {
		if u != spare && (least == nil || compare(u.marks, least.marks, at) < 0) {
			least = u
		}
	}
	return least
}

// shrink makes room where there is too much: the weakest tenth of the tools
// goes.
func (s *Store) shrink(at int64) {
	if len(s.tools) <= maxTools && s.size <= maxBytes {
		return
	}
	type rank struct {
		*tool
		strength float64
	}
	ranks := make([]rank, 0, len(s.tools))
	for _, t := range s.tools {
		r := rank{tool: t}
		for _, u := range t.uses {
			r.strength = max(r.strength, math.Abs(strength(u.marks, at)))
		}
		ranks = append(ranks, r)
	}
	slices.SortFunc(ranks, func(a, b rank) int {
		return cmp.Or(cmp.Compare(a.strength, b.strength), cmp.Compare(a.name, b.name))
	})
	for _, r := range ranks {
		if len(s.tools) <= maxTools*9/10 && s.size <= maxBytes*9/10 {
			return
		}
		for _, u := range slices.Clone(r.uses) {
			s.drop(u)
		}
	}
}

// bounded returns the words without what is twice, not a word or too much.
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

// cost is what a word of a query takes in the file, as long as nothing in it has
// to be escaped.
func cost(word string) int { return len(word) + len(`"",`) }
