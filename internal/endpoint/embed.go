package endpoint

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/encoder"
)

const (
	maxText     = 1000 // bytes of a text; many models read 256 or 512 tokens, and llama.cpp refuses more
	requestTime = time.Minute
)

// Name returns the name of the model.
func (c *Client) Name() string { return c.model }

// Embed returns the vectors of texts, in their order, each of unit length. A text that the API refuses
// alone, while it takes another one, gets nil. With an error, it returns the vectors of the first texts.
func (c *Client) Embed(ctx context.Context, texts []string) ([]encoder.Vector, error) {
	return c.embed(ctx, texts, func(error) error {
		_, err := c.embedOnce(ctx, []string{"tool"})
		return err
	})
}

// Task returns the vectors of all of the texts. The error may be [ErrBusy] or [ErrPaused], at once.
func (c *Client) Task(ctx context.Context, texts []string) (all []encoder.Vector, err error) {
	err = c.breaker.Do(ctx, func() error {
		if all, err = c.embed(ctx, texts, func(err error) error { return err }); err != nil {
			select {
			case c.Late <- struct{}{}:
			default:
			}
		}
		return err
	})
	return all, err
}

// embed sends the texts. If the API refuses them, it sends each half: some APIs take few texts at a
// time, or no long ones. single gets the error of a text that is refused alone; if it returns nil,
// the text gets no vector.
func (c *Client) embed(ctx context.Context, texts []string, single func(error) error) (all []encoder.Vector, err error) {
	known := int(c.batch.Load())
	batch := known
	if known == 0 || len(texts) <= known {
		all, err = c.embedOnce(ctx, texts)
		switch {
		case !refused(err):
			return all, err
		case len(texts) == 1:
			return []encoder.Vector{nil}, single(err)
		}
		batch = (len(texts) + 1) / 2
	}
	for some := range slices.Chunk(texts, batch) {
		vectors, err := c.embed(ctx, some, single)
		if all = append(all, vectors...); err != nil {
			return all, err
		}
	}
	tooLong := slices.ContainsFunc(all, func(v encoder.Vector) bool { return v == nil })
	if smaller := known == 0 || batch < known; smaller && !tooLong {
		c.batch.CompareAndSwap(int64(known), int64(batch))
	}
	return all, nil
}

// embedOnce makes one request.
func (c *Client) embedOnce(ctx context.Context, texts []string) ([]encoder.Vector, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
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
			Index     int
			Embedding encoder.Vector
		}
	}
	if err := c.post(ctx, "/embeddings", request, &answer); err != nil {
		return nil, err
	}
	if len(answer.Data) != len(texts) {
		return nil, fmt.Errorf("the API has answered with %d vectors for %d texts", len(answer.Data), len(texts))
	}
	all := make([]encoder.Vector, len(texts))
	for _, d := range answer.Data {
		if d.Index < 0 || d.Index >= len(all) || all[d.Index] != nil {
			return nil, errors.New("the API has numbered the vectors wrongly")
		}
		if len(d.Embedding) != len(answer.Data[0].Embedding) || !normalize(d.Embedding) {
			return nil, fmt.Errorf("the API has answered with a vector that is not of 1 to %d numbers, not of the length of the others, or zero", encoder.MaxDim)
		}
		all[d.Index] = d.Embedding
	}
	return all, nil
}

// clip returns the beginning of a text, or "-" for an empty text, which many models refuse.
func clip(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), maxText)], "")
	if strings.TrimSpace(text) == "" {
		return "-"
	}
	return text
}

// normalize gives a vector unit length. It returns false if the vector has no direction or is too long.
func normalize(v encoder.Vector) bool {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	length := math.Sqrt(sum)
	if !(length > 0 && length <= math.MaxFloat64) || len(v) > encoder.MaxDim {
		return false
	}
	for i := range v {
		v[i] = float32(float64(v[i]) / length)
	}
	return true
}
