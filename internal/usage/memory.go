package usage

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// A memory is all that was learned, with an index of the queries by their words. The mutex of the
// store guards it.
type memory struct {
	tools   map[string]*tool
	queries map[string]*query // by key
	words   map[string]*word
	slots   []*query // by slot, nil where it is free
	free    []int32  // slots
	size    int      // bytes of the words of all queries
	cleared int64    // uses until this time are forgotten, in Unix milliseconds
}

func newMemory(cleared int64) *memory {
	return &memory{tools: make(map[string]*tool), queries: make(map[string]*query), words: make(map[string]*word), cleared: cleared}
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

// alike calls yield for each past query that is like these words.
func (m *memory) alike(words []string, yield func(q *query, similarity float64)) {
	all := math.Log(float64(1 + len(m.queries))) // idf is log((1+queries)/queries with the word)
	shared := make([]float32, len(m.slots))      // weight of the words in common, by slot
	touched := make([]int32, 0, len(m.slots)/2)
	var weight float64
	for _, text := range words {
		w := m.words[text]
		if w == nil {
			weight += all // as rare as a word seen once
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
		q := m.slots[slot]
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
func (m *memory) use(name string, words []string) *use {
	t := m.tools[name]
	if t == nil {
		name = strings.Clone(name) // so as not to hold on to the whole text
		t = &tool{name: name}
		m.tools[name] = t
	}
	key := strings.Join(slices.Sorted(slices.Values(words)), " ")
	for _, u := range t.uses {
		if u.query.key == key {
			return u
		}
	}
	q := m.queries[key]
	if q == nil {
		q = m.index(key, words)
	}
	u := &use{tool: t, query: q}
	t.uses = append(t.uses, u)
	q.uses = append(q.uses, u)
	return u
}

// index adds a query.
func (m *memory) index(key string, words []string) *query {
	q := &query{key: key}
	if n := len(m.free); n > 0 {
		q.slot, m.free = m.free[n-1], m.free[:n-1]
		m.slots[q.slot] = q
	} else {
		q.slot = int32(len(m.slots))
		m.slots = append(m.slots, q)
	}
	for _, text := range words {
		text = strings.Clone(text)
		w := m.words[text]
		if w == nil {
			w = &word{}
			m.words[text] = w
		}
		w.set(append(w.slots, q.slot))
		q.words = append(q.words, w)
		q.texts = append(q.texts, text)
		m.size += cost(text)
	}
	m.queries[key] = q
	return q
}

// unindex removes a query.
func (m *memory) unindex(q *query) {
	for i, w := range q.words {
		at := slices.Index(w.slots, q.slot)
		last := len(w.slots) - 1
		w.slots[at] = w.slots[last]
		w.set(w.slots[:last])
		if last == 0 {
			delete(m.words, q.texts[i])
		}
		m.size -= cost(q.texts[i])
	}
	m.size -= len(q.typed)
	m.slots[q.slot] = nil
	m.free = append(m.free, q.slot)
	delete(m.queries, q.key)
}

func (w *word) set(slots []int32) {
	w.slots = slots
	w.log = math.Log(float64(len(slots)))
}

// drop forgets a use, and its tool and query if they have no other.
func (m *memory) drop(u *use) {
	is := func(other *use) bool { return other == u }
	if u.tool.uses = slices.DeleteFunc(u.tool.uses, is); len(u.tool.uses) == 0 {
		delete(m.tools, u.tool.name)
	}
	if u.query.uses = slices.DeleteFunc(u.query.uses, is); len(u.query.uses) == 0 {
		m.unindex(u.query)
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
func (m *memory) shrink(at int64) {
	if len(m.tools) <= maxTools && m.size <= maxBytes {
		return
	}
	type rank struct {
		*tool
		strength float64
	}
	ranks := make([]rank, 0, len(m.tools))
	for _, t := range m.tools {
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
		if len(m.tools) <= maxTools*9/10 && m.size <= maxBytes*9/10 {
			return
		}
		for _, u := range slices.Clone(r.uses) {
			m.drop(u)
		}
	}
}

// setTyped replaces the text of a query as it was typed, if typed is not empty.
func (m *memory) setTyped(q *query, typed string) {
	if typed != "" {
		m.size += len(typed) - len(q.typed)
		q.typed = typed
	}
}

// forget drops the lessons until a time.
func (m *memory) forget(cleared int64) {
	if cleared <= m.cleared {
		return
	}
	m.cleared = cleared
	for _, t := range m.tools {
		t.calls, t.failures = 0, 0
		for _, u := range slices.Clone(t.uses) {
			if u.marks = living(u.marks, cleared, cleared); len(u.marks) == 0 {
				m.drop(u)
			}
		}
	}
}

// absorb adds the file's record of a tool. The file may say anything.
func (m *memory) absorb(l line, now int64) {
	if !validTool(l.Tool) {
		return
	}
	for _, q := range l.Queries {
		marks := q.Marks[:min(len(q.Marks), maxClients)]
		for i := range marks {
			marks[i] = marks[i].bounded(now)
		}
		marks = living(marks, m.cleared, now)
		words := bounded(q.Words)
		if len(words) == 0 || len(marks) == 0 {
			continue
		}
		u := m.use(l.Tool, words)
		if u.query.typed == "" {
			m.setTyped(u.query, shown(q.Typed))
		}
		u.marks = merged(u.marks, marks, now)
		if t := u.tool; len(t.uses) > maxQueries {
			m.drop(t.weakest(now, nil))
		}
	}
	t := m.tools[l.Tool]
	if t == nil {
		return
	}
	t.calls = max(t.calls, l.Calls)
	t.failures = min(max(t.failures, l.Failures), t.calls)
	m.shrink(now)
}

// lines returns all that is in memory, in no order. It shares the words and
// marks, which never change.
func (m *memory) lines() []line {
	lines := make([]line, 0, len(m.tools))
	for _, t := range m.tools {
		l := line{t.name, t.calls, t.failures, make([]past, len(t.uses))}
		for i, u := range t.uses {
			l.Queries[i] = past{u.query.typed, u.query.texts, u.marks}
		}
		lines = append(lines, l)
	}
	return lines
}
