// Command train fits the weights of features and the calibration of confidence that the selector
// uses, and measures its search.
//
//	go run ./train -data DIR measure   measures the program as it is with public queries
//	go run ./train -data DIR -train DIR -natural DIR -lists DIR choose NAME...
//	        says how much each feature brings to the ones named, for sources of tasks that nothing was fitted to
//	go run ./train (the same) fit
//	        fits weights and confidence, and says how good they are for sources that they were not fitted to;
//	        -learned ../selector/internal/rank/learned.go writes them
//
// The folder of -data has a folder for each corpus, with tools.jsonl and queries.jsonl. That of
// -train has pairs of a query and a tool, of which synthetic catalogs are made; see readPairs. That of
// -natural has catalogs with tasks in people's words, whose lists of tools are in -lists.
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
)

func main() {
	var t trainer
	flag.StringVar(&t.data, "data", "", "folder of corpora")
	flag.StringVar(&t.train, "train", "", "folder of pairs of a query and a tool")
	large := flag.String("large", "livemcpbench,mcpbench,mcp-pool", "corpora that are also one, comma-separated")
	flag.StringVar(&t.natural, "natural", "", "folder of catalogs with tasks in people's words")
	flag.StringVar(&t.siblings, "siblings", "train/siblings", "folder of catalogs with tools that differ by a word, and tasks")
	flag.StringVar(&t.lists, "lists", "", "folder of the recorded lists of tools of these catalogs")
	flag.StringVar(&t.vectors, "vectors", "", "folder that keeps the vectors of tools")
	flag.StringVar(&t.samples, "samples", "", "file that keeps what was found, so that fitting again is fast; remove it after a change of the search")
	flag.StringVar(&t.learned, "learned", "", "file for what fit finds; empty writes none")
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
	data, train, natural, siblings, lists, vectors, samples, learned string

	large   []string
	corpora []*corpus
}

func (t *trainer) run(ctx context.Context, todo []string) (err error) {
	if t.corpora, err = load(zap.NewNop(), t.data, t.large); err != nil {
		return err
	}
	switch strings.Join(todo[:min(len(todo), 1)], "") {
	case "choose":
		return t.choose(ctx, todo[1:])
	case "fit":
		return t.fit(ctx)
	case "measure":
		return t.measure(ctx)
	}
	return errors.New("write what to do: choose, fit or measure")
}
