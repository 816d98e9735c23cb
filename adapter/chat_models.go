package adapter

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

const (
	listTimeout  = 10 * time.Second // of the list of models
	firstRefresh = time.Second      // after the first failure to get it; then longer and longer
	maxModels    = 5000
)

// What names of models tell. They are made of words such as "llama-3.1-70b-instruct".
var (
	// otherKinds are of models that do not chat.
	otherKinds = regexp.MustCompile(`(?i)embed|whisper|\btts\b|transcribe|moderation|rerank|dall-?e|gpt-image|stable-diffusion|\bflux\b|\bsora\b|realtime|^babbage|^davinci|\bbge\b|\bclip\b`)

	reasons  = regexp.MustCompile(`(?i)(^|[/:])o[1-9]([-:]|$)|gpt-5|gpt-oss|(^|[-_/:.])r1([-_:.]|$)|reason|think|qwq|magistral|grok-[3-9]|claude-(opus|sonnet)|gemini-(2\.5|3)|qwen3|glm-4\.[5-9]|kimi-k2`)
	codes    = regexp.MustCompile(`(?i)cod(e|er|ex|estral)|devstral|starcoder|gpt-(4|5)|claude|(^|[/:])o[1-9]([-:]|$)|gemini-(2\.5|3)|kimi-k2|glm-4\.[5-9]`)
	sees     = regexp.MustCompile(`(?i)vision|[-_/]vl([-_:.]|$)|llava|pixtral|gpt-4o|gpt-4\.1|gpt-5|gemini|claude|omni|minicpm-v|(^|[/:])o[34]([-:]|$)|gemma-?3|llama-?4`)
	longName = regexp.MustCompile(`(?i)(^|[/:])o[1-9]([-:]|$)|(^|[/:])gpt-5`) // of which max_tokens is max_completion_tokens
)

// traits returns the capabilities that a model's name speaks for.
func traits(id string) []string {
	tags := []string{}
	for _, kind := range []struct {
		tag  string
		name *regexp.Regexp
	}{{"reasoning", reasons}, {"code", codes}, {"vision", sees}} {
		if kind.name.MatchString(id) {
			tags = append(tags, kind.tag)
		}
	}
	return tags
}

// skills are what a capability means, in the words of tasks.
var skills = map[string]string{
	"reasoning": "Thinks step by step: solve a problem or a logic puzzle, plan, prove, compare, decide.",
	"code":      "Writes source code: write, review, explain, fix or refactor a function, a program or a script in Python, Go, SQL and others; find bugs.",
	"vision":    "Describes and reads images that are given by URL.",
}

// describe returns the description of a model by which it is found.
func describe(m Model) string {
	text := cmp.Or(m.Description, "Write, draft, rewrite or translate a text, an email, a letter, a story, a poem or haiku; explain, summarize, review or brainstorm; answer a question of general knowledge.")
	for _, tag := range registry.Tags(m.Capabilities) {
		if skill := skills[tag]; skill != "" {
			text += " " + skill
		}
	}
	return "Ask the language model " + m.ID + ". " + text
}

// Refresh asks the endpoint which models it has, and makes these the tools. Where Models
// are given, it does nothing. If it fails, the models stay that were known.
func (c *Chat) Refresh(ctx context.Context) error {
	if len(c.options.Models) > 0 {
		return nil
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if c.bench.life.Err() != nil {
		return errClosed
	}
	models, err := c.list(ctx)
	if err == nil {
		_, err = c.offer(models)
	}
	return err
}

// follow refreshes the models until ctx ends.
func (c *Chat) follow(ctx context.Context) {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.Multiplier, pauses.MaxInterval = firstRefresh, 2, c.options.Refresh
	complained := ""
	for {
		wait := c.options.Refresh
		bounded, cancel := context.WithTimeoutCause(ctx, listTimeout, &slowError{"the endpoint", listTimeout})
		err := c.Refresh(bounded)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			pauses.Reset()
			complained = ""
		default:
			wait = min(wait, pauses.NextBackOff())
			if complained != err.Error() {
				complained = err.Error()
				c.log.Warn("can't list the models; those known stay", zap.Error(err))
			}
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// list returns the models that the endpoint has and that chat.
func (c *Chat) list(ctx context.Context) ([]Model, error) {
	body, err := c.get(ctx, "/models")
	if err != nil {
		return nil, err
	}
	data := wire.Member(body, "data") // null, as Ollama has it, is none
	if wire.IsArray(body) {           // Together's
		data = body
	}
	var listed []struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(data, &listed); err != nil {
		return nil, errors.New("list models: the answer is no list of models")
	}
	var models []Model
	for _, m := range listed {
		if m.ID != "" && !otherKinds.MatchString(m.ID) && len(models) < maxModels {
			models = append(models, Model{ID: m.ID})
		}
	}
	return models, nil
}

// offer makes the models the tools. A name that comes again is left out.
func (c *Chat) offer(models []Model) (changed bool, err error) {
	var offer registry.Offer
	seen := make(map[string]bool)
	for _, m := range models {
		if seen[m.ID] {
			continue
		}
		seen[m.ID] = true
		t, err := c.tool(m)
		if err != nil {
			return false, fmt.Errorf("model %q: %w", m.ID, err)
		}
		offer.Tools = append(offer.Tools, t)
	}
	slices.SortFunc(offer.Tools, func(a, b registry.NormalizedTool) int { return strings.Compare(a.ID, b.ID) })
	return c.registry.Replace(c.name, offer)
}

// get asks for something, once.
func (c *Chat) get(ctx context.Context, path string) ([]byte, error) {
	resp, _, err := c.send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return readAll(resp.Body, c.options.MaxBody)
}
