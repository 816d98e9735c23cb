// Package embeddings gets vectors of texts from an OpenAI-compatible API, and keeps those of
// tools on disk.
//
// A [Client] sends texts. A [Store] has a vector for each text that was sent, by the hash of
// model and text. A [Set] is the vectors of all tools at one time. The answers are an outsider's:
// they are bounded and checked, and every vector has unit length.
package embeddings

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/endpoint"
	"github.com/mcp-metarouter/metarouter/internal/vectors"
)

const (
	maxBatch  = 64       // texts of a request
	maxText   = 2000     // bytes of a text
	maxDim    = 4096     // numbers of a vector
	maxAnswer = 16 << 20 // bytes

	// TaskTime is how long a search waits for the vector of its task.
	TaskTime = 150 * time.Millisecond
)

// A Client gets vectors from a model behind an API. It must be closed.
type Client struct {
	api   *endpoint.Client
	model string
	tasks endpoint.Breaker // so that no search waits while the API is slow
}

// New returns a client of the model at the base URL. It sends nothing yet.
func New(base, model string, headers map[string]string) (*Client, error) {
	api, err := endpoint.New(base, headers)
	if err != nil {
		return nil, err
	}
	return &Client{api: api, model: model}, nil
}

// Close closes connections that are not in use.
func (c *Client) Close() { c.api.Close() }

// Task returns the vector of a task, or an error after [TaskTime] at the latest.
func (c *Client) Task(ctx context.Context, task string) (v vectors.Vector, err error) {
	ctx, cancel := context.WithTimeout(ctx, TaskTime)
	defer cancel()
	err = c.tasks.Do(ctx, func() error {
		all, err := c.Embed(ctx, []string{task})
		if err == nil {
			v = all[0]
		}
		return err
	})
	return v, err
}

// Embed returns the vectors of the texts, in their order: at most 64.
func (c *Client) Embed(ctx context.Context, texts []string) ([]vectors.Vector, error) {
	request := struct {
		Model    string   `json:"model"`
		Input    []string `json:"input"`
		Encoding string   `json:"encoding_format"`
	}{c.model, make([]string, len(texts)), "float"}
	for i, text := range texts {
		request.Input[i] = clip(text)
	}
	var answer struct {
		Data []struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := c.api.Post(ctx, "/embeddings", request, &answer, maxAnswer); err != nil {
		return nil, err
	}
	if len(answer.Data) != len(texts) {
		return nil, fmt.Errorf("the API has answered with %d vectors for %d texts", len(answer.Data), len(texts))
	}
	all := make([]vectors.Vector, len(texts))
	for _, d := range answer.Data {
		if d.Index < 0 || d.Index >= len(all) || all[d.Index] != nil {
			return nil, errors.New("the API has numbered the vectors wrongly")
		}
		if len(d.Embedding) != len(answer.Data[0].Embedding) || !normalize(d.Embedding) {
			return nil, fmt.Errorf("the API has answered with a vector that is not of 1 to %d numbers, not of the length of the others, or zero", maxDim)
		}
		all[d.Index] = d.Embedding
	}
	return all, nil
}

// clip returns what is sent of a text. An empty text is refused by many models.
func clip(text string) string {
	if len(text) > maxText {
		text = text[:maxText]
	}
	if text = strings.ToValidUTF8(text, ""); strings.TrimSpace(text) == "" {
		return "-"
	}
	return text
}

// normalize gives a vector unit length, if it has a direction.
func normalize(v vectors.Vector) bool {
	if len(v) == 0 || len(v) > maxDim {
		return false
	}
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if length := math.Sqrt(sum); length > 0 && !math.IsInf(length, 0) && !math.IsNaN(length) {
		for i := range v {
			v[i] = float32(float64(v[i]) / length)
		}
		return true
	}
	return false
}
