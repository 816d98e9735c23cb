// Package model says which tools are language models: package openai makes them, and package mux lets them stand in for each
// other.
package model

import (
	"slices"

	"github.com/mcp-metarouter/metarouter/registry"
)

// Input is the input schema of a language model. Tools that have it stand in for each other. The
// names are from OpenAI's chat API, except prompt and system.
const Input = `{"type":"object","properties":{` +
	`"prompt":{"type":"string","minLength":1,"description":"What to ask. Comes after messages, if there are any."},` +
	`"system":{"type":"string","description":"What holds for the whole answer: role, tone, form."},` +
	`"messages":{"type":"array","minItems":1,"description":"A conversation so far, oldest first.","items":{"type":"object","properties":{` +
	`"role":{"enum":["system","developer","user","assistant"]},` +
	`"content":{"type":["string","array"],"description":"A text, or parts as the chat API has them: {\"type\":\"text\",\"text\":…}, {\"type\":\"image_url\",\"image_url\":{\"url\":…}}.","items":{}}},` +
	`"required":["role","content"]}},` +
	`"max_tokens":{"type":"integer","minimum":1,"description":"The most tokens of the answer, reasoning included."},` +
	`"temperature":{"type":"number","minimum":0,"maximum":2},` +
	`"top_p":{"type":"number","minimum":0,"maximum":1},` +
	`"stop":{"type":["string","array"],"items":{"type":"string"},"description":"The answer ends before these."},` +
	`"seed":{"type":"integer"},` +
	`"reasoning_effort":{"type":"string","description":"For models that reason: minimal, low, medium or high."},` +
	`"response_format":{"type":"object","description":"As the chat API has it, such as {\"type\":\"json_object\"}."}` +
	`},"additionalProperties":false}`

// Is reports whether the tool is a language model: it has [Input] and the
// capabilities ai and chat.
func Is(t *registry.NormalizedTool) bool {
	return slices.Contains(t.Capabilities, "ai") && slices.Contains(t.Capabilities, "chat") && string(t.InputSchema) == Input
}
