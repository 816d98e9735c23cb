package classify

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/vectors"
)

// Weights relative to a word of an example, which counts 1. These and the figures of the
// training come from cross-validation over categories.example.json; halving or doubling
// one of them hardly changes its result.
const (
	stopWeight    = 0.5 // a stop word
	pairWeight    = 0.3 // two neighbouring words
	unknownWeight = 0.5 // the fact that a word has no known meaning
	hintWeight    = 0.3 // in training: a name, a description or a keyword

	epochs  = 8
	rate    = 0.7  // of learning
	penalty = 1e-4 // of big weights (L2)

	seed = 1 // of the order of training

	enough               = 10 // examples to calibrate with
	leastSharp, maxSharp = 0.25, 4.0
)

// A lexical is the built-in classifier. It learns the categories from their names,
// descriptions, keywords and examples; only the names are required. It is immutable.
//
// It is a multinomial logistic regression over the words of a text, the pairs of
// neighbouring words, and the meaning of the text as a vector (package vectors), which
// covers words that no example has. It is trained with AdaGrad (Duchi, Hazan and Singer
// 2011), and calibrated by one temperature (Guo et al. 2017), which is fitted to examples
// that the training did not see.
//
// All results are the same to the last bit on every machine.
type lexical struct {
	n       int // categories
	model   *vectors.Model
	stems   map[string]string // of the training's words; a cache, since stemming is slow
	rows    map[string]int    // of weights, by word or pair
	weights []float64         // rows of n: the bias, one for each dimension of meaning, words and pairs
	sharp   float64           // the inverse of the temperature
}

// newLexical learns the categories. With five of them, each example and keyword takes
// about 0.05 ms.
func newLexical(categories []config.Category) *lexical {
	l := &lexical{
		n:     len(categories),
		model: vectors.Embedded(),
		stems: make(map[string]string),
		rows:  make(map[string]int),
		sharp: 1,
	}
	var hints, examples []document
	for class, c := range categories {
		for _, text := range slices.Concat([]string{c.Name, c.Description}, c.Keywords) {
			hints = append(hints, l.learn(text, class, hintWeight))
		}
		for _, text := range c.Examples {
			examples = append(examples, l.learn(text, class, 1))
		}
	}
	var calibration sync.WaitGroup
	if len(examples) >= enough {
		calibration.Go(func() { l.sharp = sharpness(l.heldOut(hints, examples)) })
	}
	l.weights = l.train(slices.Concat(hints, examples))
	calibration.Wait()
	return l
}

// probabilities returns the probability of each category, in their order. They are not
// negative and their sum is 1. Without categories the result is empty.
func (l *lexical) probabilities(text string) []float64 {
	p := make([]float64, l.n)
	if l.n > 0 {
		l.sums(p, l.weights, l.document(text, func([]byte) (int, bool) { return 0, false }))
		softmax(p, l.sharp)
	}
	return p
}

// A document is a text as a sparse vector: values by row of the weights.
type document struct {
	rows   []int
	values []float64
	class  int     // in training
	weight float64 // in training
}

// learn returns the document of a text, and adds rows and stems for its words.
func (l *lexical) learn(text string, class int, weight float64) document {
	for _, w := range split(text) {
		if _, ok := l.stems[w]; !ok {
			l.stems[w] = stem(w)
		}
	}
	d := l.document(text, func(key []byte) (int, bool) {
		row := 1 + l.model.Dim() + len(l.rows)
		l.rows[string(key)] = row
		return row, true
	})
	d.class, d.weight = class, weight
	return d
}

// document returns the document of a text. It calls missing for a word or pair that has
// no row. The values of words and pairs together have the length 1, so that long texts
// count as much as short ones; words without a row are included in that length.
func (l *lexical) document(text string, missing func(key []byte) (int, bool)) document {
	words := split(text)
	most := l.model.Dim() + 2*len(words) + 2 // the bias, "?"
	d := document{rows: append(make([]int, 0, most), 0), values: append(make([]float64, 0, most), 1)}
	sum := 0.0
	seen := make(map[int]bool, 2*len(words))
	var key []byte // reused
	see := func(value float64, parts ...string) {
		key = key[:0]
		for _, part := range parts {
			key = append(key, part...)
		}
		row, ok := l.rows[string(key)]
		if !ok {
			row, ok = missing(key)
		}
		if !ok || !seen[row] {
			sum += float64(value * value)
		}
		if ok && !seen[row] {
			seen[row] = true
			d.rows, d.values = append(d.rows, row), append(d.values, value)
		}
	}
	all, content := make([]string, 0, len(words)), make([]string, 0, len(words))
	before := ""
	for _, w := range words {
		s, ok := l.stems[w]
		if !ok {
			s = stem(w)
		}
		all = append(all, s)
		if stopWords()[w] {
			see(stopWeight, s)
		} else {
			see(1, s)
			content = append(content, s)
		}
		if !isSymbol(s) && !l.model.Knows(s) {
			see(unknownWeight, "?")
		}
		see(pairWeight, before, " ", s)
		before = s
	}
	for i := range d.values[1:] {
		d.values[1+i] /= math.Sqrt(sum)
	}
	meaning := l.model.Task(content)
	if meaning == nil {
		meaning = l.model.Task(all)
	}
	for i, x := range meaning {
		d.rows, d.values = append(d.rows, 1+i), append(d.values, float64(x))
	}
	return d
}

