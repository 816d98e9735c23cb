// Command train fits the weights of features and the calibration of confidence that the selector
// uses, and measures its search. It learns from catalogs of tools, and from queries with the tools
// that they need, and reports on queries that it has not learned from.
//
//	go run ./train -data DIR measure   measures the program as it is
//	go run ./train -data DIR -train DIR -natural DIR -lists DIR fit
//	        fits weights and calibration; -learned ../selector/internal/rank/learned_sentences.go
//	        writes them
//
//	go run ./train -data DIR -train DIR -natural DIR -lists DIR -vectors DIR choose NAME...
//	        says what each feature brings to the ones named, for sources of tasks that nothing was fitted to
//
// The folder of -data has a folder for each corpus, with tools.jsonl and queries.jsonl. That of
// -train has pairs of a query and a tool, of which synthetic catalogs are made, and may be left
// out; see readPairs. With -words-only, both do without the vectors of sentences, and fit makes
// the weights for tasks without them, of learned_words.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"

	"go.uber.org/zap"
)

func main() {
	var t trainer
	flag.StringVar(&t.data, "data", "", "folder of corpora")
	flag.StringVar(&t.train, "train", "", "folder of pairs of a query and a tool")
	large := flag.String("large", "livemcpbench,mcpbench,mcp-pool", "corpora that are also one, comma-separated")
	flag.StringVar(&t.natural, "natural", "", "folder of catalogs with tasks in people's words")
	flag.StringVar(&t.lists, "lists", "", "folder of the recorded lists of tools of these catalogs")
	flag.StringVar(&t.samples, "samples", "", "file that keeps what was found, so that fitting again is fast; remove it after a change of the search")
	flag.StringVar(&t.learned, "learned", "", "file for the weights that fit finds; empty writes none")
	flag.StringVar(&t.rank, "rank", "../selector/internal/rank", "folder of the package rank")
	flag.StringVar(&t.vectors, "vectors", "", "folder that keeps the vectors of tools")
	flag.StringVar(&t.siblings, "siblings", "train/siblings", "folder of catalogs with tools that differ by a word, and tasks")
	flag.BoolVar(&t.wordsOnly, "words-only", false, "without the vectors of sentences")
	flag.BoolVar(&t.holdout, "holdout", false, "with fit: report the natural catalogs that nothing is fitted to, and fit nothing")
	flag.Parse()
	t.large = strings.Split(*large, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := t.run(ctx, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A trainer fits and measures. Its fields are the flags, and the corpora.
type trainer struct {
	data, train                            string
	large                                  []string
	natural, lists, samples, learned, rank string
	vectors, siblings                      string
	wordsOnly, holdout                     bool

	corpora []*corpus
}

func (t *trainer) run(ctx context.Context, todo []string) (err error) {
	if t.corpora, err = load(zap.NewNop(), t.data, t.large); err != nil {
		return err
	}
	switch {
	case slices.Contains(todo, "fit"):
		return t.fitAll(ctx, todo)
	case len(todo) > 0 && todo[0] == "choose":
		return t.choose(ctx, todo[1:])
	case slices.Equal(todo, []string{"measure"}):
		return t.measure(ctx)
	}
	return errors.New("write what to do: fit or measure")
}
