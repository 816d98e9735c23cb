package main

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
)

// A model is word vectors while they are trained. Tools and tasks are the sums of
// their words, as package vectors has it; a task must point to its tool rather
// than to others (InfoNCE, van den Oord et al. 2018).
type model struct {
	dim    int
	start  [][]float32 // what the vectors were at first, which they are held to
	vector [][]float32 // by word
	weight []float32   // by word: logarithm of how much it counts
	asked  []float32   // by word: logarithm of how much more in a task
	fields []float32   // logarithm of how much a field counts
	sharp  float32     // logarithm of the inverse temperature

	moments map[*float32]*moment // of single parameters
	words   []wordMoments
	step    int
}

// A moment is Adam's memory of a parameter.
type moment struct{ first, second float32 }

type wordMoments struct {
	vector        []moment
	weight, asked moment
}

// soften is as in package vectors.
const soften = 0.3

// A counted is a word and how often it occurs.
type counted struct {
	word  int32
	times float32
}

// A text is a tool: the words of each field.
type text [][]counted

// A pair is a task and the tool that is right for it, which may lack what the
// task was made of, and one that looks right and is not.
type pair struct {
	task  []counted
	tool  text
	id    int // of the tool
	hard  text
	other int // its id; -1 if there is none
}

func newModel(start [][]float32, weight []float32, fields int) *model {
	m := &model{dim: len(start[0]), start: start, weight: slices.Clone(weight), asked: make([]float32, len(start)),
		fields: make([]float32, fields), sharp: 3, moments: make(map[*float32]*moment), words: make([]wordMoments, len(start))}
	for _, v := range start {
		m.vector = append(m.vector, slices.Clone(v))
	}
	return m
}

func exp(x float32) float32 { return float32(math.Exp(float64(x))) }

// sum adds up the words, and returns the length of the sum.
func (m *model) sum(words []counted, asked bool) (v []float32, length float32) {
	v = make([]float32, m.dim)
	for _, w := range words {
		factor := w.times * exp(m.weight[w.word])
		if asked {
			factor *= exp(m.asked[w.word])
		}
		for i, x := range m.vector[w.word] {
			v[i] += factor * x
		}
	}
	return v, norm(v)
}

func norm(v []float32) float32 {
	sum := float32(0)
	for _, x := range v {
		sum += x * x
	}
	return float32(math.Sqrt(float64(sum)))
}

func dot(a, b []float32) (sum float32) {
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}

// A forward is what one text is, on the way to its unit vector.
type forward struct {
	sums    [][]float32
	lengths []float32
	whole   []float32
	length  float32
	unit    []float32
}

const tiny = 1e-6

func (m *model) task(words []counted) (f forward) {
	f.whole, f.length = m.sum(words, true)
	f.unit = scaled(f.whole, 1/(f.length+tiny))
	return f
}

func (m *model) tool(t text) (f forward) {
	f.whole = make([]float32, m.dim)
	for i, words := range t {
		v, length := m.sum(words, false)
		f.sums, f.lengths = append(f.sums, v), append(f.lengths, length)
		factor := exp(m.fields[i]) / (length + soften)
		for k, x := range v {
			f.whole[k] += factor * x
		}
	}
	f.length = norm(f.whole)
	f.unit = scaled(f.whole, 1/(f.length+tiny))
	return f
}

func scaled(v []float32, by float32) []float32 {
	w := make([]float32, len(v))
	for i, x := range v {
		w[i] = x * by
	}
	return w
}

// back takes the gradient through v/(|v|+c).
func back(v []float32, length, c float32, gradient []float32) []float32 {
	s := length + c
	along := float32(0)
	if length > tiny {
		along = dot(v, gradient) / (length * s * s)
	}
	g := make([]float32, len(v))
	for i := range g {
		g[i] = gradient[i]/s - v[i]*along
	}
	return g
}

// A gradients adds up what the parameters of a batch are to be changed by.
type gradients struct {
	vector map[int32][]float32
	weight map[int32]float32
	asked  map[int32]float32
	fields []float32
	sharp  float32
}

