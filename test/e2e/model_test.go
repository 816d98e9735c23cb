//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A model plays a language model for a client: it answers each request of the conversation with
// the next turn. It speaks Anthropic's Messages API, OpenAI's Responses API and Google's Gemini API, all as streams.
type model struct {
	t   *testing.T
	url string

	mu       sync.Mutex // guards the fields below, and is held during a turn
	turns    []turn
	requests []request
}

// A request is a request of the client to the model.
type request struct {
	tools  []string // that it may call
	result string   // of the last call
}

// A turn is the model's next action.
type turn func(request) move

// A move is the call of a tool, or else the text that ends the conversation.
type move struct {
	tool      string
	arguments map[string]any
	text      string
}

// lastWord ends a conversation with the last result.
func lastWord(r request) move { return move{text: r.result} }

// playModel starts a model that ends with the test.
func playModel(t *testing.T, turns ...turn) *model {
	t.Helper()
	m := &model{t: t, turns: turns}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/messages", m.messages)
	mux.HandleFunc("POST /v1/responses", m.responses)
	mux.HandleFunc("POST /v1beta/models/", m.generateContent)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	m.url = server.URL
	return m
}

// play replaces the turns.
func (m *model) play(turns []turn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turns = turns
}

// asked returns the requests so far, of which there is one for each turn.
func (m *model) asked() []request {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.requests) != len(m.turns) {
		m.t.Fatalf("the model was asked %d times, want %d", len(m.requests), len(m.turns))
	}
	return slices.Clone(m.requests)
}

// next answers a request, and returns its number. One without tools is not of the conversation:
// the client asks for a title, say.
func (m *model) next(r request) (id int, _ move) {
	if len(r.tools) == 0 {
		return -1, move{text: "yes"}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	id = len(m.requests)
	m.requests = append(m.requests, r)
	if id >= len(m.turns) {
		return id, move{text: "the model has nothing more to say"}
	}
	return id, m.turns[id](r)
}

// messages speaks the Messages API.
func (m *model) messages(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Model    string
		Tools    []struct{ Name string }
		Messages []struct{ Content json.RawMessage }
	}
	m.read(r, &body)
	var asked request
	for _, tool := range body.Tools {
		asked.tools = append(asked.tools, tool.Name)
	}
	for _, message := range body.Messages {
		var blocks []struct {
			Type    string
			Content json.RawMessage
		}
		json.Unmarshal(message.Content, &blocks) // a string has no result
		for _, block := range blocks {
			if block.Type == "tool_result" {
				asked.result = textOf(block.Content)
			}
		}
	}
	id, next := m.next(asked)
	block, delta, stop := map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text_delta", "text": next.text}, "end_turn"
	if next.tool != "" {
		block = map[string]any{"type": "tool_use", "id": fmt.Sprintf("toolu_%d", id), "name": next.tool, "input": map[string]any{}}
		delta, stop = map[string]any{"type": "input_json_delta", "partial_json": string(quote(next.arguments))}, "tool_use"
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range []map[string]any{
		{"type": "message_start", "message": map[string]any{
			"id": fmt.Sprintf("msg_%d", id), "type": "message", "role": "assistant", "model": body.Model, "content": []any{},
			"usage": map[string]any{"input_tokens": 1, "output_tokens": 1},
		}},
		{"type": "content_block_start", "index": 0, "content_block": block},
		{"type": "content_block_delta", "index": 0, "delta": delta},
		{"type": "content_block_stop", "index": 0},
		{"type": "message_delta", "delta": map[string]any{"stop_reason": stop}, "usage": map[string]any{"output_tokens": 1}},
		{"type": "message_stop"},
	} {
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event["type"], quote(event))
	}
}

// responses speaks the Responses API. A tool of a namespace is called NAMESPACE.NAME.
func (m *model) responses(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Tools []struct{ Type, Name string }
		Input []struct {
			Output json.RawMessage
			Tools  []struct{ Tools []struct{ Name string } } // that a search has found
		}
	}
	m.read(r, &body)
	var asked request
	for _, tool := range body.Tools {
		asked.tools = append(asked.tools, tool.Type+" "+tool.Name)
	}
	for _, item := range body.Input {
		if item.Output != nil || item.Tools != nil {
			asked.result = textOf(item.Output)
		}
		for _, set := range item.Tools {
			for _, tool := range set.Tools {
				asked.result += tool.Name + " "
			}
		}
	}
	id, next := m.next(asked)
	item := map[string]any{"type": "message", "role": "assistant", "content": []any{map[string]any{"type": "output_text", "text": next.text}}}
	if namespace, tool, _ := strings.Cut(next.tool, "."); tool != "" {
		item = map[string]any{"type": "function_call", "namespace": namespace, "name": tool, "arguments": string(quote(next.arguments))}
	} else if next.tool != "" {
		item = map[string]any{"type": next.tool + "_call", "execution": "client", "arguments": next.arguments}
	}
	item["id"], item["call_id"] = fmt.Sprintf("item_%d", id), fmt.Sprintf("call_%d", id)
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range []map[string]any{
		{"type": "response.created", "response": map[string]any{"id": "r"}},
		{"type": "response.output_item.done", "output_index": 0, "item": item},
		{"type": "response.completed", "response": map[string]any{"id": "r", "usage": map[string]any{"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}}},
	} {
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event["type"], quote(event))
	}
}

// generateContent speaks the Gemini API.
func (m *model) generateContent(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Tools []struct {
			FunctionDeclarations []struct{ Name string }
		}
		Contents []struct {
			Parts []struct {
				FunctionResponse struct {
					Response json.RawMessage
				}
			}
		}
	}
	m.read(r, &body)
	var asked request
	for _, set := range body.Tools {
		for _, f := range set.FunctionDeclarations {
			asked.tools = append(asked.tools, f.Name)
		}
	}
	for _, content := range body.Contents {
		for _, part := range content.Parts {
			var response struct{ Output string }
			if json.Unmarshal(part.FunctionResponse.Response, &response) == nil {
				asked.result = response.Output
			}
		}
	}
	_, next := m.next(asked)
	part := map[string]any{"text": next.text}
	if next.tool != "" {
		part = map[string]any{"functionCall": map[string]any{"name": next.tool, "args": next.arguments}}
	}
	answer := quote(map[string]any{
		"candidates":    []any{map[string]any{"content": map[string]any{"role": "model", "parts": []any{part}}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": map[string]any{"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
	})
	if !strings.HasSuffix(r.URL.Path, ":streamGenerateContent") {
		w.Header().Set("Content-Type", "application/json")
		w.Write(answer)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: %s\n\n", answer)
}

func (m *model) read(r *http.Request, body any) {
	raw, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(raw, body)
	}
	if err != nil {
		m.t.Errorf("a request of the model: %v\n%.2000s", err, raw)
	}
}

// textOf returns the text of a string or of blocks.
func textOf(content json.RawMessage) (text string) {
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var blocks []struct{ Text string }
	json.Unmarshal(content, &blocks)
	for _, block := range blocks {
		text += block.Text
	}
	return text
}
