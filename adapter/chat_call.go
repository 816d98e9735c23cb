package adapter

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/sse"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

// chatInput is the schema of what a model is asked. The names are the API's, but for
// prompt and system.
const chatInput = `{"type":"object","properties":{` +
	`"prompt":{"type":"string","minLength":1,"description":"What to ask. Comes after messages, if there are any."},` +
	`"system":{"type":"string","description":"What holds for the whole answer: role, tone, form."},` +
	`"messages":{"type":"array","minItems":1,"description":"A conversation so far, oldest first.","items":{"type":"object","properties":{` +
	`"role":{"enum":["system","developer","user","assistant"]},` +
	`"content":{"type":["string","array"],"description":"A text, or parts as the chat API has them: {\"type\":\"text\",\"text\":…}, {\"type\":\"image_url\",\"image_url\":{\"url\":…}}."}},` +
	`"required":["role","content"]}},` +
	`"max_tokens":{"type":"integer","minimum":1,"description":"The most tokens of the answer, reasoning included."},` +
	`"temperature":{"type":"number","minimum":0,"maximum":2},` +
	`"top_p":{"type":"number","minimum":0,"maximum":1},` +
	`"stop":{"type":["string","array"],"items":{"type":"string"},"description":"The answer ends before these."},` +
	`"seed":{"type":"integer"},` +
	`"reasoning_effort":{"type":"string","description":"For models that reason: minimal, low, medium or high."},` +
	`"response_format":{"type":"object","description":"As the chat API has it, such as {\"type\":\"json_object\"}."}` +
	`},"additionalProperties":false}`

const chatOutput = `{"type":"object","properties":{` +
	`"text":{"type":"string"},"model":{"type":"string"},"finish_reason":{"type":"string"},` +
	`"reasoning":{"type":"string"},"usage":{"type":"object"}},"required":["text","model"]}`

// complete asks a model. See [bench.work].
func (c *Chat) complete(ctx context.Context, model string, arguments json.RawMessage, r session.Request) (json.RawMessage, error) {
	body, fault := c.request(model, arguments)
	if fault != "" {
		return textResult(fault, nil, true), nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.options.Timeout, &slowError{model, c.options.Timeout})
	defer cancel()
	p := newPauses(c.options.MaxWait)
	for try := 1; ; try++ {
		a := &answer{model: model, most: c.options.MaxBody, hand: hand(ctx, c.name, r)}
		err := c.ask(ctx, body, a)
		if err == nil {
			return a.result(try), nil
		}
		if transient(err) && a.text.Len() == 0 && try < c.options.MaxTries {
			pauseErr := p.wait(ctx, err)
			if pauseErr == nil {
				continue
			}
			err = pauseErr
		}
		return a.failed(err, try)
	}
}

// request returns the body of a request, or what is wrong with the arguments that
// their schema can't say.
func (c *Chat) request(model string, arguments json.RawMessage) (body []byte, fault string) {
	var messages []json.RawMessage
	request := map[string]any{"model": model}
	say := func(role string, content json.RawMessage) {
		messages = append(messages, wire.Marshal(map[string]any{"role": role, "content": content}))
	}
	if system := wire.Member(arguments, "system"); system != nil {
		say("system", system)
	}
	var before []json.RawMessage
	if raw := wire.Member(arguments, "messages"); raw != nil && json.Unmarshal(raw, &before) == nil {
		messages = append(messages, before...)
	}
	if prompt := wire.Member(arguments, "prompt"); prompt != nil {
		say("user", prompt)
	} else if len(before) == 0 {
		return nil, "Nothing was asked: give a prompt, or messages."
	}
	request["messages"] = messages
	wire.Members(arguments, func(key string, value []byte) bool {
		switch key {
		case "prompt", "system", "messages":
		case "max_tokens":
			if longName.MatchString(model) {
				key = "max_completion_tokens"
			}
			fallthrough
		default:
			request[key] = json.RawMessage(value)
		}
		return true
	})
	if !c.options.NoStream {
		request["stream"] = true
		request["stream_options"] = map[string]bool{"include_usage": true}
	}
	return wire.Marshal(request), ""
}

// hand returns what is told of each part of the answer: the function of [WithDeltas],
// and the client, as progress, if it asks for that.
func hand(ctx context.Context, provider string, r session.Request) func(text string) {
	tell, _ := ctx.Value(deltaKey{}).(func(string))
	token := wire.Member(r.Meta, "progressToken")
	parts := 0
	return func(text string) {
		if tell != nil {
			tell(text)
		}
		if token != nil && r.From != nil {
			parts++
			r.From.Notify(provider, session.Message{Method: "notifications/progress", Params: wire.Marshal(map[string]any{
				"progressToken": json.RawMessage(token), "progress": parts, "message": text,
			})})
		}
	}
}

