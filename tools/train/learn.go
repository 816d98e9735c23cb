package main

import (
	"math"
	"runtime"
	"slices"
	"sync"
)

// A pair is a task and the tool that is right for it, which may lack what the task was made
// of, and one that looks right and is not.
type pair struct {
	task   []counted
	tool   text
	id     int   // of the tool
	also   []int // IDs of other tools that are right
	hard   text
	other  int     // its ID; -1 if there is none
	weight float32 // of the pair in the loss
	group  int     // pairs of one group are hard to tell apart; -1: in no group
}

// right reports whether the tool with this ID is right for the pair.
func (p *pair) right(id int) bool { return id == p.id || slices.Contains(p.also, id) }

// buffers holds what one batch needs.
type buffers struct {
	tools                []text
	ids                  []int
	cosine, change       []float32 // by task and tool
	column               []float32 // by tool and task
	task, tool           []float32 // unit vectors
	sumTask              []float32
	sumTool, whole       []float32 // by tool and field; by tool
	lengthTask           []float32
	lengthTool           []float32 // by tool and field
	lengthWhole          []float32
	backWhole            []float32
	wordsTask, backWords []float32
	backTask             []float32 // gradients, in the places of the sums
	backTool             []float32
	losses               []float64
}

func sized[T any](s *[]T, n int) []T {
	if cap(*s) < n {
		*s = make([]T, n)
	}
	*s = (*s)[:n]
	return *s
}

// prepare lists the tools of a batch and makes room.
func (b *buffers) prepare(batch []pair, stride, fields int) {
	b.tools, b.ids = b.tools[:0], b.ids[:0]
	for _, p := range batch {
		b.tools, b.ids = append(b.tools, p.tool), append(b.ids, p.id)
	}
	for _, p := range batch {
		if p.other >= 0 {
			b.tools, b.ids = append(b.tools, p.hard), append(b.ids, p.other)
		}
	}
	n, m := len(batch), len(b.tools)
	for _, s := range []*[]float32{&b.cosine, &b.change} {
		sized(s, n*m)
	}
	for _, s := range []*[]float32{&b.task, &b.wordsTask, &b.sumTask, &b.backTask, &b.backWords} {
		sized(s, n*stride)
	}
	for _, s := range []*[]float32{&b.tool, &b.whole, &b.backWhole} {
		sized(s, m*stride)
	}
	sized(&b.column, n*n)
	sized(&b.sumTool, m*fields*stride)
	sized(&b.backTool, m*fields*stride)
	sized(&b.lengthTask, n)
	sized(&b.lengthTool, m*fields)
	sized(&b.lengthWhole, m)
	sized(&b.losses, n)
}

// parallel calls f for 0 … n−1 on all processors.
func parallel(n int, f func(i int)) {
	parts := runtime.GOMAXPROCS(0)
	var group sync.WaitGroup
	for part := range parts {
		group.Go(func() {
			for i := part; i < n; i += parts {
				f(i)
			}
		})
	}
	group.Wait()
}

// learn does one batch at a share of the full rate, and returns its loss.
func (m *model) learn(batch []pair, rate float32) float64 {
	b := &m.batch
	loss, sharp := m.forward(batch)
	parallel(len(batch), func(i int) { m.backTask(i) })
	fields := make([]float32, len(b.tools)*len(m.fields))
	parallel(len(b.tools), func(j int) { m.backTool(j, len(batch), fields[j*len(m.fields):(j+1)*len(m.fields)]) })
	m.apply(batch, fields, sharp, rate)
	return loss
}

// forward returns the loss of a batch and its gradient by sharp.
func (m *model) forward(batch []pair) (loss float64, sharp float32) {
	b := &m.batch
	b.prepare(batch, m.stride, len(m.fields))
	parallel(len(batch), func(i int) { m.forwardTask(i, batch[i].task) })
	parallel(len(b.tools), func(j int) { m.forwardTool(j, b.tools[j]) })
	sharp = m.compare(batch)
	for _, l := range b.losses {
		loss += l
	}
	return loss, sharp
}

func (m *model) forwardTask(i int, words []counted) {
	b := &m.batch
	before, sum, unit := m.of(b.wordsTask, i), m.of(b.sumTask, i), m.of(b.task, i)
	m.sum(before, words, m.askedScale)
	for k := range sum {
		sum[k] = dot(m.of(m.turn, k), before)
	}
	b.lengthTask[i] = norm(sum)
	clear(unit)
	add(unit, sum, 1/(b.lengthTask[i]+tiny))
}