func (m *model) newGradients() *gradients {
	return &gradients{map[int32][]float32{}, map[int32]float32{}, map[int32]float32{}, make([]float32, len(m.fields)), 0}
}

// add takes the gradient of a sum to its words.
func (g *gradients) add(m *model, words []counted, asked bool, gradient []float32) {
	for _, w := range words {
		factor := w.times * exp(m.weight[w.word])
		if asked {
			factor *= exp(m.asked[w.word])
		}
		to := g.vector[w.word]
		if to == nil {
			to = make([]float32, m.dim)
			g.vector[w.word] = to
		}
		for i, x := range gradient {
			to[i] += factor * x
		}
		along := factor * dot(m.vector[w.word], gradient)
		g.weight[w.word] += along
		if asked {
			g.asked[w.word] += along
		}
	}
}

func (g *gradients) merge(o *gradients) {
	for w, v := range o.vector {
		if to := g.vector[w]; to != nil {
			for i, x := range v {
				to[i] += x
			}
		} else {
			g.vector[w] = v
		}
	}
	for w, x := range o.weight {
		g.weight[w] += x
	}
	for w, x := range o.asked {
		g.asked[w] += x
	}
	for i, x := range o.fields {
		g.fields[i] += x
	}
	g.sharp += o.sharp
}

// parallel calls f for 0 … n−1 on all processors; part tells them apart.
func parallel(n int, f func(part, i int)) {
	parts := runtime.GOMAXPROCS(0)
	var group sync.WaitGroup
	for part := range parts {
		group.Go(func() {
			for i := part; i < n; i += parts {
				f(part, i)
			}
		})
	}
	group.Wait()
}

const (
	batchSize   = 256
	otherWay    = 0.3  // weight of the loss of tools that must point to their tasks
	hold        = 2e-4 // of the vectors to what they were at first
	vectorRate  = 2e-3
	weightRate  = 4e-3
	sharedRate  = 1e-2
	maxGradient = 1e30
)

// learn does one batch, and returns its loss.
func (m *model) learn(batch []pair) float64 {
	n := len(batch)
	tools := make([]text, n)
	ids := make([]int, n)
	for i, p := range batch {
		tools[i], ids[i] = p.tool, p.id
	}
	for _, p := range batch {
		if p.other >= 0 {
			tools, ids = append(tools, p.hard), append(ids, p.other)
		}
	}
	tasks, forwards := make([]forward, n), make([]forward, len(tools))
	parallel(n, func(_, i int) { tasks[i] = m.task(batch[i].task) })
	parallel(len(tools), func(_, j int) { forwards[j] = m.tool(tools[j]) })

	inverse := exp(m.sharp)
	cosine, change := make([][]float32, n), make([][]float32, n)
	losses := make([]float64, n)
	parallel(n, func(_, i int) {
		cosine[i], change[i] = make([]float32, len(tools)), make([]float32, len(tools))
		for j := range tools {
			cosine[i][j] = dot(tasks[i].unit, forwards[j].unit)
		}
		losses[i] = soft(len(tools), i, inverse, func(j int) (float32, bool) { return cosine[i][j], ids[j] != ids[i] || j == i },
			func(j int, g float32) { change[i][j] += g / float32(n) })
	})
	back2 := make([][]float32, n)
	parallel(n, func(_, j int) {
		back2[j] = make([]float32, n)
		losses[j] += otherWay * soft(n, j, inverse, func(i int) (float32, bool) { return cosine[i][j], ids[i] != ids[j] || i == j },
			func(i int, g float32) { back2[j][i] = otherWay * g / float32(n) })
	})
	total := m.newGradients()
	for i := range n {
		for j := range n {
			change[i][j] += back2[j][i]
		}
		for j := range tools {
			total.sharp += change[i][j] * cosine[i][j] * inverse
		}
	}

	parts := make([]*gradients, runtime.GOMAXPROCS(0))
	for i := range parts {
		parts[i] = m.newGradients()
	}
	parallel(n, func(part, i int) {
		g := make([]float32, m.dim)
		for j := range tools {
			for k, x := range forwards[j].unit {
				g[k] += inverse * change[i][j] * x
			}
		}
		f := tasks[i]
		parts[part].add(m, batch[i].task, true, back(f.whole, f.length, tiny, g))
	})
	parallel(len(tools), func(part, j int) {
		g := make([]float32, m.dim)
		for i := range n {
			for k, x := range tasks[i].unit {
				g[k] += inverse * change[i][j] * x
			}
		}
		f := forwards[j]
		g = back(f.whole, f.length, tiny, g)
		for field, words := range tools[j] {
			factor := exp(m.fields[field])
			parts[part].fields[field] += factor / (f.lengths[field] + soften) * dot(f.sums[field], g)
			parts[part].add(m, words, false, scaled(back(f.sums[field], f.lengths[field], soften, g), factor))
		}
	})
	for _, p := range parts {
		total.merge(p)
	}
	m.apply(total)
	loss := 0.0
	for _, l := range losses {
		loss += l / float64(n)
	}
	return loss
}

