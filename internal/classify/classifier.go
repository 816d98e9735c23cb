// Package classify sorts texts into the categories of a configuration.
//
// A [Classifier] asks an outside classification server if the configuration has one, and
// a built-in classifier otherwise, and while the server is down, slow or wrong. Either gives a
// probability for each category; the configuration's threshold, fallback and rules then make an
// [Outcome] of them: the category, the model that should answer the text, and whether it should
// reason.
//
// The outside server speaks the classification protocol of vLLM semantic router:
// list_categories returns the names of the categories and classify_text returns the index
// of one. Its answers are bounded and checked; a wrong one is not used.
//
// No text is kept. All methods may be called by many goroutines at once.
package classify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
)

// A Classifier sorts texts into categories.
type Classifier struct {
	config  *config.Classification
	folder  string // of vectors; "" keeps none
	log     *zap.Logger
	outside *outside // nil without an outside server
	set     atomic.Pointer[categorySet]
}

// A categorySet is the categories that a text can have. Only its cache changes.
type categorySet struct {
	categories []config.Category
	tags       bool // they are tags, which no configuration and no outside server names as categories
	names      []string
	policy     *policy
	trained    atomic.Pointer[lexical]
	training   chan struct{} // has a token during the training

	mu     sync.Mutex             // guards within
	within map[string]*Classifier // for clients that may know some of the tags, by their names
}

// maxWithin bounds the classifiers that are kept for clients that may know some of the tags.
const maxWithin = 16

// builtin returns the built-in classifier, which the first call trains. It fails only when ctx ends,
// during the training or while another call trains.
func (k *Classifier) builtin(ctx context.Context, s *categorySet) (l *lexical, err error) {
	if l = s.trained.Load(); l != nil {
		return l, nil
	}
	select {
	case s.training <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("train the built-in classifier: %w", context.Cause(ctx))
	}
	defer func() { <-s.training }()
	if l = s.trained.Load(); l == nil {
		if l, err = newLexical(ctx, s.categories, k.folder); l == nil {
			return nil, fmt.Errorf("train the built-in classifier: %w", err)
		}
		s.trained.Store(l)
	}
	if err != nil {
		k.log.Warn("the vectors of examples are not kept, and are made again at the next start", zap.Error(err))
	}
	return l, nil
}

// New returns the classifier of a configuration; a nil c means the defaults. The
// categories are those of the configuration, or the tags if it has no categories. Categories that
// only the outside server has come after them, in the order in which it listed them, and
// instead of tags. So the index of a category never changes while the router runs, except
// for tags, when the outside server first lists its categories. servers connects to an outside server that is an entry of
// the configuration. The vectors of the texts that describe the categories are kept in the folder; "" keeps nothing.
func New(c *config.Classification, tags []config.Category, servers Sessions, folder string, log *zap.Logger) *Classifier {
	if c == nil {
		c = config.DefaultClassification()
	}
	k := &Classifier{config: c, folder: folder, log: log.Named("classify")}
	if len(c.Categories) > 0 {
		k.setCategories(c.Categories, false)
	} else {
		k.setCategories(tags, true)
	}
	if c.Outside != nil {
		k.outside = newOutside(*c.Outside, servers, k.merge, k.log)
	}
	return k
}

// Within returns the classifier for clients that may know of these tags only. If the categories
// are not tags, it is k itself. Otherwise it is a built-in classifier, until the outside server,
// if there is one, has listed its categories. It is the same one for the same tags.
func (k *Classifier) Within(tags map[string]int) *Classifier {
	set := k.set.Load()
	if !set.tags {
		return k
	}
	if k.outside != nil {
		k.outside.need()
	}
	some := slices.DeleteFunc(slices.Clone(set.categories), func(c config.Category) bool { return tags[c.Name] == 0 })
	key := strings.Join(namesOf(some), "\n")
	set.mu.Lock()
	defer set.mu.Unlock()
	if set.within[key] == nil {
		if len(set.within) >= maxWithin {
			clear(set.within)
		}
		set.within[key] = &Classifier{config: k.config, folder: k.folder, log: k.log}
		set.within[key].setCategories(some, true)
	}
	return set.within[key]
}

