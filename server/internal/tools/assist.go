package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/endpoint"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server/internal/budget"
)

const createMessage = "sampling/createMessage"

// assistants knows which model is asked where a search for a client is not sure.
type assistants struct {
	router  Router
	samples func() bool // whether clients' own models are asked
	share   *budget.Share

	mu       sync.Mutex // guards breakers
	breakers map[any]*endpoint.Breaker
}

// newAssistants takes a budget of clients whose models are known. samples may be nil.
func newAssistants(b *budget.Budget, r Router, samples func() bool) *assistants {
	a := &assistants{router: r, samples: samples, breakers: make(map[any]*endpoint.Breaker)}
	a.share = b.Share(a.clear) // a forgotten pause costs a few questions
	return a
}

// of returns the client's own model if the configuration says so and the client offers it, else
// the model behind an API that the configuration names; nil for none.
func (a *assistants) of(c *call) selector.Assistant {
	if a.samples == nil || !a.samples() {
		return a.router.Assistant()
	}
	if !session.Answers(c.From.Capabilities(), createMessage) {
		return nil
	}
	b := a.breaker(c.Owner())
	a.share.Fit()
	return sampler{c.From, b}
}

// breaker returns that of the client's model.
func (a *assistants) breaker(owner any) *endpoint.Breaker {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.breakers[owner]
	if b == nil {
		b = new(endpoint.Breaker)
		a.breakers[owner] = b
		a.share.Add(1)
	}
	return b
}

// clear drops what is kept for all clients.
func (a *assistants) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.share.Add(-len(a.breakers))
	clear(a.breakers)
}

// forget drops what is kept for a client that has left.
func (a *assistants) forget(owner any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.breakers[owner] != nil {
		delete(a.breakers, owner)
		a.share.Add(-1)
	}
}

// A sampler is a client's own model.
type sampler struct {
	from    session.Client
	breaker *endpoint.Breaker
}

// Choose implements [selector.Assistant].
func (s sampler) Choose(ctx context.Context, task string, choices []string) (index int, err error) {
	err = s.breaker.Do(ctx, func() error {
		index, err = s.choose(ctx, task, choices)
		return err
	})
	return index, err
}

func (s sampler) choose(ctx context.Context, task string, choices []string) (int, error) {
	instructions, text := endpoint.Prompt(task, choices)
	result, err := sample(ctx, s.from, instructions, text, endpoint.MaxTokens)
	if err != nil {
		return 0, err
	}
	return endpoint.Parse(result, len(choices))
}

// sample asks the client's model, and returns its text.
func sample(ctx context.Context, from session.Client, instructions, text string, maxTokens int) (string, error) {
	type message struct {
		Role    string      `json:"role"`
		Content textContent `json:"content"`
	}
	result, err := from.Ask(ctx, ownName, session.Message{Method: createMessage, Params: wire.Marshal(map[string]any{
		"systemPrompt": instructions,
		"messages":     []message{{"user", textContent{"text", text}}},
		"maxTokens":    maxTokens,
		"temperature":  0,
	})})
	if err != nil {
		return "", fmt.Errorf("ask the client's model: %w", err)
	}
	var answer struct {
		Content textContent `json:"content"`
	}
	if err := json.Unmarshal(result, &answer); err != nil {
		return "", fmt.Errorf("ask the client's model: %w", err)
	}
	return answer.Content.Text, nil
}
