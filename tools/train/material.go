package main

import (
	"hash/maphash"
	"math/rand/v2"
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/analysis"
	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/registry"
)

const (
	mostPairs    = 1500 // of one corpus in an epoch
	fewRepeats   = 3    // of the queries of a corpus that has few
	fewQueries   = 500
	fromName     = 0.35 // share of the pairs without a query that are made of names
	fromTitle    = 0.3  // likewise of titles, of rows with one
	whole        = 0.7  // of the others, share where the tool loses all of its description
	leastSpan    = 3    // words of a description that stand for a task
	mostSpan     = 12
	minDescribed = 4
	mostTerms    = 60  // of a field, which make training faster
	ownWeight    = 0.7 // in the loss, of pairs of corpora that are made without a query
)

// An example is a query and the tools that it needs, as numbers.
type example struct {
	task        []counted
	right, hard []int
}

// An item is a tool, or something like a tool, to learn from.
type item struct {
	fields   text
	id       int // items with the same name and description have the same
	group    int // of the same server; -1: of none
	describe []string
	title    []counted
	queries  [][]counted
}

// A material is what a model learns from.
type material struct {
	vocabulary *vocabulary
	tools      []item      // of corpora
	examples   [][]example // by corpus; they refer to tools
	rows       map[string][]item
	sources    map[string]source
	drop       float64
	share      float64 // of what the sources may give
	siblings   int

	groups, ids map[any]int
	seed        maphash.Seed
}

// number returns a number for each key.
func number(numbers map[any]int, key any) int {
	n, ok := numbers[key]
	if !ok {
		n = len(numbers)
		numbers[key] = n
	}
	return n
}

// A selection says what a model may learn from. The zero value is everything.
type selection struct {
	query    func(c *corpus, i int) bool
	leaveOut func(*corpus, *registry.NormalizedTool) bool
	row      func(*row) bool
}

// gather takes the queries that may be used, the tools of all corpora but those left out,
// and the rows.
func (t *trainer) gather(s selection) *material {
	m := &material{vocabulary: t.vocabulary, rows: make(map[string][]item), sources: t.tuning.Sources, drop: t.tuning.Drop, siblings: t.tuning.Siblings,
		groups: make(map[any]int), ids: make(map[any]int), seed: maphash.MakeSeed()}
	for _, c := range t.corpora {
		if c.learned {
			m.addCorpus(c, t.hard[c], s)
		}
	}
	for i := range t.rows {
		if r := &t.rows[i]; m.sources[r.source].Most > 0 && (s.row == nil || s.row(r)) {
			m.addRow(r)
		}
	}
	return m
}

func (m *material) addCorpus(c *corpus, hard [][]string, s selection) {
	numbers := make(map[string]int)
	random := rand.New(rand.NewPCG(3, 4))
	for i := range c.tools {
		tool := &c.tools[i]
		if s.leaveOut != nil && s.leaveOut(c, tool) {
			continue
		}
		numbers[tool.ID] = len(m.tools)
		fields := m.vocabulary.text(c.terms[i])
		for f := range fields {
			fields[f] = someOf(fields[f], mostTerms, random)
		}
		described := append(analysis.Joined(tool.Description), analysis.Words(tool.Description)...)
		m.tools = append(m.tools, item{fields: fields, id: m.id(analysis.Words(tool.Name), described), describe: described,
			group: number(m.groups, [2]string{c.name, tool.Server})})
	}
	var examples []example
	for i := range c.queries {
		q := &c.queries[i]
		e := example{task: m.vocabulary.count(taskWords(q))}
		for _, r := range q.Relevant {
			if n, ok := numbers[r.Server+":"+r.Name]; ok {
				e.right = append(e.right, n)
			}
		}
		for _, id := range hard[i] {
			if n, ok := numbers[id]; ok && !slices.Contains(e.right, n) {
				e.hard = append(e.hard, n)
			}
		}
		if (s.query == nil || s.query(c, i)) && len(e.task) > 0 && len(e.right) > 0 {
			examples = append(examples, e)
		}
	}
	m.examples = append(m.examples, examples)
}

// someOf returns at most n of the words, in any order.
func someOf(words []counted, n int, random *rand.Rand) []counted {
	if len(words) <= n {
		return words
	}
	random.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	return words[:n]
}

func (m *material) id(name, described []string) int {
	var h maphash.Hash
	h.SetSeed(m.seed)
	for _, w := range name {
		h.WriteString(w + " ")
	}
	h.WriteString("\n")
	for _, w := range described {
		h.WriteString(w + " ")
	}
	return number(m.ids, h.Sum64())
}

