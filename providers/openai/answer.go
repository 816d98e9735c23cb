package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// An answer is the part of a model's answer that has come. OpenAI's client reads no streams here: it
// has no bound, takes "error": null for an error, drops a last event without an empty line after it,
// and knows neither the reasoning nor the errors of other services. See TestDialects.
type answer struct {
	model     string
	limit     int // bytes
	onText    func(text string)
	text      strings.Builder
	reasoning strings.Builder
	refusal   strings.Builder
	finish    string // finish_reason
	usage     json.RawMessage
	began     bool // it has a choice
}

// read reads an answer, whole or as a stream of events. A failure after the first text is final.
func (a *answer) read(response *http.Response) error {
	var err error
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind == "text/event-stream" {
		err = a.readStream(response.Body)
	} else { // NoStream, or a service that has no streams
		var whole []byte
		if whole, err = readAll(response.Body, a.limit); err == nil {
			err = a.add(whole)
		}
	}
	if err == nil && !a.began {
		err = cutOff(errors.New("it is empty"))
	}
	if f, ok := errors.AsType[*failure](err); ok && a.text.Len() > 0 {
		f.transient = false
	}
	return err
}

// readStream reads an answer from a stream of events, which [DONE] ends.
func (a *answer) readStream(r io.Reader) error {
	for events := wire.NewEventReader(r, a.limit); ; {
		event, err := events.Next()
		switch {
		case errors.Is(err, wire.ErrTooLong):
			return tooLarge(a.limit)
		case err != nil && a.finish != "", string(bytes.TrimSpace(event.Data)) == "[DONE]":
			return nil // an error after the last word does not matter
		case err == io.EOF:
			return cutOff(io.ErrUnexpectedEOF)
		case err != nil:
			return cutOff(err)
		case len(event.Data) == 0:
			continue
		}
		if err := a.add(event.Data); err != nil {
			return err
		}
	}
}

// A message is a part of an answer, or all of it.
type message struct {
	Content   json.RawMessage `json:"content"`
	Reasoning string          `json:"reasoning_content"` // DeepSeek's name
	Thinking  string          `json:"reasoning"`         // the name of OpenRouter and Ollama; vLLM sends both
	Refusal   string          `json:"refusal"`
}

// add adds a chat.completion object, or a chunk of one.
func (a *answer) add(raw []byte) error {
	var part struct {
		Object  string `json:"object"`
		Model   string `json:"model"`
		Choices []struct {
			Index   int      `json:"index"`
			Delta   *message `json:"delta"`
			Message *message `json:"message"` // the whole answer; in a stream all of it so far
			Finish  string   `json:"finish_reason"`
		} `json:"choices"`
		Usage json.RawMessage `json:"usage"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(raw, &part); err != nil {
		return &failure{reason: "the answer is malformed: " + err.Error(), transient: true}
	}
	switch {
	case len(part.Error) > 0 && string(part.Error) != "null":
		return reported(part.Error, 0, "")
	case part.Object == "error": // vLLM's
		return reported(raw, 0, "")
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
		m := cmp.Or(choice.Delta, choice.Message, &message{})
		a.reasoning.WriteString(cmp.Or(m.Reasoning, m.Thinking))
		a.refusal.WriteString(m.Refusal)
		if text := textOf(m.Content); text != "" {
			a.text.WriteString(text)
			a.onText(text)
		}
	}
	if a.text.Len()+a.reasoning.Len()+a.refusal.Len() > a.limit {
		return tooLarge(a.limit)
	}
	return nil
}

// textOf returns the text of a content, which is a string or an array of parts.
func textOf(content json.RawMessage) string {
	if text, ok := wire.String(content); ok {
		return text
	}
	var parts []struct{ Text string }
	_ = json.Unmarshal(content, &parts) // null has no parts
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

// result returns the result of a complete answer after so many attempts.
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
	r := content.Text(text, a.structured(a.finish), failed)
	return wire.AddMember(r, "_meta", wire.Marshal(map[string]int{"tries": tries}))
}

// failed returns the result or the error of a call that ended with err. It is a tool
// error, which no other provider's tool stands in for, if a part of the answer was passed
// on or the request itself is wrong.
func (a *answer) failed(err error, tries int) (json.RawMessage, error) {
	f, _ := errors.AsType[*failure](err)
	if tries > 1 {
		err = fmt.Errorf("%w (tried %d times)", err, tries)
	}
	switch {
	case a != nil && a.text.Len() > 0:
		return content.Text(fmt.Sprintf("%v; this much had come:\n%s", err, a.text.String()), a.structured("error"), true), nil
	case f != nil && slices.Contains([]int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity}, f.status):
		return content.Text(err.Error(), nil, true), nil
	}
	return nil, err
}
