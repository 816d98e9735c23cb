package usage

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// A memory is all that was learned. The mutex of the store guards it.
type memory struct {
	tools   map[string]*tool
	queries map[string]*query // by key
	words   map[string]*word
	size    int   // bytes of the words of all queries
	cleared int64 // uses until this time are forgotten, in Unix milliseconds
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
	key   string   // its words, sorted
	typed string   // as a client wrote it last, without secrets; "" if that is not known
	texts []string // its words as they came, never changed
	words []*word  // the same
	uses  []*use
}

// A word is in some queries, at least one.
type word struct{ queries int }

// A use is that a tool was called after a query.
type use struct {
	tool  *tool
	query *query
	marks []mark // by client, replaced and never changed
}

// alike calls yield for each past query that is like these words.
func (m *memory) alike(words []string, yield func(q *query, similarity float64)) {
	all := math.Log(float64(1 + len(m.queries)))
	idf := func(w *word) float64 { return all - math.Log(float64(w.queries)) }
	known := make(map[*word]float64, len(words))
	var weight float64
	for _, text := range words {
		if w := m.words[text]; w != nil {
			known[w] = idf(w)
			weight += known[w]
		} else {
			weight += all // as rare as a word seen once
		}
	}
	for _, q := range m.queries {
		var common, past float64
		for _, w := range q.words {
			common += known[w]
		}
		if common == 0 || common < alikeEnough*alikeEnough*weight {
			continue // not alike enough even if the past query has no other word
		}
		for _, w := range q.words {
			past += idf(w)
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
	for _, text := range words {
		text = strings.Clone(text)
		w := m.words[text]
		if w == nil {
			w = &word{}
			m.words[text] = w
		}
		w.queries++
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
		if w.queries--; w.queries == 0 {
			delete(m.words, q.texts[i])
		}
		m.size -= cost(q.texts[i])
	}
	m.size -= len(q.typed)
	delete(m.queries, q.key)
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