func (m *model) forwardTool(j int, t text) {
	b := &m.batch
	whole, unit := m.of(b.whole, j), m.of(b.tool, j)
	clear(whole)
	for f, words := range t {
		k := j*len(m.fields) + f
		sum := m.of(b.sumTool, k)
		b.lengthTool[k] = m.sum(sum, words, m.scale)
		add(whole, sum, exp(m.fields[f])/(b.lengthTool[k]+soften))
	}
	b.lengthWhole[j] = norm(whole)
	clear(unit)
	add(unit, whole, 1/(b.lengthWhole[j]+tiny))
}

// compare fills in the cosines, by how much each is to change, and the losses. It returns
// the gradient of the sharpness.
func (m *model) compare(batch []pair) float32 {
	b := &m.batch
	n, tools := len(batch), len(b.tools)
	inverse := exp(m.sharp)
	total := float32(0)
	for i := range batch {
		total += batch[i].weight
	}
	parallel(n, func(i int) {
		task, row, change := m.of(b.task, i), b.cosine[i*tools:(i+1)*tools], b.change[i*tools:(i+1)*tools]
		for j := range row {
			row[j] = dot(task, m.of(b.tool, j))
			change[j] = row[j] * inverse
			if j != i && batch[i].right(b.ids[j]) {
				change[j] = none
			}
		}
		b.losses[i] = soft(change, i, batch[i].weight/total)
	})
	parallel(n, func(j int) {
		column := b.column[j*n : (j+1)*n]
		for i := range column {
			column[i] = b.cosine[i*tools+j] * inverse
			if i != j && batch[i].right(b.ids[j]) {
				column[i] = none
			}
		}
		b.losses[j] += soft(column, j, otherWay*batch[j].weight/total)
	})
	parallel(n, func(i int) {
		for j := range n {
			b.change[i*tools+j] += b.column[j*n+i]
		}
	})
	sharp := dot(b.change, b.cosine) * inverse
	for i := range b.change {
		b.change[i] *= inverse
	}
	return sharp
}

// none is the logit of what does not take part.
const none = -1e30

// soft is the cross entropy of picking right among the logits, times the weight. It replaces
// the logits by their gradients.
func soft(logits []float32, right int, weight float32) float64 {
	most, own := slices.Max(logits), logits[right]
	all := float32(0)
	for j, x := range logits {
		logits[j] = fastExp(x - most)
		all += logits[j]
	}
	for j := range logits {
		logits[j] *= weight / all
	}
	logits[right] -= weight
	return float64(weight) * (math.Log(float64(all)) - float64(own-most))
}

// fastExp is exp of x ≤ 0, to four digits.
func fastExp(x float32) float32 {
	if x < -30 {
		return 0
	}
	y := x * math.Log2E
	k := int32(y) - 1
	f := y - float32(k) // in [0, 2)
	f--
	k++
	// 2^f for f in [-1, 1), by its Taylor series
	p := 1 + f*(0.69314718+f*(0.24022651+f*(0.05550411+f*(0.009618129+f*(0.0013333558+f*0.00015403530)))))
	return p * math.Float32frombits(uint32(k+127)<<23)
}

// skip is a change of a cosine that is too small to matter.
const skip = 1e-7

func (m *model) backTask(i int) {
	b := &m.batch
	tools := len(b.tools)
	g := m.of(b.backTask, i)
	clear(g)
	for j, c := range b.change[i*tools : (i+1)*tools] {
		if c > skip || c < -skip {
			add(g, m.of(b.tool, j), c)
		}
	}
	back(m.of(b.sumTask, i), b.lengthTask[i], tiny, g)
	before := m.of(b.backWords, i)
	clear(before)
	for k, x := range g {
		add(before, m.of(m.turn, k), x)
	}
}

func (m *model) backTool(j, n int, fields []float32) {
	b := &m.batch
	tools := len(b.tools)
	g := m.of(b.backWhole, j)
	clear(g)
	for i := range n {
		if c := b.change[i*tools+j]; c > skip || c < -skip {
			add(g, m.of(b.task, i), c)
		}
	}
	back(m.of(b.whole, j), b.lengthWhole[j], tiny, g)
	for f := range b.tools[j] {
		k := j*len(m.fields) + f
		factor, sum, to := exp(m.fields[f]), m.of(b.sumTool, k), m.of(b.backTool, k)
		fields[f] = factor / (b.lengthTool[k] + soften) * dot(sum, g)
		clear(to)
		add(to, g, factor)
		back(sum, b.lengthTool[k], soften, to)
	}
}