func (k *Classifier) setCategories(categories []config.Category, tags bool) {
	k.set.Store(&categorySet{
		categories: categories, tags: tags, names: namesOf(categories), policy: newPolicy(*k.config, categories),
		training: make(chan struct{}, 1), within: make(map[string]*Classifier),
	})
}

func namesOf(categories []config.Category) []string {
	names := make([]string, len(categories))
	for i, c := range categories {
		names[i] = c.Name
	}
	return names
}

// Run watches the outside server until ctx ends: at once, or with onDemand from the first
// text or list that is asked for. Without an outside server it trains the built-in
// classifier, unless onDemand, and returns.
func (k *Classifier) Run(ctx context.Context, onDemand bool) error {
	if k.outside == nil {
		if !onDemand && len(k.config.Categories) > 0 {
			_, _ = k.builtin(ctx, k.set.Load()) // it fails only when ctx ends
		}
		return nil
	}
	if !onDemand {
		k.outside.need()
	}
	select {
	case <-k.outside.needed.Done():
	case <-ctx.Done():
		return nil
	}
	defer k.outside.caller.close()
	return k.outside.run(ctx)
}

// merge adds the categories that the outside server lists, and returns our index of each
// of them. It is called once at a time; first says that it is the server's first list.
func (k *Classifier) merge(list List, first bool) (index []int, err error) {
	before := k.set.Load().categories
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
		if text := list.Descriptions[name]; c.Description == "" && len(text) <= maxDescription {
			c.Description = text
		}
		if text := list.SystemPrompts[name]; c.SystemPrompt == "" && len(text) <= maxPrompt {
			c.SystemPrompt = text
		}
		index = append(index, i)
	}
	theirs, size := categories[len(k.config.Categories):], 0
	for _, c := range theirs {
		size += len(c.Name) + len(c.Description)
	}
	if len(theirs) > maxCategories || size > maxTraining {
		return nil, badAnswer("with those that it had before it has %d categories, described in %d bytes; that is too much", len(theirs), size)
	}
	if !slices.EqualFunc(before, categories, func(a, b config.Category) bool {
		return a.Name == b.Name && a.Description == b.Description && a.SystemPrompt == b.SystemPrompt
	}) {
		k.setCategories(categories, false)
	}
	return index, nil
}

// A List is the answer of list_categories.
type List struct {
	Categories    []string          `json:"categories"` // in the order of their class indices
	Descriptions  map[string]string `json:"category_descriptions,omitempty"`
	SystemPrompts map[string]string `json:"category_system_prompts,omitempty"`
}

// Categories returns the categories in the order of their class indices. If the outside
// server was not asked yet, it waits for its list, for at most its timeout.
func (k *Classifier) Categories(ctx context.Context) List {
	if k.outside != nil {
		k.outside.await(ctx)
		if !k.config.Outside.CacheCategories && k.outside.up() {
			k.outside.refresh(ctx)
		}
	}
	set := k.set.Load()
	list := List{Categories: set.names, Descriptions: make(map[string]string), SystemPrompts: make(map[string]string)}
	for _, c := range set.categories {
		if c.Description != "" {
			list.Descriptions[c.Name] = c.Description
		}
		if c.SystemPrompt != "" {
			list.SystemPrompts[c.Name] = c.SystemPrompt
		}
	}
	return list
}

// The values of Outcome.Source and OutsideHealth.Source.
const (
	sourceBuiltin = "builtin"
	sourceOutside = "outside"
)

// An Outcome is the classification result of a text.
type Outcome struct {
	Class         int       `json:"class"`      // index of the category; -1 if there are no categories
	Category      string    `json:"category"`   // its name
	Confidence    float64   `json:"confidence"` // its probability
	Model         string    `json:"model"`      // the model that should answer the text
	UseReasoning  bool      `json:"use_reasoning"`
	Probabilities []float64 `json:"probabilities,omitempty"` // of all categories, in their order; the sum is 1
	Entropy       float64   `json:"entropy"`                 // of Probabilities, in bits: 0 is certain
	Categories    []string  `json:"-"`                       // the names, in the order of Probabilities
	Source        string    `json:"source"`                  // the classifier that answered: "builtin" or "outside"
	Degraded      bool      `json:"degraded,omitempty"`      // the built-in classifier answered instead of the outside one
}