// train returns the weights that separate the classes of the documents. Documents of a
// class with few of them count more, so that a text without known words is not given to
// the class with the most documents.
func (l *lexical) train(documents []document) []float64 {
	share := make([]float64, l.n)
	total := 0.0
	for _, d := range documents {
		share[d.class] += d.weight
		total += d.weight
	}
	weights := make([]float64, (1+l.model.Dim()+len(l.rows))*l.n)
	squares := make([]float64, len(weights)/max(l.n, 1)) // of the gradient, by row
	slope := make([]float64, l.n)                        // of the loss, by class
	random := rand.New(rand.NewPCG(seed, seed))
	for range epochs {
		for _, i := range random.Perm(len(documents)) {
			d := &documents[i]
			l.sums(slope, weights, *d)
			softmax(slope, 1)
			slope[d.class]--
			weight := d.weight * math.Sqrt(total/(float64(l.n)*share[d.class]))
			square := 0.0
			for c := range slope {
				slope[c] *= weight
				square += float64(slope[c] * slope[c])
			}
			for j, row := range d.rows {
				v := d.values[j]
				squares[row] += float64(square * float64(v*v))
				step := rate / math.Sqrt(squares[row]+1e-8)
				w := weights[row*l.n:][:len(slope)]
				for c, s := range slope {
					w[c] -= float64(step * (float64(s*v) + float64(penalty*w[c])))
				}
			}
		}
	}
	return weights
}

// sums sets z to the document's values times the weights, for each class.
func (l *lexical) sums(z, weights []float64, d document) {
	clear(z)
	for j, row := range d.rows {
		v := d.values[j]
		for c, w := range weights[row*l.n:][:len(z)] {
			z[c] += float64(v * w)
		}
	}
}

// A sample is the sums of a document whose class is known.
type sample struct {
	sums  []float64
	class int
}

// heldOut returns samples of every second example, for weights that were trained without
// them.
func (l *lexical) heldOut(hints, examples []document) []sample {
	training := slices.Clone(hints)
	for i := 0; i < len(examples); i += 2 {
		training = append(training, examples[i])
	}
	weights := l.train(training)
	var samples []sample
	for i := 1; i < len(examples); i += 2 {
		v := sample{make([]float64, l.n), examples[i].class}
		l.sums(v.sums, weights, examples[i])
		samples = append(samples, v)
	}
	return samples
}

// sharpness returns the factor for the sums that maximizes the likelihood of the classes.
// Its logarithm is concave, so bisection finds the place where its slope is 0.
func sharpness(samples []sample) float64 {
	low, high := leastSharp, maxSharp
	for range 30 {
		middle := (low + high) / 2
		slope := 0.0
		for _, v := range samples {
			p := slices.Clone(v.sums)
			softmax(p, middle)
			for c, x := range v.sums {
				slope -= float64(p[c] * x)
			}
			slope += v.sums[v.class]
		}
		if slope > 0 {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}

// softmax turns sums into probabilities.
func softmax(z []float64, sharp float64) {
	top, sum := slices.Max(z), 0.0
	for i, x := range z {
		z[i] = exp(float64(sharp * (x - top)))
		sum += z[i]
	}
	for i := range z {
		z[i] /= sum
	}
}

// exp is e to the power of x, for x up to 0. math.Exp rounds differently from
// machine to machine.
func exp(x float64) float64 {
	const high, low = 6.93147180369123816490e-01, 1.90821492927058770002e-10 // of ln 2, as in FreeBSD's e_exp.c
	if x < -700 {
		return 0
	}
	k := math.Floor(float64(x*math.Log2E) + 0.5)
	r := x - float64(k*high) - float64(k*low)
	sum := 1.0
	for i := 13.0; i >= 1; i-- { // Taylor's series
		sum = 1 + float64(sum*r)/i
	}
	return math.Ldexp(sum, int(k))
}
