package tools

import (
	"context"
	"encoding/json"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// listCategories and classifyText follow the classification protocol of vLLM semantic
// router: their answers are JSON in a text.

func (t *Tools) listCategories(ctx context.Context, _ json.RawMessage, _ *call) (json.RawMessage, error) {
	return answer(t.Router.Classifier().Categories(ctx)), nil
}

type classifyArguments struct {
	Text              string `json:"text"`
	WithProbabilities bool   `json:"with_probabilities"`
}

func (t *Tools) classifyText(ctx context.Context, a classifyArguments, _ *call) (json.RawMessage, error) {
	o, err := t.Router.Classifier().Classify(ctx, a.Text)
	if err != nil {
		return failure("classify_text: %v", err), nil
	}
	if !a.WithProbabilities {
		o.Probabilities = nil
	}
	result := answer(o)
	if o.Degraded {
		result = wire.AddMember(result, "_meta", []byte(`{"degraded":true}`))
	}
	return result, nil
}
