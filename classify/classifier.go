package classify

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
)

// A Classifier sorts texts into categories. Where the configuration names an
// outside classification server, that is asked; while it is down, slow or wrong,
// the built-in classifier answers in its place. Its methods may be called by many
// goroutines at once.
type Classifier struct {
	config  *config.Classification
	outside *outside // nil if there is none
	known   atomic.Pointer[known]
}

// known is what there is to choose from. It is immutable.
type known struct {
	categories []config.Category
	names      []string
	policy     *Policy
	builtin    func() *Lexical // trained by the first use
}

// New returns the classifier of a configuration. Categories are those of the
// configuration, else tags; those that only the outside server has come after
// them, in the order in which they were heard of, and instead of tags. So the index
// of a category never changes while the router runs, but for the tags' when the
// outside server is first heard.
//
// servers is how the outside server is reached if it is an entry of the
// configuration. c may be nil, for the defaults.
func New(c *config.Classification, tags []config.Category, servers Sessions, log *zap.Logger) *Classifier {
	if c == nil {
		c = config.DefaultClassification()
	}
	k := &Classifier{config: c}
	categories := c.Categories
	if len(categories) == 0 {
		categories = tags
	}
	k.know(categories)
	if c.Outside != nil {
		k.outside = newOutside(*c.Outside, servers, k.learn, log.Named("classify"))
	}
	return k
}

func (k *Classifier) know(categories []config.Category) {
	names := make([]string, len(categories))
	for i, c := range categories {
		names[i] = c.Name
	}
	k.known.Store(&known{
		categories: categories,
		names:      names,
		policy:     NewPolicy(*k.config, categories),
		builtin:    sync.OnceValue(func() *Lexical { return NewLexical(categories) }),
	})
}

// Run keeps in touch with the outside server until ctx ends, from the beginning or,
// on demand, from when it is first wanted. Without one it trains the built-in
// classifier, likewise, and returns.
func (k *Classifier) Run(ctx context.Context, onDemand bool) error {
	if k.outside == nil {
		if !onDemand && len(k.config.Categories) > 0 {
			k.known.Load().builtin()
		}
		return nil
	}
	if !onDemand {
		k.outside.need()
	}
	select {
	case <-k.outside.needed:
	case <-ctx.Done():
		return nil
	}
	defer k.outside.close()
	return k.outside.run(ctx)
}

// learn takes in the outside server's list, the first or a later one, and returns our
// index of each of its categories. It is called once at a time.
func (k *Classifier) learn(list List, first bool) (index []int, err error) {
	before := k.known.Load().categories
	categories := slices.Clone(before)
	if len(k.config.Categories) == 0 && first {
		categories = nil // they were tags
	}
	for _, name := range list.Categories {
		i := slices.IndexFunc(categories, func(c config.Category) bool { return c.Name == name })
		if i < 0 {
			i = len(categories)
			categories = append(categories, config.Category{Name: name})
		}
		c := &categories[i]
		if said := list.Descriptions[name]; c.Description == "" && len(said) <= maxDescription {
			c.Description = said
		}
		if said := list.SystemPrompts[name]; c.SystemPrompt == "" && len(said) <= maxPrompt {
			c.SystemPrompt = said
		}
		index = append(index, i)
	}
	theirs, learned := categories[len(k.config.Categories):], 0
	for _, c := range theirs {
		learned += len(c.Name) + len(c.Description)
	}
	if len(theirs) > maxCategories || learned > maxLearned {
		return nil, refuse("with what it had before it has %d categories, described in %d bytes; that is too much", len(theirs), learned)
	}
	if !slices.EqualFunc(before, categories, func(a, b config.Category) bool {
		return a.Name == b.Name && a.Description == b.Description && a.SystemPrompt == b.SystemPrompt
	}) {
		k.know(categories)
	}
	return index, nil
}

// A List is what list_categories answers.
type List struct {
	Categories    []string          `json:"categories"` // in the order of their class indices
	Descriptions  map[string]string `json:"category_descriptions,omitempty"`
	SystemPrompts map[string]string `json:"category_system_prompts,omitempty"`
}

// Categories returns the categories, in the order of their class indices.
func (k *Classifier) Categories(ctx context.Context) List {
	if k.outside != nil {
		k.outside.await(ctx)
		if !k.config.Outside.CacheCategories && k.outside.up() {
			k.outside.refresh(ctx)
		}
	}
	known := k.known.Load()
	list := List{Categories: known.names, Descriptions: make(map[string]string), SystemPrompts: make(map[string]string)}
	for _, c := range known.categories {
		if c.Description != "" {
			list.Descriptions[c.Name] = c.Description
		}
		if c.SystemPrompt != "" {
			list.SystemPrompts[c.Name] = c.SystemPrompt
		}
	}
	return list
}