func (m *material) addRow(r *row) {
	i := item{fields: make(text, vectorFields), describe: r.fields[index.DescriptionField], group: -1}
	words := 0
	for f, w := range r.fields {
		i.fields[f] = m.vocabulary.count(w)
		words += len(i.fields[f])
	}
	if words == 0 {
		return
	}
	i.id = m.id(r.fields[index.NameField], i.describe)
	if r.server != "" {
		i.group = number(m.groups, [2]string{r.source, r.server})
	}
	i.title = m.vocabulary.count(r.title)
	for _, q := range r.queries {
		if task := m.vocabulary.count(q[:min(len(q), maxTaskWords)]); len(task) > 0 {
			i.queries = append(i.queries, task)
		}
	}
	m.rows[r.source] = append(m.rows[r.source], i)
}

// pairs deals out the pairs of one epoch.
func (m *material) pairs(random *rand.Rand) (all []pair) {
	for _, examples := range m.examples {
		all = append(all, m.corpusPairs(examples, random)...)
	}
	for i := range m.tools {
		if p, ok := m.describedPair(&m.tools[i], random); ok {
			p.weight = ownWeight
			all = append(all, p)
		}
	}
	for _, name := range sortedKeys(m.rows) {
		source := m.sources[name]
		source.Most = int(m.share * float64(source.Most))
		all = append(all, m.rowPairs(m.rows[name], source, random)...)
	}
	for i := range all {
		all[i].task = dropped(all[i].task, m.drop, random)
	}
	return arrange(all, m.siblings, random)
}

func (m *material) corpusPairs(examples []example, random *rand.Rand) (all []pair) {
	some := slices.Clone(examples)
	random.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	some = some[:min(len(some), mostPairs)]
	repeats := 1
	if len(some) < fewQueries {
		repeats = fewRepeats
	}
	for range repeats {
		for _, e := range some {
			right := m.tools[e.right[random.IntN(len(e.right))]]
			p := pair{task: e.task, tool: right.fields, id: right.id, other: -1, weight: 1, group: right.group}
			for _, r := range e.right {
				p.also = append(p.also, m.tools[r].id)
			}
			if len(e.hard) > 0 {
				hard := m.tools[e.hard[random.IntN(len(e.hard))]]
				p.other, p.hard = hard.id, hard.fields
			}
			all = append(all, p)
		}
	}
	return all
}

// rowPairs draws by row, so that few rows with many queries do not drown the rest.
func (m *material) rowPairs(rows []item, s source, random *rand.Rand) (all []pair) {
	for _, r := range random.Perm(len(rows)) {
		i := &rows[r]
		if len(all) >= s.Most {
			break
		}
		if len(i.queries) == 0 {
			if p, ok := m.describedPair(i, random); ok {
				p.weight = s.Weight
				all = append(all, p)
			}
			continue
		}
		for _, q := range random.Perm(len(i.queries))[:min(s.Each, len(i.queries))] {
			all = append(all, pair{task: i.queries[q], tool: i.fields, id: i.id, other: -1, weight: s.Weight, group: i.group})
		}
	}
	return all
}

// describedPair makes a task of the item's name, title or a part of its description, and
// takes this from the item.
func (m *material) describedPair(i *item, random *rand.Rand) (pair, bool) {
	p := pair{tool: slices.Clone(i.fields), id: i.id, other: -1, group: i.group}
	switch {
	case len(i.title) > 0 && random.Float64() < fromTitle:
		p.task = i.title
	case random.Float64() < fromName && len(i.fields[index.NameField]) > 0:
		p.task = i.fields[index.NameField]
		p.tool[index.NameField] = nil
	case len(i.describe) >= minDescribed:
		begin := random.IntN(max(1, len(i.describe)-minDescribed))
		p.task = m.vocabulary.count(i.describe[begin:min(len(i.describe), begin+leastSpan+random.IntN(mostSpan-leastSpan+1))])
		if random.Float64() < whole {
			p.tool[index.DescriptionField] = nil
		} else {
			p.tool[index.DescriptionField] = subtract(i.fields[index.DescriptionField], p.task)
		}
	}
	return p, len(p.task) > 0
}

func subtract(from, what []counted) (left []counted) {
	for _, w := range from {
		for _, x := range what {
			if x.word == w.word {
				w.times -= x.times
			}
		}
		if w.times > 0 {
			left = append(left, w)
		}
	}
	return left
}

// dropped leaves out a share of the words, but not all.
func dropped(task []counted, share float64, random *rand.Rand) []counted {
	if share == 0 {
		return task
	}
	left := make([]counted, 0, len(task))
	for _, w := range task {
		if random.Float64() >= share {
			left = append(left, w)
		}
	}
	if len(left) == 0 {
		return task
	}
	return left
}

// arrange shuffles pairs, but leaves up to siblings pairs of a group together: they get
// into one batch, where they are hard to tell apart.
func arrange(all []pair, siblings int, random *rand.Rand) []pair {
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var runs [][]pair
	open := make(map[int]int) // by group: the run that it fills
	for _, p := range all {
		r, ok := open[p.group]
		if !ok || p.group < 0 || len(runs[r]) >= siblings {
			r = len(runs)
			runs = append(runs, nil)
			open[p.group] = r
		}
		runs[r] = append(runs[r], p)
	}
	random.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
	return slices.Concat(runs...)
}