// soft is the cross entropy of picking right among n, and hands on the gradient of
// each one's cosine, before the temperature.
func soft(n, right int, inverse float32, cosine func(int) (float32, bool), change func(int, float32)) float64 {
	most := float32(-maxGradient)
	for j := range n {
		if c, counts := cosine(j); counts {
			most = max(most, c*inverse)
		}
	}
	all := 0.0
	for j := range n {
		if c, counts := cosine(j); counts {
			all += math.Exp(float64(c*inverse - most))
		}
	}
	for j := range n {
		if c, counts := cosine(j); counts {
			p := float32(math.Exp(float64(c*inverse-most)) / all)
			if j == right {
				p--
			}
			change(j, p)
		}
	}
	c, _ := cosine(right)
	return math.Log(all) - float64(c*inverse-most)
}

// apply is a step of Adam (Kingma and Ba 2015), for words only where they occur.
func (m *model) apply(g *gradients) {
	m.step++
	parallel(len(m.words), func(_, i int) {
		w := int32(i)
		v, ok := g.vector[w]
		if !ok {
			return
		}
		mo := &m.words[i]
		if mo.vector == nil {
			mo.vector = make([]moment, m.dim)
		}
		for k := range v {
			held := v[k] + 2*hold*(m.vector[i][k]-m.start[i][k])
			mo.vector[k].update(&m.vector[i][k], held, vectorRate, m.step)
		}
		mo.weight.update(&m.weight[i], g.weight[w], weightRate, m.step)
		if x, ok := g.asked[w]; ok {
			mo.asked.update(&m.asked[i], x, weightRate, m.step)
		}
	})
	for i := range m.fields {
		m.shared(&m.fields[i], g.fields[i])
	}
	m.shared(&m.sharp, g.sharp)
}

func (m *model) shared(p *float32, g float32) {
	if m.moments[p] == nil {
		m.moments[p] = new(moment)
	}
	m.moments[p].update(p, g, sharedRate, m.step)
}

func (a *moment) update(p *float32, g, rate float32, step int) {
	const first, second = 0.9, 0.999
	a.first = first*a.first + (1-first)*g
	a.second = second*a.second + (1-second)*g*g
	bias1 := 1 - math.Pow(first, float64(step))
	bias2 := 1 - math.Pow(second, float64(step))
	*p -= rate * float32(float64(a.first)/bias1/(math.Sqrt(float64(a.second)/bias2)+1e-8))
}

// train goes over the pairs that each epoch gives.
func (m *model) train(epochs int, pairs func(*rand.Rand) []pair, seed uint64, progress func(epoch, pairs int, loss float64)) {
	random := rand.New(rand.NewPCG(seed, 1))
	for epoch := range epochs {
		all := pairs(random)
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		loss, batches := 0.0, 0
		for batch := range slices.Chunk(all, batchSize) {
			if len(batch) < batchSize/2 {
				continue
			}
			loss += m.learn(batch)
			batches++
		}
		progress(epoch, len(all), loss/float64(max(1, batches)))
	}
}
