package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/internal/vectors"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// A corpus is tools and queries about them.
type corpus struct {
	name    string
	family  string // corpora that share tools have the same
	tools   []registry.NormalizedTool
	queries []selector.Example
	fold    []int // of each query: those about the same are in one
	learned bool  // from; else its queries are another's too
}

const manyFolds = 60 // divisible by any number of folds in use

func load(log *zap.Logger, dir string, large []string) (all []*corpus, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*", "queries.jsonl"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("-data %s: no folder in it has queries.jsonl", dir)
	}
	big := &corpus{name: "large", family: "large", learned: true}
	var files []string
	for _, name := range large {
		files = append(files, filepath.Join(dir, name, "tools.jsonl"))
	}
	for _, path := range paths {
		folder := filepath.Dir(path)
		c := &corpus{name: filepath.Base(folder), learned: true}
		c.family = c.name
		if c.queries, err = selector.ReadExamples(path); err != nil {
			return nil, err
		}
		if c.tools, err = selector.ReadCatalog(log, filepath.Join(folder, "tools.jsonl")); err != nil {
			return nil, err
		}
		if slices.Contains(large, c.name) {
			c.family, c.learned = big.family, false
			big.queries = append(big.queries, c.queries...)
		}
		all = append(all, c)
	}
	if len(big.queries) > 0 {
		if big.tools, err = selector.ReadCatalog(log, files...); err != nil {
			return nil, err
		}
		all = append(all, big)
	}
	for _, c := range all {
		c.split()
	}
	return all, nil
}

// split deals the queries out to folds.
func (c *corpus) split() {
	groups := make(map[string]int)
	random := rand.New(rand.NewPCG(1, 2))
	for _, q := range c.queries {
		g, known := groups[q.Group]
		if !known || q.Group == "" {
			g = random.IntN(manyFolds)
			groups[q.Group] = g
		}
		c.fold = append(c.fold, g)
	}
}

// A vocabulary is the words that have vectors, sorted.
type vocabulary struct {
	words  []string
	index  map[string]int32
	start  [][]float32
	weight []float32
}

const (
	commonWords = 40_000 // of the file, which begins with the most frequent
	rareWeight  = 1e-3   // the probability at which a word counts half
	oftenEnough = 3      // tools that have a word which is not in the file
	unknownRank = 30_000 // of such a word
)

// readVocabulary reads word vectors: of common words, and of those of the tools.
// Words with the same stem become one, each according to its frequency. Words of
// tools that the file lacks begin with nothing.
func readVocabulary(path string, corpora []*corpus) (*vocabulary, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("-words: %w", err)
	}
	var file struct {
		Words   []string             `json:"words"`
		Vectors map[string][]float32 `json:"vectors"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	used := make(map[string]int)
	for _, c := range corpora {
		for i := range c.tools {
			for _, t := range index.NewDocument(registry.Item{Tool: &c.tools[i]}, noVectors()).Terms {
				used[t.Word]++
			}
		}
	}
	const dim = 100
	type stem struct {
		sum    []float32
		weight float32
		rank   int
	}
	stems := make(map[string]*stem)
	for rank, word := range file.Words {
		form := index.Words(word)
		if len(form) != 1 || rank >= commonWords && used[form[0]] == 0 {
			continue
		}
		s := stems[form[0]]
		if s == nil {
			s = &stem{sum: make([]float32, dim), rank: rank}
			stems[form[0]] = s
		}
		share := 1 / (float32(rank) + 2.7)
		for i, x := range file.Vectors[word][:dim] {
			s.sum[i] += share * x
		}
		s.weight += share
	}
	for word, tools := range used {
		if stems[word] == nil && tools >= oftenEnough && strings.Trim(word, "0123456789") != "" {
			stems[word] = &stem{sum: make([]float32, dim), rank: unknownRank}
		}
	}
	v := &vocabulary{index: make(map[string]int32)}
	for word := range stems {
		v.words = append(v.words, word)
	}
	slices.Sort(v.words)
	mean := make([]float32, dim)
	total := 0.0
	frequency := func(s *stem) float64 { return math.Pow(float64(s.rank)+2.7, -1.07) }
	for i, word := range v.words {
		v.index[word] = int32(i)
		s := stems[word]
		start := scaled(s.sum, 1/(norm(s.sum)+tiny))
		for k, x := range start {
			mean[k] += x / float32(len(v.words))
		}
		v.start = append(v.start, start)
		total += frequency(s)
	}
	for i, word := range v.words {
		if stems[word].weight > 0 {
			for k := range mean {
				v.start[i][k] -= mean[k]
			}
		}
		p := frequency(stems[word]) / total
		v.weight = append(v.weight, float32(math.Log(rareWeight/(rareWeight+p))))
	}
	return v, nil
}

// noVectors returns a model that knows no word.
func noVectors() *vectors.Model {
	m, err := vectors.Decode(vectors.Encode(nil, nil))
	if err != nil {
		panic(err)
	}
	return m
}

func (v *vocabulary) count(words []string) []counted {
	times := make(map[int32]float32)
	var order []int32
	for _, w := range words {
		if i, ok := v.index[w]; ok {
			if times[i] == 0 {
				order = append(order, i)
			}
			times[i]++
		}
	}
	all := make([]counted, len(order))
	for i, w := range order {
		all[i] = counted{w, times[w]}
	}
	return all
}

// vectorFields are those fields of a tool that have to do with its meaning.
const vectorFields = 5

// text returns a tool as its words.
func (v *vocabulary) text(t *registry.NormalizedTool) text {
	fields := make(text, vectorFields)
	for _, term := range index.NewDocument(registry.Item{Tool: t}, noVectors()).Terms {
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

const maxTaskWords = 150

func taskWords(q *selector.Example) []string {
	words := selector.Words(q.Text)
	return words[:min(len(words), maxTaskWords)]
}
