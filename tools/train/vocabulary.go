package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/analysis"
	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/internal/vectors"
)

// A vocabulary is the words that have vectors, sorted.
type vocabulary struct {
	words  []string
	index  map[string]int32
	start  [][]float32
	weight []float32
}

const (
	rareWeight  = 1e-3   // the probability at which a word counts half
	oftenEnough = 3      // tools that have a word which is not in the file
	unknownRank = 30_000 // of such a word
	fileDim     = 100
)

// A stem is the words of the file that have it.
type stem struct {
	sum    []float32
	weight float32
	rank   int
}

// readVocabulary reads word vectors: of common words, and of those of the tools and rows.
// Words with the same stem become one, each according to its frequency. Words of tools that
// the file lacks begin with nothing.
func readVocabulary(path string, corpora []*corpus, rows []row, t tuning) (*vocabulary, error) {
	used := make(map[string]int)
	for _, c := range corpora {
		for _, terms := range c.terms {
			for _, t := range terms {
				used[t.Word]++
			}
		}
	}
	enough := func(word string) bool { return used[word] > 0 }
	often := rowWords(rows)
	stems, err := readStems(path, func(rank int, form string) bool {
		return rank < t.Common || enough(form) || often[form] >= t.Often
	})
	if err != nil {
		return nil, err
	}
	for word, n := range often {
		if n >= t.Often {
			used[word] = max(used[word], oftenEnough)
		}
	}
	for word, tools := range used {
		if stems[word] == nil && tools >= oftenEnough && strings.Trim(word, "0123456789") != "" {
			stems[word] = &stem{sum: make([]float32, fileDim), rank: unknownRank}
		}
	}
	return newVocabulary(stems, t.Extra), nil
}

// rowWords counts the rows with each word.
func rowWords(rows []row) map[string]int {
	counts := make(map[string]int)
	last := make(map[string]int)
	for i, r := range rows {
		count := func(words []string) {
			for _, w := range words {
				if last[w] != i+1 {
					last[w] = i + 1
					counts[w]++
				}
			}
		}
		for _, words := range r.fields {
			count(words)
		}
		for _, words := range r.queries {
			count(words)
		}
	}
	return counts
}

// readStems reads the vectors of the words that are wanted, given their rank by frequency and
// their stem.
func readStems(path string, wanted func(rank int, form string) bool) (map[string]*stem, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("-words: %w", err)
	}
	words, vectors, err := wordFile(b)
	if err != nil {
		return nil, fmt.Errorf("-words %s: %w", path, err)
	}
	stems := make(map[string]*stem)
	for rank, word := range words {
		form := analysis.Words(word)
		if len(form) != 1 || !wanted(rank, form[0]) {
			continue
		}
		v, err := parseVector(vectors[word])
		if err != nil {
			return nil, fmt.Errorf("-words %s: %q: %w", path, word, err)
		}
		s := stems[form[0]]
		if s == nil {
			s = &stem{sum: make([]float32, fileDim), rank: rank}
			stems[form[0]] = s
		}
		share := 1 / (float32(rank) + 2.7)
		add(s.sum, v, share)
		s.weight += share
	}
	return stems, nil
}

// wordFile returns the words of the file by frequency, and the text of each one's vector.
// The file has hundreds of megabytes, of which few are needed.
func wordFile(b []byte) (words []string, vectors map[string][]byte, err error) {
	const list, object = `"words":`, `"vectors":{`
	i := bytes.Index(b, []byte(list))
	if i < 0 {
		return nil, nil, fmt.Errorf("it has no %s", list)
	}
	if err := json.NewDecoder(bytes.NewReader(b[i+len(list):])).Decode(&words); err != nil {
		return nil, nil, err
	}
	if i = bytes.Index(b, []byte(object)); i < 0 {
		return nil, nil, fmt.Errorf("it has no %s", object)
	}
	vectors = make(map[string][]byte, len(words))
	for b = b[i+len(object):]; len(b) > 0 && b[0] == '"'; b = bytes.TrimPrefix(b, []byte(",")) {
		colon := bytes.Index(b, []byte(`":[`))
		end := bytes.IndexByte(b[max(0, colon+3):], ']')
		if colon < 0 || end < 0 {
			return nil, nil, fmt.Errorf("a vector is not complete")
		}
		var word string
		if err := json.Unmarshal(b[:colon+1], &word); err != nil {
			return nil, nil, err
		}
		vectors[word] = b[colon+3 : colon+3+end]
		b = b[colon+3+end+1:]
	}
	return words, vectors, nil
}

func parseVector(text []byte) ([]float32, error) {
	v := make([]float32, 0, fileDim)
	for part := range bytes.SplitSeq(text, []byte(",")) {
		x, err := strconv.ParseFloat(string(part), 32)
		if err != nil {
			return nil, err
		}
		if v = append(v, float32(x)); len(v) == fileDim {
			return v, nil
		}
	}
	return nil, fmt.Errorf("%d numbers instead of %d", len(v), fileDim)
}

// newVocabulary centres the vectors and gives each word a weight by its frequency. The extra
// dimensions begin with little.
func newVocabulary(stems map[string]*stem, extra int) *vocabulary {
	v := &vocabulary{index: make(map[string]int32)}
	for word := range stems {
		v.words = append(v.words, word)
	}
	slices.Sort(v.words)
	mean := make([]float32, fileDim)
	total := 0.0
	frequency := func(s *stem) float64 { return math.Pow(float64(s.rank)+2.7, -1.07) }
	for i, word := range v.words {
		v.index[word] = int32(i)
		s := stems[word]
		start := make([]float32, fileDim+extra)
		add(start[:fileDim], s.sum, 1/(norm(s.sum)+tiny))
		add(mean, start[:fileDim], 1/float32(len(v.words)))
		v.start = append(v.start, start)
		total += frequency(s)
	}
	random := rand.New(rand.NewPCG(7, 8))
	for i, word := range v.words {
		if stems[word].weight > 0 {
			add(v.start[i][:fileDim], mean, -1)
		}
		for k := range extra {
			v.start[i][fileDim+k] = extraStart * float32(random.NormFloat64())
		}
		p := frequency(stems[word]) / total
		v.weight = append(v.weight, float32(math.Log(rareWeight/(rareWeight+p))))
	}
	return v
}

// extraStart is the standard deviation of what extra dimensions begin with.
const extraStart = 0.03

// noVectors returns a model that knows no word.
func noVectors() *vectors.Model {
	m, err := vectors.Decode(string(vectors.Encode(nil, vectors.Shared{})))
	if err != nil {
		panic(err)
	}
	return m
}

func (v *vocabulary) count(words []string) []counted {
	all := make([]counted, 0, len(words))
	for _, w := range words {
		i, ok := v.index[w]
		if !ok {
			continue
		}
		if k := slices.IndexFunc(all, func(c counted) bool { return c.word == i }); k >= 0 {
			all[k].times++
		} else {
			all = append(all, counted{i, 1})
		}
	}
	return all
}

// vectorFields are those fields of a tool that have to do with its meaning.
const vectorFields = 5

// text returns the terms of a tool as numbers.
func (v *vocabulary) text(terms []index.Term) text {
	fields := make(text, vectorFields)
	for _, term := range terms {
		i, ok := v.index[term.Word]
		if !ok {
			continue
		}
		for f, n := range term.Count[:vectorFields] {
			if n > 0 {
				fields[f] = append(fields[f], counted{i, float32(n)})
			}
		}
	}
	return fields
}
