package server

import (
	"context"
	"encoding/json"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// The classification protocol of vLLM semantic router: two tools whose answers are
// JSON in a text.

func (s *Server) listCategories(ctx context.Context, _ json.RawMessage, _ *call) (json.RawMessage, error) {
	return answer(s.router.Classifier().Categories(ctx)), nil
}

type classifyArguments struct {
	Text              string `json:"text"`
	WithProbabilities bool   `json:"with_probabilities"`
}

func (s *Server) classifyText(ctx context.Context, args json.RawMessage, _ *call) (json.RawMessage, error) {
	var a classifyArguments
	if err := json.Unmarshal(args, &a); err != nil {
		return failure("classify_text: %v", err), nil
	}
	o, err := s.router.Classifier().Classify(ctx, a.Text)
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
