package classify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Tolerances of the protocol: of the sum of probabilities, and by how much the
// class may be less probable than another one.
const (
	sumTolerance = 0.05
	leastShare   = 0.9
	rounding     = 1e-6 // of a float32 that is 1
)

// An opinion is what the server says of a text.
type opinion struct {
	Class         int
	Confidence    float64
	Probabilities []float64 // one for each of its categories
	Model         string
	UseReasoning  *bool
}

// decide asks the server, which has n categories, and believes nothing that is not
// sound.
func (s *outside) decide(ctx context.Context, text string, n int) (v opinion, err error) {
	var said struct {
		Class         *int      `json:"class"`
		Confidence    *float64  `json:"confidence"`
		Probabilities []float64 `json:"probabilities"`
		Model         string    `json:"model"`
		UseReasoning  *bool     `json:"use_reasoning"`
		Degraded      bool      `json:"degraded"` // only a router says so: see Outcome
	}
	arguments := struct {
		Text              string `json:"text"`
		WithProbabilities bool   `json:"with_probabilities"`
	}{text, true}
	if err := s.ask(ctx, s.options.ClassifyTool, arguments, &said); err != nil {
		return v, fmt.Errorf("%s: %w", s.options.ClassifyTool, err)
	}
	switch {
	case said.Degraded: // it may be ourselves that it waits for
		return v, refuse("%s: its own outside classifier is down", s.options.ClassifyTool)
	case said.Class == nil || said.Confidence == nil:
		return v, refuse("%s: the answer lacks a class or a confidence", s.options.ClassifyTool)
	case *said.Class < 0 || *said.Class >= n:
		return v, refuse("%s: class %d of %d", s.options.ClassifyTool, *said.Class, n)
	case !isProbability(*said.Confidence):
		return v, refuse("%s: confidence %v is not from 0 to 1", s.options.ClassifyTool, *said.Confidence)
	case len(said.Model) > maxName:
		return v, refuse("%s: the model's name is too long", s.options.ClassifyTool)
	}
	v = opinion{Class: *said.Class, Confidence: min(*said.Confidence, 1), Model: said.Model, UseReasoning: said.UseReasoning}
	if v.Probabilities, err = spread(v.Class, v.Confidence, said.Probabilities, n); err != nil {
		return v, fmt.Errorf("%s: %w", s.options.ClassifyTool, err)
	}
	return v, nil
}

func isProbability(x float64) bool { return x >= 0 && x <= 1+rounding }

// spread returns the distribution in which the class has the confidence, or what it
// takes to be the largest, and the other categories share the rest: in proportion to
// what they were said to have, or evenly if nothing was said.
func spread(class int, confidence float64, said []float64, n int) ([]float64, error) {
	p := slices.Repeat([]float64{1}, n)
	if said != nil {
		sum := 0.0
		for _, x := range said {
			if !isProbability(x) {
				return nil, refuse("probability %v is not from 0 to 1", x)
			}
			sum += x
		}
		switch {
		case len(said) != n:
			return nil, refuse("%d probabilities for %d categories", len(said), n)
		case math.Abs(sum-1) > sumTolerance:
			return nil, refuse("the probabilities' sum is %v", sum)
		case said[class] < float64(leastShare*slices.Max(said)):
			return nil, refuse("class %d is not the most probable", class)
		}
		copy(p, said)
	}
	p[class] = 0
	rest := 0.0
	for _, x := range p {
		rest += x
	}
	if rest == 0 { // nothing else may be it
		p[class] = 1
		return p, nil
	}
	lead := margin * slices.Max(p) / rest
	confidence = max(confidence, lead/(1+lead)) // confidence = (1-confidence)*lead
	for i := range p {
		p[i] *= (1 - confidence) / rest
	}
	p[class] = confidence
	return p, nil
}

// ask calls a tool, again if it can't be reached, within the time of one
// classification, and decodes the JSON of its text into answer.
func (s *outside) ask(ctx context.Context, tool string, arguments, answer any) error {
	late := fmt.Errorf("no answer within %s", s.options.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.Timeout, late)
	defer cancel()
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval = 50 * time.Millisecond
	raw, err := backoff.Retry(ctx, func() (json.RawMessage, error) {
		raw, err := s.caller.call(ctx, tool, arguments)
		if _, answered := errors.AsType[*refusal](err); answered {
			return nil, backoff.Permanent(err)
		}
		return raw, err
	}, backoff.WithMaxTries(uint(s.options.MaxRetries)+1), backoff.WithBackOff(pauses),
		backoff.WithNotify(func(error, time.Duration) { s.doubt() })) // it may come back with another list
	if ctx.Err() != nil && err != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	return decode(raw, answer)
}

// decode reads the JSON that is in the text of a CallToolResult.
func decode(raw json.RawMessage, answer any) error {
	var result struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
		IsError bool `json:"isError"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return refuse("the answer is no tool result: %v", err)
	}
	for _, c := range result.Content {
		if c.Type != "text" {
			continue
		}
		if result.IsError {
			return refuse("it says: %.200s", c.Text)
		}
		var failed struct {
			Error string `json:"error"`
		}
		if json.Unmarshal([]byte(c.Text), &failed) == nil && failed.Error != "" {
			return refuse("it says: %.200s", failed.Error)
		}
		if err := json.Unmarshal([]byte(c.Text), answer); err != nil {
			return refuse("the text of the answer is not the JSON that was expected: %v", err)
		}
		return nil
	}
	return refuse("the answer has no text")
}