// ErrNoCategories is returned by Classify and classifyBuiltin if the configuration has no
// categories and there are no tags.
var ErrNoCategories = errors.New(`there are no categories: write some into "metarouter": {"classification": {"categories": […]}}`)

// Classify sorts a text. It fails only if the text is empty, too long or not UTF-8, if there
// are no categories, or if ctx ends while the built-in classifier is trained; if the outside
// server fails, the built-in classifier answers.
func (k *Classifier) Classify(ctx context.Context, text string) (Outcome, error) {
	if err := check(text, k.config.MaxText); err != nil {
		return Outcome{}, err
	}
	if k.outside != nil {
		k.outside.await(ctx)
		if o, err := k.ask(ctx, text); err == nil {
			return o, nil
		}
	}
	return k.classifyBuiltin(ctx, text)
}

// classifyBuiltin is Classify without the outside server.
func (k *Classifier) classifyBuiltin(ctx context.Context, text string) (Outcome, error) {
	if err := check(text, k.config.MaxText); err != nil {
		return Outcome{}, err
	}
	set := k.set.Load()
	if len(set.categories) == 0 {
		return Outcome{}, ErrNoCategories
	}
	builtin, err := k.builtin(ctx, set)
	if err != nil {
		return Outcome{}, err
	}
	o := set.policy.decide(text, builtin.probabilities(text))
	o.Categories, o.Source, o.Degraded = set.names, sourceBuiltin, k.outside != nil
	return o, nil
}

// ask has the outside server classify.
func (k *Classifier) ask(ctx context.Context, text string) (Outcome, error) {
	v, index, err := k.outside.classify(ctx, text)
	if err != nil {
		return Outcome{}, err
	}
	set := k.set.Load()
	p := make([]float64, len(set.categories))
	for theirs, ours := range index {
		p[ours] += v.Probabilities[theirs]
	}
	o := set.policy.decide(text, p)
	if o.Class == index[v.Class] { // otherwise it is the fallback, with its own model
		if v.Model != "" {
			o.Model = v.Model
		}
		if v.UseReasoning != nil {
			o.UseReasoning = *v.UseReasoning
		}
	}
	o.Categories, o.Source = set.names, sourceOutside
	return o, nil
}

// check returns an error with advice if the text is longer than limit bytes,
// empty or not valid UTF-8.
func check(text string, limit int) error {
	switch {
	case len(text) > limit:
		return fmt.Errorf("the text has %d bytes and at most %d are classified; send its beginning, or raise max_text", len(text), limit)
	case !utf8.ValidString(text):
		return errors.New("the text is not valid UTF-8; encode it as such")
	case strings.TrimSpace(text) == "":
		return errors.New("the text is empty; send at least a word")
	}
	return nil
}

// HasOutside reports whether the configuration has an outside server, up or down.
func (k *Classifier) HasOutside() bool { return k.outside != nil }

// Health is the state of classification.
type Health struct {
	Categories []string       `json:"categories"`
	Model      string         `json:"model"`
	Outside    *OutsideHealth `json:"outside_classifier,omitempty"` // nil without an outside server
}

// Degraded reports whether the built-in classifier answers instead of the outside one.
func (h Health) Degraded() bool { return h.Outside != nil && h.Outside.Source == sourceBuiltin }

// An OutsideHealth is the state of the outside server.
type OutsideHealth struct {
	Address string    `json:"address"` // the server's name, or its URL without query and password
	State   string    `json:"state"`   // "starting", "up" or "down"
	Since   time.Time `json:"since"`
	Error   string    `json:"error,omitempty"` // why it is down
	Source  string    `json:"source"`          // the classifier that answers now: "builtin" or "outside"
}

// Health returns at once.
func (k *Classifier) Health() Health {
	h := Health{Categories: k.set.Load().names, Model: k.config.Model}
	if k.outside != nil {
		h.Outside = k.outside.health()
	}
	return h
}
