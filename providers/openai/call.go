package openai

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/internal/inprocess"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

type deltaKey struct{}

// WithDeltas returns a context for Execute. With it, f is called with each part of a
// model's answer as it comes: one call at a time, in order, before Execute returns. The
// parts are the beginning of the answer even if the result is then an error. f must not
// block.
func WithDeltas(ctx context.Context, f func(text string)) context.Context {
	return context.WithValue(ctx, deltaKey{}, f)
}

// run asks a model. See [inprocess.Options].
func (p *provider) run(ctx context.Context, model string, arguments json.RawMessage, r session.Request) (json.RawMessage, error) {
	body, fault := p.requestBody(model, arguments)
	if fault != "" {
		return content.Text(fault, nil, true), nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.options.Timeout, &inprocess.TimeoutError{What: model, Limit: p.options.Timeout})
	defer cancel()
	var a *answer
	tries, err := p.send(ctx, p.options.MaxTries, http.MethodPost, "chat/completions", body, func(resp *http.Response) error {
		a = &answer{model: model, limit: p.options.MaxBody, onText: onText(ctx, p.Name(), r)}
		return a.read(resp)
	})
	if err == nil {
		return a.result(tries), nil
	}
	return a.failed(err, tries)
}

// requestBody returns the body of a chat request, or the fault of the arguments
// that their schema does not find.
func (p *provider) requestBody(model string, arguments json.RawMessage) (body []byte, fault string) {
	request := make(map[string]json.RawMessage)
	_ = json.Unmarshal(arguments, &request) // they are an object
	var messages []json.RawMessage
	_ = json.Unmarshal(request["messages"], &messages)
	if prompt := request["prompt"]; prompt != nil {
		messages = append(messages, wire.Marshal(map[string]any{"role": "user", "content": prompt}))
	}
	if len(messages) == 0 {
		return nil, "Nothing was asked: give a prompt, or messages."
	}
	if system := request["system"]; system != nil {
		messages = slices.Insert(messages, 0, json.RawMessage(wire.Marshal(map[string]any{"role": "system", "content": system})))
	}
	if limit := request["max_tokens"]; limit != nil && completionTokens().MatchString(model) {
		request["max_completion_tokens"] = limit
		delete(request, "max_tokens")
	}
	delete(request, "prompt")
	delete(request, "system")
	request["model"], request["messages"] = wire.Marshal(model), wire.Marshal(messages)
	if !p.options.NoStream {
		request["stream"], request["stream_options"] = []byte("true"), []byte(`{"include_usage":true}`)
	}
	return wire.Marshal(request), ""
}

// onText returns the function that gets each part of the answer. It calls the function
// of [WithDeltas], and notifies a client that asked for progress.
func onText(ctx context.Context, provider string, r session.Request) func(text string) {
	delta, _ := ctx.Value(deltaKey{}).(func(string))
	token := wire.Member(r.Meta, "progressToken")
	parts := 0
	return func(text string) {
		if delta != nil {
			delta(text)
		}
		if token != nil && r.From != nil {
			parts++
			r.From.Notify(provider, session.Message{Method: "notifications/progress", Params: wire.Marshal(map[string]any{
				"progressToken": json.RawMessage(token), "progress": parts, "message": text,
			})})
		}
	}
}
