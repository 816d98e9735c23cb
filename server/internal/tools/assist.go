package tools

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mcp-metarouter/metarouter/internal/endpoint"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server/internal/budget"
)

const (
	createMessage = "sampling/createMessage"

	maxClients = 1000 // of all servers of the router that have a breaker
)

// assistants knows which model is asked where a search for a client is not sure. It has a breaker for the model
// of each client.
type assistants struct {
	*Options
	breakers *budget.Map[any, *endpoint.Breaker]
}

func newAssistants(o *Options) *assistants {
	forgetAll := func(breakers map[any]*endpoint.Breaker) { clear(breakers) } // a forgotten pause costs a few questions
	return &assistants{o, budget.NewMap(o.Budgets.models, forgetAll)}
}

// of returns the client's own model if the configuration says so and the client offers it, else
// the model behind an API that the configuration names; may be nil.
func (a *assistants) of(c *toolCall) selector.Assistant {
	if !a.Settings().Samples {
		return a.Router.Assistant()
	}
	if !session.Answers(c.From.Capabilities(), createMessage) {
		return nil
	}
	var breaker *endpoint.Breaker
	a.breakers.Do(func(breakers map[any]*endpoint.Breaker) {
		if breaker = breakers[c.Owner()]; breaker == nil {
			breaker = new(endpoint.Breaker)
			breakers[c.Owner()] = breaker
		}
	})
	return sampler{c.From, breaker}
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
