package classify

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/encoder"
)

// Weights relative to a word of an example, which counts 1. These and the figures of the
// training come from cross-validation over categories.example.json; halving or doubling
// one of them hardly changes its result.
const (
	stopWeight    = 0.5 // a stop word
	pairWeight    = 0.3 // two neighbouring words
	meaningWeight = 1.5 // the meaning of the text; less is better for few examples, more for many
	hintWeight    = 0.3 // in training: a name, a description or a keyword

	epochs  = 8
	rate    = 0.7  // of learning
	penalty = 1e-4 // of big weights (L2)

	enough               = 10 // examples to calibrate with
	leastSharp, maxSharp = 0.25, 4.0
)

// A lexical is the built-in classifier. It learns the categories from their names,
// descriptions, keywords and examples; only the names are required. It is immutable.
//
// It is a multinomial logistic regression over the words of a text, the pairs of
// neighbouring words, and the meaning of the text as a vector (package encoder), which
// covers words that no example has. Of a long text the vector is the meaning of the
// beginning. The regression is trained with AdaGrad (Duchi, Hazan and Singer 2011), and
// calibrated by one temperature (Guo et al. 2017), which is fitted to examples that the
// training did not see.
type lexical struct {
	n       int            // categories
	dim     int            // of meanings
	rows    map[string]int // of weights, by word or pair
	weights []float64      // rows of n: the bias, one for each dimension of meaning, words and pairs
	sharp   float64        // the inverse of the temperature
}

// newLexical learns the categories, at least one. The meaning of a text takes about 2.5 ms of CPU time, unless the
// folder has it. The lexical is nil only when ctx ends; another error says that the meanings are not kept.
func newLexical(ctx context.Context, categories []config.Category, folder string) (*lexical, error) {
	documents := documentsOf(categories)
	err := encode(ctx, documents, folder)
	if err != nil && err == context.Cause(ctx) {
		return nil, err
	}
	return fit(len(categories), documents), err
}

// fit learns n categories from documents that have meanings.
func fit(n int, documents []document) *lexical {
	l := &lexical{n: n, rows: make(map[string]int)}
	for i := range documents {
		l.dim = len(documents[i].meaning)
		l.read(&documents[i], true)
	}
	l.sharp, l.weights = l.calibrate(documents), l.train(documents)
	return l
}

// documentsOf returns the texts that describe the categories, and their examples.
func documentsOf(categories []config.Category) (all []document) {
	for class, c := range categories {
		for _, text := range slices.Concat([]string{c.Name, c.Description}, c.Keywords) {
			all = append(all, document{text: text, class: class, weight: hintWeight})
		}
		for _, text := range c.Examples {
			all = append(all, document{text: text, class: class, weight: 1})
		}
	}
	return all
}

// encode adds the meaning to each document: the one in the folder, or a new one, which it keeps there.
func encode(ctx context.Context, documents []document, folder string) error {
	texts := make([]string, len(documents))
	for i := range documents {
		texts[i] = documents[i].text
	}
	store := encoder.OpenStore(encoder.Task, folder)
	for i, v := range store.Vectors(ctx, texts, runtime.GOMAXPROCS(0), 0) {
		if documents[i].meaning = v; v == nil {
			return context.Cause(ctx)
		}
	}
	return store.Save(texts)
}

// probabilities returns the probability of each category, in their order. They are not
// negative and their sum is 1.
func (l *lexical) probabilities(text string) []float64 {
	return l.classify(document{text: text, meaning: encoder.Embedded().Encode(text, encoder.Task)})
}

// classify returns the probabilities of a document that has a meaning.
func (l *lexical) classify(d document) []float64 {
	p := make([]float64, l.n)
	l.read(&d, false)
	l.sums(p, l.weights, &d)
	softmax(p, l.sharp)
	return p
}

// A document is a text as a vector: a sparse one of its words, and a dense one of its meaning.
type document struct {
	text    string
	rows    []int     // of the weights, for the bias, the words and the pairs
	values  []float64 // by index in rows
	meaning []float32
	class   int     // in training
	weight  float64 // in training: 1 for an example, or hintWeight
}

