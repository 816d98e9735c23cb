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
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Tolerances of the protocol: of the sum of probabilities, and of the probability of the
// class compared with the largest one.
const (
	sumTolerance = 0.05
	leastShare   = 0.9
	rounding     = 1e-6 // of a float32 that is 1
)

// A verdict is the outside server's classification of a text.
type verdict struct {
	Class         int
	Probabilities []float64 // one for each of its categories
	Model         string
	UseReasoning  *bool
}

// askVerdict asks the server, which has n categories, and checks its answer.
func (s *outside) askVerdict(ctx context.Context, text string, n int) (v verdict, err error) {
	var answer struct {
		Class         *int      `json:"class"`
		Confidence    *float64  `json:"confidence"`
		Probabilities []float64 `json:"probabilities"`
		Model         string    `json:"model"`
		UseReasoning  *bool     `json:"use_reasoning"`
		Degraded      bool      `json:"degraded"` // of another router: see Outcome
	}
	arguments := struct {
		Text              string `json:"text"`
		WithProbabilities bool   `json:"with_probabilities"`
	}{text, true}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", s.options.ClassifyTool, err)
		}
	}()
	if err := s.ask(ctx, s.options.ClassifyTool, arguments, &answer); err != nil {
		return v, err
	}
	switch {
	case answer.Degraded: // it may be this router that it waits for
		return v, badAnswer("its own outside classifier is down")
	case answer.Class == nil || answer.Confidence == nil:
		return v, badAnswer("the answer lacks a class or a confidence")
	case *answer.Class < 0 || *answer.Class >= n:
		return v, badAnswer("class %d of %d", *answer.Class, n)
	case !isProbability(*answer.Confidence):
		return v, badAnswer("confidence %v is not from 0 to 1", *answer.Confidence)
	case len(answer.Model) > maxName:
		return v, badAnswer("the model's name is too long")
	}
	v = verdict{Class: *answer.Class, Model: answer.Model, UseReasoning: answer.UseReasoning}
	v.Probabilities, err = distribution(v.Class, min(*answer.Confidence, 1), answer.Probabilities, n)
	return v, err
}

func isProbability(x float64) bool { return x >= 0 && x <= 1+rounding }

// distribution returns n probabilities with the sum 1. The class has the confidence, or
// more if that is needed for the largest probability. The others share the rest in
// proportion to the answered probabilities, or evenly without them.
func distribution(class int, confidence float64, answered []float64, n int) ([]float64, error) {
	p := slices.Repeat([]float64{1}, n)
	if answered != nil {
		sum := 0.0
		for _, x := range answered {
			if !isProbability(x) {
				return nil, badAnswer("probability %v is not from 0 to 1", x)
			}
			sum += x
		}
		switch {
		case len(answered) != n:
			return nil, badAnswer("%d probabilities for %d categories", len(answered), n)
		case math.Abs(sum-1) > sumTolerance:
			return nil, badAnswer("the probabilities' sum is %v", sum)
		case answered[class] < leastShare*slices.Max(answered):
			return nil, badAnswer("class %d is not the most probable", class)
		}
		copy(p, answered)
	}
	p[class] = 0
	rest := 0.0
	for _, x := range p {
		rest += x
	}
	if rest == 0 { // all other categories are impossible
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

// ask calls a tool and decodes the JSON in the text of its result into answer. It calls
// again if the server cannot be reached, within the timeout of one classification.
func (s *outside) ask(ctx context.Context, tool string, arguments, answer any) error {
	late := fmt.Errorf("no answer within %s", s.options.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.Timeout, late)
	defer cancel()
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval = 50 * time.Millisecond
	result, err := backoff.Retry(ctx, func() (*mcp.CallToolResult, error) {
		result, err := s.caller.call(ctx, tool, arguments)
		if _, answered := errors.AsType[*answerError](err); answered {
			return nil, backoff.Permanent(err)
		}
		return result, err
	}, backoff.WithMaxTries(uint(s.options.MaxRetries)+1), backoff.WithBackOff(pauses),
		backoff.WithNotify(func(error, time.Duration) { s.probeSoon() })) // it may come back with another list
	if ctx.Err() != nil && err != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	return decode(result, answer)
}

// decode decodes the JSON in the first text of a result.
func decode(result *mcp.CallToolResult, answer any) error {
	i := slices.IndexFunc(result.Content, func(c mcp.Content) bool { _, ok := c.(*mcp.TextContent); return ok })
	if i < 0 {
		return badAnswer("the answer has no text")
	}
	text := result.Content[i].(*mcp.TextContent).Text
	if result.IsError {
		return badAnswer("it says: %.200s", text)
	}
	var failed struct {
		Error string `json:"error"`
	}
	if json.Unmarshal([]byte(text), &failed) == nil && failed.Error != "" {
		return badAnswer("it says: %.200s", failed.Error)
	}
	if err := json.Unmarshal([]byte(text), answer); err != nil {
		return badAnswer("the text of the answer is not the JSON that was expected: %v", err)
	}
	return nil
}
