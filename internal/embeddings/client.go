// Package embeddings makes vectors of texts, by the model in the program or by an
// OpenAI-compatible API, and keeps those of tools on disk.
//
// A [Client] sends texts to an API, and [Builtin] needs none. A [Store] has a vector for each text that was sent, by the hash of
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

	"github.com/mcp-metarouter/metarouter/internal/encoder"
	"github.com/mcp-metarouter/metarouter/internal/endpoint"
	"github.com/mcp-metarouter/metarouter/internal/vectors"
)

const (
	maxBatch  = 32             // texts of a request; TEI takes no more
	maxText   = 1000           // bytes of a text; many models read 256 or 512 tokens, and llama.cpp refuses more
	maxDim    = encoder.MaxDim // numbers of a vector
	maxAnswer = 16 << 20       // bytes

	// TaskTime is how long a search waits for the vector of its task.
	TaskTime = 150 * time.Millisecond
)

// A Client gets vectors from a model behind an API. It must be closed.
type Client struct {
	api   *endpoint.Client
	model string
	tasks endpoint.Breaker // so that no search waits while the API is slow
	Late  chan struct{}    // has something after a Task that has failed; see [Store.Wake]
}

// New returns a client of the model at the base URL. It sends nothing yet.
func New(base, model string, headers map[string]string) (*Client, error) {
	api, err := endpoint.New(base, headers)
	if err != nil {
		return nil, err
	}
	return &Client{api: api, model: model, Late: make(chan struct{}, 1)}, nil
}

// Close closes connections that are not in use.
func (c *Client) Close() { c.api.Close() }

// Name implements [Model].
func (c *Client) Name() string { return c.model }

// Task implements [Model].
func (c *Client) Task(ctx context.Context, texts []string) (all []vectors.Vector, err error) {
	ctx, cancel := context.WithTimeout(ctx, TaskTime)
	defer cancel()
	err = c.tasks.Do(ctx, func() error {
		if all, err = c.Embed(ctx, texts); err == nil {
			return nil
		}
		select {
		case c.Late <- struct{}{}:
		default:
		}
		return err
	})
	return all, err
}

// Embed returns the vectors of the texts, in their order: at most 32.
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
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if length := math.Sqrt(sum); len(v) <= maxDim && length > 0 && length <= math.MaxFloat64 {
		for i := range v {
			v[i] = float32(float64(v[i]) / length)
		}
		return true
	}
	return false
}
