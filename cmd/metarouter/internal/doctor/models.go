package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/assist"
	"github.com/mcp-metarouter/metarouter/internal/embeddings"
)

const (
	loadTime   = 30 * time.Second // for an API to load the model
	answerTime = 3 * time.Second  // that a search waits
)

// AskAssist asks the model of "assist" an easy question, as a search does, and returns its fault,
// for [Case]. It asks nothing if the configuration names no API.
func AskAssist(ctx context.Context, c *config.Assist) error {
	if c == nil || c.URL == "" {
		return nil
	}
	model, err := assist.New(c.URL, c.Model, c.Headers)
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

// AskEmbeddings asks the model of "embeddings" for two vectors, and returns its fault, for
// [Case]. It asks nothing if the configuration names no model.
func AskEmbeddings(ctx context.Context, e *config.Endpoint) error {
	if e == nil {
		return nil
	}
	model, err := embeddings.New(e.URL, e.Model, e.Headers)
	if err != nil {
		return err
	}
	defer model.Close()
	limited, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	if _, err = model.Embed(limited, []string{"files: Read a text file", "clock: Tell the time"}); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("it does not answer within %v", loadTime)
		}
		return err
	}
	if _, err := model.Task(ctx, []string{"What does the file notes.txt say?"}); err != nil {
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
