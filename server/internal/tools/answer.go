package tools

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// answer returns a tool result that holds v, as text and as structured content.
func answer(v any) json.RawMessage {
	structured := wire.Marshal(v)
	return wire.Marshal(struct {
		Content    []textContent   `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
	}{[]textContent{{"text", string(structured)}}, structured})
}

// failure returns a tool result that says why a call has failed.
func failure(format string, args ...any) json.RawMessage {
	return wire.Marshal(struct {
		Content []textContent `json:"content"`
		IsError bool          `json:"isError"`
	}{[]textContent{{"text", fmt.Sprintf(format, args...)}}, true})
}

type textContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// round returns a score as it is shown.
func round(score float64) float64 {
	if math.IsNaN(score) || math.IsInf(score, 0) {
		return 0
	}
	return math.Round(score*1000) / 1000
}