// ask makes one request, and takes in the answer.
func (c *Chat) ask(ctx context.Context, body []byte, a *answer) error {
	resp, key, err := c.send(ctx, http.MethodPost, "/chat/completions", body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "text/event-stream" {
		err = a.stream(resp.Body)
	} else { // it may not know streams
		var whole []byte
		if whole, err = readAll(resp.Body, a.most); err == nil {
			err = a.take(whole)
		}
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if refused, ok := errors.AsType[*apiError](err); ok {
		return refused.without(key)
	}
	if err == nil && !a.began {
		return &linkError{"the answer was cut off", errors.New("there is nothing in it")}
	}
	return err
}

// An answer is what a model has said so far.
type answer struct {
	model     string
	most      int // bytes
	hand      func(text string)
	text      strings.Builder
	reasoning strings.Builder
	refusal   strings.Builder
	finish    string
	usage     json.RawMessage
	began     bool // there was a choice in it
}

// stream reads an answer that comes in events, the last of which is [DONE].
func (a *answer) stream(r io.Reader) error {
	for events := sse.NewReader(r, a.most); ; {
		event, err := events.Next()
		switch {
		case errors.Is(err, wire.ErrTooLong):
			return fmt.Errorf("%w: more than %d bytes", errTooLarge, a.most)
		case err != nil && a.finish != "", string(bytes.TrimSpace(event.Data)) == "[DONE]":
			return nil // however the connection ends
		case err == io.EOF:
			return &linkError{"the answer was cut off", io.ErrUnexpectedEOF}
		case err != nil:
			return &linkError{"the answer was cut off", err}
		case len(event.Data) == 0:
			continue
		}
		if err := a.take(event.Data); err != nil {
			return err
		}
	}
}

// words are what a model says, in a part of an answer or all of it.
type words struct {
	Content   json.RawMessage `json:"content"`
	Reasoning string          `json:"reasoning_content"` // DeepSeek's name for it
	Thinking  string          `json:"reasoning"`         // OpenRouter's, and Ollama's; vLLM says it under both
	Refusal   string          `json:"refusal"`
}

// take takes in a chat.completion object, or a chunk of one.
func (a *answer) take(raw []byte) error {
	var part struct {
		Object  string `json:"object"`
		Model   string `json:"model"`
		Choices []struct {
			Index   int    `json:"index"`
			Delta   *words `json:"delta"`
			Message *words `json:"message"` // the whole answer, in a stream the one so far
			Finish  string `json:"finish_reason"`
		} `json:"choices"`
		Usage json.RawMessage `json:"usage"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(raw, &part); err != nil {
		return &linkError{"the answer is malformed", err}
	}
	switch {
	case len(part.Error) > 0 && string(part.Error) != "null":
		return errorIn(part.Error)
	case part.Object == "error": // vLLM's
		return errorIn(raw)
	}
	if part.Model != "" {
		a.model = part.Model
	}
	if wire.IsObject(part.Usage) {
		a.usage = part.Usage
	}
	for _, choice := range part.Choices {
		if choice.Index != 0 {
			continue
		}
		a.began = true
		if choice.Finish != "" {
			a.finish = choice.Finish
		}
		w := cmp.Or(choice.Delta, choice.Message, &words{})
		a.reasoning.WriteString(cmp.Or(w.Reasoning, w.Thinking))
		a.refusal.WriteString(w.Refusal)
		if text := textIn(w.Content); text != "" {
			a.text.WriteString(text)
			a.hand(text)
		}
	}
	if a.text.Len()+a.reasoning.Len()+a.refusal.Len() > a.most {
		return fmt.Errorf("%w: more than %d bytes", errTooLarge, a.most)
	}
	return nil
}

// textIn returns the text of a content, which is a string or parts.
func textIn(content json.RawMessage) string {
	if text, ok := wire.String(content); ok {
		return text
	}
	var parts []struct{ Text string }
	_ = json.Unmarshal(content, &parts) // null has none
	text := ""
	for _, p := range parts {
		text += p.Text
	}
	return text
}

// structured returns the structuredContent of the result.
func (a *answer) structured(finish string) json.RawMessage {
	return wire.Marshal(struct {
		Text      string          `json:"text"`
		Model     string          `json:"model"`
		Finish    string          `json:"finish_reason,omitempty"`
		Reasoning string          `json:"reasoning,omitempty"`
		Usage     json.RawMessage `json:"usage,omitempty"`
	}{a.text.String(), a.model, finish, a.reasoning.String(), a.usage})
}

// result returns the result of an answer that has come after so many tries.
func (a *answer) result(tries int) json.RawMessage {
	text, failed := a.text.String(), false
	switch {
	case text != "":
	case a.refusal.Len() > 0:
		text, failed = "The model refuses: "+a.refusal.String(), true
	case a.finish == "length":
		text, failed = "The model used up max_tokens before it said anything; allow more.", true
	default:
		text, failed = fmt.Sprintf("The model said nothing (finish_reason %q).", a.finish), true
	}
	r := textResult(text, a.structured(a.finish), failed)
	return wire.AddMember(r, "_meta", wire.Marshal(map[string]int{"tries": tries}))
}

// failed returns what becomes of a call that ended with err. Where a part of the answer
// was handed out, or the request itself is at fault, nobody else is to be asked: the
// result is a tool error.
func (a *answer) failed(err error, tries int) (json.RawMessage, error) {
	if tries > 1 {
		err = fmt.Errorf("%w (tried %d times)", err, tries)
	}
	if a.text.Len() > 0 {
		return textResult(fmt.Sprintf("%v; this much had come:\n%s", err, a.text.String()), a.structured("error"), true), nil
	}
	if refused, ok := errors.AsType[*apiError](err); ok {
		switch refused.status {
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
			return textResult(err.Error(), nil, true), nil
		}
	}
	return nil, err
}