// Who classified.
const (
	Builtin = "builtin"
	Outside = "outside"
)

// An Outcome is what a text was found to be.
type Outcome struct {
	Answer
	Categories []string `json:"-"`                  // those of Probabilities
	Source     string   `json:"source"`             // Builtin or Outside
	Degraded   bool     `json:"degraded,omitempty"` // the built-in classifier stands in for the outside one
}

// ErrNoCategories says that there is nothing to sort texts into.
var ErrNoCategories = errors.New(`there are no categories: write some into "metarouter": {"classification": {"categories": […]}}`)

// Classify sorts a text. It fails only if the text is none, see [Check], or if there
// are no categories; an outside server that fails is stood in for.
func (k *Classifier) Classify(ctx context.Context, text string) (Outcome, error) {
	if err := Check(text, k.config.MaxText); err != nil {
		return Outcome{}, err
	}
	if k.outside != nil {
		k.outside.await(ctx)
		if o, err := k.ask(ctx, text); err == nil {
			return o, nil
		}
	}
	return k.StandIn(text)
}

// Limit returns how many bytes a text may have.
func (k *Classifier) Limit() int { return k.config.MaxText }

// StandIn is Classify without the outside server.
func (k *Classifier) StandIn(text string) (Outcome, error) {
	if err := Check(text, k.config.MaxText); err != nil {
		return Outcome{}, err
	}
	known := k.known.Load()
	if len(known.categories) == 0 {
		return Outcome{}, ErrNoCategories
	}
	a := known.policy.Decide(text, known.builtin().Probabilities(text))
	return Outcome{Answer: a, Categories: known.names, Source: Builtin, Degraded: k.outside != nil}, nil
}

// Outside returns the generation of the outside server, which is another each time
// that it comes up or changes its list, and 0 while it is down or if there is none; and
// a channel that is closed when the generation changes.
func (k *Classifier) Outside() (generation int, changed <-chan struct{}) {
	if k.outside == nil {
		return 0, nil
	}
	return k.outside.state()
}

// HasOutside reports whether there is an outside server, up or down.
func (k *Classifier) HasOutside() bool { return k.outside != nil }

// Tag returns the tag for what a text was found to be: the category in lower case, or
// "" if that is the fallback, or is less likely than the threshold, or nothing was
// found.
func (k *Classifier) Tag(o Outcome, err error) string {
	if err != nil || o.Category == k.config.Fallback || !(o.Confidence >= k.config.Threshold) {
		return ""
	}
	return strings.ToLower(strings.TrimSpace(o.Category))
}

// ask has the outside server classify.
func (k *Classifier) ask(ctx context.Context, text string) (Outcome, error) {
	said, index, err := k.outside.classify(ctx, text)
	if err != nil {
		return Outcome{}, err
	}
	known := k.known.Load()
	p := make([]float64, len(known.categories))
	for theirs, ours := range index {
		p[ours] += said.Probabilities[theirs]
	}
	a := known.policy.Decide(text, p)
	if a.Class == index[said.Class] { // else the fallback has its own
		if said.Model != "" {
			a.Model = said.Model
		}
		if said.UseReasoning != nil {
			a.UseReasoning = *said.UseReasoning
		}
	}
	return Outcome{Answer: a, Categories: known.names, Source: Outside}, nil
}

// Health is how classification is.
type Health struct {
	Categories []string       `json:"categories"`
	Model      string         `json:"model"`
	Outside    *OutsideHealth `json:"outside_classifier,omitempty"` // nil if there is none
}

// Degraded reports whether the built-in classifier stands in for the outside one.
func (h Health) Degraded() bool { return h.Outside != nil && h.Outside.Source == Builtin }

// An OutsideHealth is how the outside server is.
type OutsideHealth struct {
	Address string    `json:"address"` // the server's name, or its URL
	State   string    `json:"state"`   // "starting", "up" or "down"
	Since   time.Time `json:"since"`
	Error   string    `json:"error,omitempty"` // why it is down
	Source  string    `json:"source"`          // who classifies now
}

// Health returns at once.
func (k *Classifier) Health() Health {
	h := Health{Categories: k.known.Load().names, Model: k.config.Model}
	if k.outside != nil {
		h.Outside = k.outside.health()
	}
	return h
}
