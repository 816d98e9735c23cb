package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/inprocess"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/taglist"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/providers/internal/model"
	"github.com/mcp-metarouter/metarouter/registry"
)

const (
	listTimeout  = 10 * time.Second // for the list of models
	firstRefresh = time.Second      // pause after the first failure to list; it grows
	maxModels    = 5000
)

var errListTimeout = &inprocess.TimeoutError{What: "the endpoint", Limit: listTimeout}

// Names of models consist of words such as "llama-3.1-70b-instruct". These expressions
// find kinds of models by their words.
var (
	notChat   = lazy.Regexp(`(?i)embed|whisper|\btts\b|transcribe|moderation|rerank|dall-?e|gpt-image|stable-diffusion|\bflux\b|\bsora\b|realtime|^babbage|^davinci|\bbge\b|\bclip\b`)
	reasoning = lazy.Regexp(`(?i)(^|[/:])o[1-9]([-:]|$)|gpt-5|gpt-oss|(^|[-_/:.])r1([-_:.]|$)|reason|think|qwq|magistral|grok-[3-9]|claude-(opus|sonnet)|gemini-(2\.5|3)|qwen3|glm-4\.[5-9]|kimi-k2`)
	code      = lazy.Regexp(`(?i)cod(e|er|ex|estral)|devstral|starcoder|gpt-(4|5)|claude|(^|[/:])o[1-9]([-:]|$)|gemini-(2\.5|3)|kimi-k2|glm-4\.[5-9]`)
	vision    = lazy.Regexp(`(?i)vision|[-_/]vl([-_:.]|$)|llava|pixtral|gpt-4o|gpt-4\.1|gpt-5|gemini|claude|omni|minicpm-v|(^|[/:])o[34]([-:]|$)|gemma-?3|llama-?4`)

	// completionTokens finds models that call max_tokens max_completion_tokens.
	completionTokens = lazy.Regexp(`(?i)(^|[/:])o[1-9]([-:]|$)|(^|[/:])gpt-5`)
)

// capabilitiesOf returns the capabilities that a model's name suggests.
func capabilitiesOf(id string) []string {
	tags := []string{}
	for _, kind := range []struct {
		tag  string
		name func() *regexp.Regexp
	}{{"reasoning", reasoning}, {"code", code}, {"vision", vision}} {
		if kind.name().MatchString(id) {
			tags = append(tags, kind.tag)
		}
	}
	return tags
}

// skills describe capabilities in the words of tasks.
var skills = map[string]string{
	"reasoning": "Thinks step by step: solve a problem or a logic puzzle, plan, prove, compare, decide.",
	"code":      "Writes source code: write, review, explain, fix or refactor a function, a program or a script in Python, Go, SQL and others; find bugs.",
	"vision":    "Describes and reads images that are given by URL.",
}

// descriptionOf returns the description that the ranking finds a model by.
func descriptionOf(m Model) string {
	text := cmp.Or(m.Description, "Write, draft, rewrite or translate a text, an email, a letter, a story, a poem or haiku; explain, summarize, review or brainstorm; answer a question of general knowledge.")
	for _, tag := range taglist.Clean(m.Capabilities) {
		if skill := skills[tag]; skill != "" {
			text += " " + skill
		}
	}
	return "Ask the language model " + m.ID + ". " + text
}

const outputSchema = `{"type":"object","properties":{` +
	`"text":{"type":"string"},"model":{"type":"string"},"finish_reason":{"type":"string"},` +
	`"reasoning":{"type":"string"},"usage":{"type":"object"}},"required":["text","model"]}`

// tool returns the tool of a model.
func (p *provider) tool(m Model) (registry.NormalizedTool, error) {
	if o, ok := p.options.Overrides[m.ID]; ok {
		m.Description, m.Capabilities = cmp.Or(o.Description, m.Description), o.Capabilities
	}
	if m.Capabilities == nil {
		m.Capabilities = capabilitiesOf(m.ID)
	}
	definition := map[string]any{
		"name":         m.ID,
		"title":        "Ask " + m.ID,
		"description":  descriptionOf(m),
		"inputSchema":  json.RawMessage(model.Input),
		"outputSchema": json.RawMessage(outputSchema),
		"annotations":  registry.Hints{ReadOnly: new(true), OpenWorld: new(true)},
	}
	return inprocess.NewTool(p.Name(), nil, definition, append([]string{"ai", "chat"}, m.Capabilities...))
}

// follow refreshes the models until ctx ends.
func (p *provider) follow(ctx context.Context) {
	pause, logged := firstRefresh, ""
	for {
		wait, err := p.options.Refresh, p.refresh(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			pause, logged = firstRefresh, ""
		default:
			wait = min(wait, pause)
			if pause = 2 * wait; logged != err.Error() {
				logged = err.Error()
				p.options.Log.Warn("the models cannot be listed; the known ones stay", zap.Error(err))
			}
		}
		if signal.Within(ctx.Done(), wait) {
			return
		}
	}
}

// refresh asks the service for its models and, without Options.Models, makes them the tools. If it
// fails, the tools stay as they are.
func (p *provider) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, listTimeout, errListTimeout)
	defer cancel()
	var models []Model
	_, err := p.send(ctx, 1, http.MethodGet, "models", nil, func(resp *http.Response) (err error) {
		models, err = readModels(resp.Body, p.options.MaxBody)
		return err
	})
	switch f, _ := errors.AsType[*failure](err); {
	case len(p.options.Models) > 0 && f != nil && f.status == http.StatusNotFound:
		return nil // it answers, but lists no models
	case err != nil || len(p.options.Models) > 0:
		return err
	}
	return p.offer(models)
}

// readModels reads a list of models, and returns those that chat.
func readModels(r io.Reader, limit int) (models []Model, err error) {
	body, err := readAll(r, limit)
	if err != nil {
		return nil, err
	}
	data := wire.Member(body, "data") // Ollama's is null if it has no models
	if wire.IsArray(body) {           // Together's
		data = body
	}
	var listed []struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(data, &listed); err != nil {
		return nil, errors.New("list models: the answer is not a list of models")
	}
	for _, m := range listed {
		if m.ID != "" && !notChat().MatchString(m.ID) && len(models) < maxModels {
			models = append(models, Model{ID: m.ID})
		}
	}
	return models, nil
}

// offer makes the models the tools. A repeated ID counts once.
func (p *provider) offer(models []Model) error {
	var offer registry.Offer
	seen := make(map[string]bool)
	for _, m := range models {
		if seen[m.ID] {
			continue
		}
		seen[m.ID] = true
		t, err := p.tool(m)
		if err != nil {
			return fmt.Errorf("model %q: %w", m.ID, err)
		}
		offer.Tools = append(offer.Tools, t)
	}
	slices.SortFunc(offer.Tools, func(a, b registry.NormalizedTool) int { return strings.Compare(a.ID, b.ID) })
	_, err := p.registry.Replace(p.Name(), offer)
	return err
}
