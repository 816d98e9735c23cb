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

const loadTime, answerTime = 30 * time.Second, 3 * time.Second // for an API to load the model; that a search waits

// AskAssist asks the model of "assist", if an API has it, an easy question. The error is for [Case].
func AskAssist(ctx context.Context, c *config.Assist) error {
	if c == nil || c.URL == "" {
		return nil
	}
	model, err := endpoint.New(c.URL, c.Model, c.Headers)
	if err != nil {
		return err
	}
	defer model.Close()
	var chosen int
	for _, most := range []time.Duration{loadTime, answerTime} {
		limited, cancel := context.WithTimeout(ctx, most)
		chosen, err = model.Choose(limited, "What does the file notes.txt say?", []string{
			"clock:now: Tell the time", "files:read_file: Read a text file", "mail:send: Send a mail",
		})
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("it does not answer within %v", most)
		}
		if err != nil {
			return err
		}
	}
	if chosen != 1 {
		return errors.New("it does not find the tool that reads a file among three")
	}
	return nil
}

// AskEmbeddings is as [AskAssist], for the model of "embeddings".
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
	if c.Assist != nil {
		x.add(Warning, fmt.Sprintf("the model of \"assist\" is of no use (%v), so searches that are not sure go on without it.", c.Assist),
			`correct its "url", "model" and "headers", name a small model that answers at once, or take "assist" out of the configuration`)
	}
	if c.Embeddings != nil {
		x.add(Warning, fmt.Sprintf("the model of \"embeddings\" is of no use (%v), so searches find tools by words alone.", c.Embeddings),
			`correct its "url", "model" and "headers", name a smaller model, or take "embeddings" out of the configuration`)
	}
}
