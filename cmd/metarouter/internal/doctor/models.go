package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/embeddings"
	"github.com/mcp-metarouter/metarouter/internal/endpoint"
)

const loadTime = 30 * time.Second // for an API to load the model

// AskEmbeddings asks the model of "embeddings" for vectors. The error is for [Case].
func AskEmbeddings(ctx context.Context, e *config.Endpoint) error {
	if e == nil {
		return nil
	}
	model, err := endpoint.New(e.URL, e.Model, e.Headers)
	if err != nil {
		return err
	}
	defer model.Close()
	limited, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	_, err = model.Embed(limited, []string{"files: Read a text file", "clock: Tell the time"})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("it does not answer within %v", loadTime)
	case err != nil:
		return err
	}
	hurried, cancel := context.WithTimeout(ctx, embeddings.TaskTime)
	defer cancel()
	if _, err := model.Task(hurried, []string{"What does the file notes.txt say?"}); err != nil {
		return fmt.Errorf("it has no vector for a task within %v: %w", embeddings.TaskTime, err)
	}
	return nil
}

// checkModels reports the faults of the models that the configuration names.
func checkModels(x *findings, c Case) {
	if c.Embeddings != nil {
		x.add(Warning, fmt.Sprintf("the model of \"embeddings\" is of no use (%v), so searches find tools by words alone.", c.Embeddings),
			`correct its "url", "model" and "headers", name a smaller model, or take "embeddings" out of the configuration`)
	}
}
