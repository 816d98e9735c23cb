// Package vectors maps words to vectors that were trained for tools: a task and a tool with the
// same meaning have vectors in similar directions, even without a common word.
//
// A model is a list of words (as package analysis returns them), each with a vector of small
// integers and two weights. tools/train makes it; docs/selection.md says from which data.
package vectors

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"sync"
)

//go:embed model.bin
var embedded string // of which only the pages are in memory that are looked at

// Embedded returns the model in the program.
var Embedded = sync.OnceValue(func() *Model {
	m, err := Decode(embedded)
	if err != nil {
		panic(err) // a test decodes it
	}
	return m
})

// A Model is immutable.
type Model struct {
	dim     int
	length  float32   // of a task's vector
	fields  []float32 // the weight of each field of a tool
	list    string    // the words, sorted, a line each
	blocks  []uint32  // where every blockSize-th word begins in list
	weights string    // by word: see weight
	turn    []float32 // matrix, by row, that the sum of a task's words is multiplied by; nil: none
	data    string    // by word: dim int8 values
}

// blockSize is how many words there are for each that find looks at first.
const blockSize = 16

// Dim returns the length of vectors.
func (m *Model) Dim() int { return m.dim }

// soften reduces the weight of a field with few or unknown words.
const soften = 0.3

// A Vector is the meaning of a text. It is nil if the model knows no word of the text.
type Vector []float32

// Dot returns the scalar product of two vectors, 0 if one of them is nil. The result is the same
// on every platform.
func (v Vector) Dot(w Vector) float32 {
	if len(v) == 0 || len(v) != len(w) {
		return 0
	}
	var a, b, c, d float32
	i := 0
	for ; i+4 <= len(v); i += 4 {
		x, y := v[i:i+4:i+4], w[i:i+4:i+4]
		a += float32(x[0] * y[0]) // the conversions prevent fused operations, which round differently
		b += float32(x[1] * y[1])
		c += float32(x[2] * y[2])
		d += float32(x[3] * y[3])
	}
	for ; i < len(v); i++ {
		a += float32(v[i] * w[i])
	}
	return (a + b) + (c + d)
}

// norm scales v to the length |v|/(|v|+softening). It returns false if v is zero.
func norm(v []float32, softening float32) bool {
	sum := float32(0)
	for _, x := range v {
		sum += float32(x * x)
	}
	if sum == 0 {
		return false
	}
	length := float32(math.Sqrt(float64(sum))) + softening
	for i := range v {
		v[i] /= length
	}
	return true
}

// Knows reports whether the model has the word.
func (m *Model) Knows(word string) bool { _, ok := m.find(word); return ok }

// trained are the words of the model for words that package analysis has since told apart.
var trained = map[string]string{
	"customer": "custom", "container": "contain", "terminat": "termin", "important": "import",
	"university": "univers", "organization": "organ", "executive": "execut", "paste": "past",
}

// find returns the number of a word.
func (m *Model) find(word string) (number int, ok bool) {
	if number, ok = m.search(word); !ok && trained[word] != "" {
		return m.search(trained[word])
	}
	return number, ok
}

func (m *Model) search(word string) (number int, ok bool) {
	block := sort.Search(len(m.blocks), func(i int) bool { return lineAt(m.list, int(m.blocks[i])) > word }) - 1
	if block < 0 {
		return 0, false
	}
	at := int(m.blocks[block])
	for number = block * blockSize; number < (block+1)*blockSize && at <= len(m.list); number++ {
		line := lineAt(m.list, at)
		if line >= word {
			return number, line == word
		}
		at += len(line) + 1
	}
	return 0, false
}

// lineAt returns the line of a text that begins at a byte.
func lineAt(text string, at int) string {
	line, _, _ := strings.Cut(text[at:], "\n")
	return line
}

// weight returns two numbers of a word: the value of one unit of its vector, and its weight in a
// task, relative to its weight in a tool.
func (m *Model) weight(word int) (scale, asked float32) {
	both := m.weights[8*word : 8*word+8]
	return float32At(both, 0), float32At(both, 4)
}

// add adds a word's vector, whose unit has that value, to v.
func (m *Model) add(v []float32, word int, unit float32) {
	row := m.data[word*m.dim : (word+1)*m.dim]
	v = v[:len(row)]
	for i := range len(row) {
		v[i] += float32(unit * float32(int8(row[i])))
	}
}

// Task returns the vector of a task's words. All have the same length, which depends on the model:
// the scalar products with tools are then comparable between models, unlike the cosines.
func (m *Model) Task(words []string) Vector {
	v := make(Vector, m.dim)
	for _, word := range words {
		if i, ok := m.find(word); ok {
			scale, asked := m.weight(i)
			m.add(v, i, scale*asked)
		}
	}
	if v = m.turned(v); !norm(v, 0) {
		return nil
	}
	for i := range v {
		v[i] *= m.length
	}
	return v
}

// turned multiplies the matrix of tasks by v.
func (m *Model) turned(v Vector) Vector {
	if m.turn == nil {
		return v
	}
	w := make(Vector, m.dim)
	for i := range w {
		w[i] = v.Dot(m.turn[i*m.dim : (i+1)*m.dim])
	}
	return w
}

