package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/mcp-metarouter/metarouter/adapter/internal/inprocess"
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
func (p *Provider) run(ctx context.Context, model string, arguments json.RawMessage, r session.Request) (json.RawMessage, error) {
	body, fault := p.requestBody(model, arguments)
	if fault != "" {
		return inprocess.TextResult(fault, nil, true), nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.options.Timeout, &inprocess.TimeoutError{What: model, Limit: p.options.Timeout})
	defer cancel()
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.Multiplier, pauses.MaxInterval = firstPause, 2, p.options.MaxWait
	for try := 1; ; try++ {
		a := &answer{model: model, limit: p.options.MaxBody, onText: onText(ctx, p.Name(), r)}
		err := p.ask(ctx, body, a)
		if err == nil {
			return a.result(try), nil
		}
		if !transient(err) || a.text.Len() > 0 || try == p.options.MaxTries {
			return a.failed(err, try)
		}
		if err := wait(ctx, err, min(pauses.NextBackOff(), p.options.MaxWait), p.options.MaxWait); err != nil {
			return a.failed(err, try)
		}
	}
}

const firstPause = 500 * time.Millisecond

// wait waits before the next attempt after one that ended with err: for pause, or for as
// long as the service asks. If that is longer than limit or than ctx lasts, it does not
// wait and returns err with the reason.
func wait(ctx context.Context, err error, pause, limit time.Duration) error {
	if refused, ok := errors.AsType[*apiError](err); ok && refused.retryAfter > 0 {
		if pause = refused.retryAfter; pause > limit {
			return fmt.Errorf("%w; it asks for no calls for %s", err, pause.Round(time.Second))
		}
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= pause {
		return fmt.Errorf("%w; no time is left for another attempt", err)
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// requestBody returns the body of a chat request, or what is wrong with the arguments
// that their schema cannot say.
func (p *Provider) requestBody(model string, arguments json.RawMessage) (body []byte, fault string) {
	var messages []json.RawMessage
	request := map[string]any{"model": model}
	add := func(role string, content json.RawMessage) {
		messages = append(messages, wire.Marshal(map[string]any{"role": role, "content": content}))
	}
	if system := wire.Member(arguments, "system"); system != nil {
		add("system", system)
	}
	var earlier []json.RawMessage
	if raw := wire.Member(arguments, "messages"); raw != nil && json.Unmarshal(raw, &earlier) == nil {
		messages = append(messages, earlier...)
	}
	if prompt := wire.Member(arguments, "prompt"); prompt != nil {
		add("user", prompt)
	} else if len(earlier) == 0 {
		return nil, "Nothing was asked: give a prompt, or messages."
	}
	request["messages"] = messages
	wire.Members(arguments, func(key string, value []byte) bool {
		switch key {
		case "prompt", "system", "messages":
		case "max_tokens":
			if completionTokens().MatchString(model) {
				key = "max_completion_tokens"
			}
			fallthrough
		default:
			request[key] = json.RawMessage(value)
		}
		return true
	})
	if !p.options.NoStream {
		request["stream"] = true
		request["stream_options"] = map[string]bool{"include_usage": true}
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

// ask makes one attempt, and reads the answer into a.
func (p *Provider) ask(ctx context.Context, body []byte, a *answer) error {
	resp, key, err := p.send(ctx, http.MethodPost, "chat/completions", body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "text/event-stream" {
		err = a.readStream(resp.Body)
	} else { // NoStream, or a service that has no streams
		var whole []byte
		if whole, err = readAll(resp.Body, a.limit); err == nil {
			err = a.add(whole)
		}
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if refused, ok := errors.AsType[*apiError](err); ok {
		return refused.without(key)
	}
	if err == nil && !a.began {
		return &linkError{"the answer was cut off", errors.New("it is empty")}
	}
	return err
}