// each calls f with the rows of the weights and the values of a document.
func (d *document) each(f func(row int, value float64)) {
	for j, row := range d.rows {
		f(row, d.values[j])
	}
	for i, x := range d.meaning {
		f(1+i, meaningWeight*float64(x))
	}
}

// read sets the rows and values of a document. A word or pair without a row gets one if learn
// is true. The values of words and pairs together have the length 1, so that long texts
// count as much as short ones; words without a row are included in that length.
func (l *lexical) read(d *document, learn bool) {
	d.rows, d.values = []int{0}, []float64{1} // the bias
	sum := 0.0
	seen := make(map[string]bool)
	see := func(value float64, key string) {
		if seen[key] {
			return
		}
		seen[key] = true
		sum += value * value
		row, ok := l.rows[key]
		if !ok && learn {
			row, ok = 1+l.dim+len(l.rows), true
			l.rows[key] = row
		}
		if ok {
			d.rows, d.values = append(d.rows, row), append(d.values, value)
		}
	}
	before := ""
	for _, w := range split(d.text) {
		s, value := stem(w), 1.0
		if stopWords()[w] {
			value = stopWeight
		}
		see(value, s)
		see(pairWeight, before+" "+s)
		before = s
	}
	for i := range d.values[1:] {
		d.values[1+i] /= math.Sqrt(sum)
	}
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
	weights := make([]float64, (1+l.dim+len(l.rows))*l.n)
	squares := make([]float64, len(weights)/l.n) // of the gradient, by row
	slope := make([]float64, l.n)                // of the loss, by class
	random := rand.New(rand.NewPCG(1, 1))        // so that the order is always the same
	for range epochs {
		for _, i := range random.Perm(len(documents)) {
			d := &documents[i]
			l.sums(slope, weights, d)
			softmax(slope, 1)
			slope[d.class]--
			weight := d.weight * math.Sqrt(total/(float64(l.n)*share[d.class]))
			square := 0.0
			for c := range slope {
				slope[c] *= weight
				square += slope[c] * slope[c]
			}
			d.each(func(row int, v float64) {
				squares[row] += square * v * v
				step := rate / math.Sqrt(squares[row]+1e-8)
				w := weights[row*l.n:][:len(slope)]
				for c, s := range slope {
					w[c] -= step * (s*v + penalty*w[c])
				}
			})
		}
	}
	return weights
}

// sums sets z to the document's values times the weights, for each class.
func (l *lexical) sums(z, weights []float64, d *document) {
	clear(z)
	d.each(func(row int, v float64) {
		for c, w := range weights[row*l.n:][:len(z)] {
			z[c] += v * w
		}
	})
}

// calibrate returns the factor for the sums that maximizes the likelihood of every second
// example, for weights that were trained without these. The likelihood's logarithm is concave,
// so bisection finds the place where its slope is 0.
func (l *lexical) calibrate(documents []document) (sharp float64) {
	var training, heldOut []document
	examples := 0
	for _, d := range documents {
		if d.weight == 1 {
			examples++
		}
		if d.weight == 1 && examples%2 == 0 {
			heldOut = append(heldOut, d)
		} else {
			training = append(training, d)
		}
	}
	if examples < enough {
		return 1
	}
	weights, sums := l.train(training), make([][]float64, len(heldOut))
	for i := range heldOut {
		sums[i] = make([]float64, l.n)
		l.sums(sums[i], weights, &heldOut[i])
	}
	low, high := leastSharp, maxSharp
	for range 30 {
		middle := (low + high) / 2
		slope := 0.0
		for i, d := range heldOut {
			p := slices.Clone(sums[i])
			softmax(p, middle)
			for c, x := range sums[i] {
				slope -= p[c] * x
			}
			slope += sums[i][d.class]
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
		z[i] = math.Exp(sharp * (x - top))
		sum += z[i]
	}
	for i := range z {
		z[i] /= sum
	}
}