// A Bag collects the words of a tool, and then those of the next.
type Bag struct {
	m      *Model
	fields []Vector
}

// NewBag returns an empty bag.
func (m *Model) NewBag() *Bag { return &Bag{m, make([]Vector, len(m.fields))} }

// Add adds a word that is so often in each field. The fields are name, description, names of
// parameters, descriptions of parameters and server. Other fields are ignored.
func (b *Bag) Add(word string, counts []uint8) {
	i, ok := b.m.find(word)
	if !ok {
		return
	}
	scale, _ := b.m.weight(i)
	for field, count := range counts[:min(len(counts), len(b.fields))] {
		if count == 0 {
			continue
		}
		if b.fields[field] == nil {
			b.fields[field] = make(Vector, b.m.dim)
		}
		b.m.add(b.fields[field], i, scale*float32(count))
	}
}

// Vector returns the vector of all words, which has unit length, and empties the bag.
func (b *Bag) Vector() Vector {
	v := make(Vector, b.m.dim)
	for f, field := range b.fields {
		if norm(field, soften) {
			for i, x := range field {
				v[i] += float32(b.m.fields[f] * x)
			}
		}
		clear(field)
	}
	if !norm(v, 0) {
		return nil
	}
	return v
}

const magic = "mrv3"

// A Word is a word of a model before it is encoded.
type Word struct {
	Text   string
	Vector []float32 // in a tool
	Asked  float32   // its weight in a task, relative to its weight in a tool
}

// Shared is what all words of a model have in common.
type Shared struct {
	Fields []float32 // the weight of each field of a tool
	Turn   []float32 // matrix, by row, that the sum of a task's words is multiplied by; nil: none
	Length float32   // of a task's vector
}

// Encode returns a model in its binary form, in which the values of the vectors are int8. Words
// must be sorted.
func Encode(words []Word, s Shared) []byte {
	var texts []string
	for _, w := range words {
		texts = append(texts, w.Text)
	}
	list := strings.Join(texts, "\n")
	dim := 0
	if len(words) > 0 {
		dim = len(words[0].Vector)
	}
	b := []byte(magic)
	for _, n := range []int{len(words), dim, len(s.Fields), len(s.Turn), len(list)} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	float := func(f float32) { b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f)) }
	float(s.Length)
	for _, f := range slices.Concat(s.Fields, s.Turn) {
		float(f)
	}
	b = append(b, list...)
	scales := make([]float32, len(words))
	for i, w := range words {
		for _, x := range w.Vector {
			scales[i] = max(scales[i], float32(math.Abs(float64(x))))
		}
		scales[i] /= math.MaxInt8
		float(scales[i])
		float(w.Asked)
	}
	for i, w := range words {
		for _, x := range w.Vector {
			q := float32(0)
			if scales[i] > 0 {
				q = x / scales[i]
			}
			b = append(b, byte(int8(math.Round(float64(q)))))
		}
	}
	return b
}

// Decode reads the output of Encode. The model reads b while it is in use, and copies little of it.
func Decode(b string) (*Model, error) {
	const header = len(magic) + 5*4
	if len(b) < header || b[:len(magic)] != magic {
		return nil, errors.New("vectors: not a model of this version")
	}
	var n [5]int
	for i := range n {
		n[i] = int(uint32At(b, len(magic)+4*i))
	}
	words, dim, fields, turn, list := n[0], n[1], n[2], n[3], n[4]
	if want := header + 4*(1+fields+turn) + list + 8*words + words*dim; len(b) != want {
		return nil, fmt.Errorf("vectors: %d bytes instead of %d", len(b), want)
	}
	if turn != 0 && turn != dim*dim {
		return nil, fmt.Errorf("vectors: a matrix of %d numbers for %d dimensions", turn, dim)
	}
	numbers, b := b[header:header+4*(1+fields+turn)], b[header+4*(1+fields+turn):]
	m := &Model{dim: dim, length: float32At(numbers, 0), list: b[:list], weights: b[list : list+8*words], data: b[list+8*words:]}
	m.fields = floats(numbers[4:], fields)
	if turn > 0 {
		m.turn = floats(numbers[4*(1+fields):], turn)
	}
	if words > 0 {
		if lines := m.index(); lines != words {
			return nil, fmt.Errorf("vectors: %d words instead of %d", lines, words)
		}
	}
	return m, nil
}

// index notes where the blocks of words begin, and returns how many words there are.
func (m *Model) index() (words int) {
	for at := 0; at <= len(m.list); words++ {
		if words%blockSize == 0 {
			m.blocks = append(m.blocks, uint32(at))
		}
		at += len(lineAt(m.list, at)) + 1
	}
	return words
}

// floats returns the first n numbers of b.
func floats(b string, n int) []float32 {
	all := make([]float32, n)
	for i := range all {
		all[i] = float32At(b, 4*i)
	}
	return all
}

func float32At(b string, at int) float32 { return math.Float32frombits(uint32At(b, at)) }

// uint32At returns the number at a byte of b, the least significant byte first.
func uint32At(b string, at int) uint32 {
	b = b[at : at+4]
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}
