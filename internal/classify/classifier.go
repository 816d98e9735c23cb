// Package classify sorts texts into the categories of a configuration.
//
// A [Classifier] gives a probability for each category; the configuration's threshold, fallback and rules
// then make an [Outcome] of them: the category, the model that should answer the text, and whether it should
// reason.
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
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
)

// A Classifier sorts texts into categories.
type Classifier struct {
	config     *config.Classification
	folder     string // of vectors; "" keeps none
	log        *zap.Logger
	categories []config.Category
	tags       bool // the categories are tags, which no configuration names as categories
	names      []string
	policy     *policy
	trained    atomic.Pointer[lexical]
	training   chan struct{} // has a token during the training

	mu     sync.Mutex             // guards within
	within map[string]*Classifier // for clients that may know some of the tags, by their names
}

// maxWithin bounds the classifiers that are kept for clients that may know some of the tags.
const maxWithin = 16

// New returns the classifier of a configuration; a nil c means the defaults. The categories are those of the
// configuration, or the tags if it has no categories. The vectors of the texts that describe the categories are kept in
// the folder; "" keeps nothing.
func New(c *config.Classification, tags []config.Category, folder string, log *zap.Logger) *Classifier {
	if c == nil {
		c = config.DefaultClassification()
	}
	if len(c.Categories) > 0 {
		return newClassifier(c, c.Categories, false, folder, log.Named("classify"))
	}
	return newClassifier(c, tags, true, folder, log.Named("classify"))
}

func newClassifier(c *config.Classification, categories []config.Category, tags bool, folder string, log *zap.Logger) *Classifier {
	return &Classifier{
		config: c, folder: folder, log: log, categories: categories, tags: tags, names: namesOf(categories), policy: newPolicy(*c, categories),
		training: make(chan struct{}, 1), within: make(map[string]*Classifier),
	}
}

func namesOf(categories []config.Category) []string {
	names := make([]string, len(categories)) // never nil: it is an array in JSON
	for i, c := range categories {
		names[i] = c.Name
	}
	return names
}

// Within returns the classifier for clients that may know of these tags only. If the categories
// are not tags, it is k itself. It is the same one for the same tags.
func (k *Classifier) Within(tags map[string]int) *Classifier {
	if !k.tags {
		return k
	}
	some := slices.DeleteFunc(slices.Clone(k.categories), func(c config.Category) bool { return tags[c.Name] == 0 })
	key := strings.Join(namesOf(some), "\n")
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.within[key] == nil {
		if len(k.within) >= maxWithin {
			clear(k.within)
		}
		k.within[key] = newClassifier(k.config, some, true, k.folder, k.log)
	}
	return k.within[key]
}

// Train trains the classifier with the categories of the configuration. Tags are learned when the first
// text is classified. It returns early if ctx ends.
func (k *Classifier) Train(ctx context.Context) {
	if !k.tags {
		_, _ = k.builtin(ctx) // it fails only when ctx ends
	}
}

// builtin returns the trained classifier, which the first call trains. It fails only when ctx ends,
// during the training or while another call trains.
func (k *Classifier) builtin(ctx context.Context) (l *lexical, err error) {
	if l = k.trained.Load(); l != nil {
		return l, nil
	}
	select {
	case k.training <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("train the classifier: %w", context.Cause(ctx))
	}
	defer func() { <-k.training }()
	if l = k.trained.Load(); l == nil {
		if l, err = newLexical(ctx, k.categories, k.folder); l == nil {
			return nil, fmt.Errorf("train the classifier: %w", err)
		}
		k.trained.Store(l)
	}
	if err != nil {
		k.log.Warn("the vectors of examples are not kept, and are made again at the next start", zap.Error(err))
	}
	return l, nil
}

// A List is the answer of list_categories.
type List struct {
	Categories    []string          `json:"categories"` // in the order of their class indices
	Descriptions  map[string]string `json:"category_descriptions,omitempty"`
	SystemPrompts map[string]string `json:"category_system_prompts,omitempty"`
}

// Categories returns the categories in the order of their class indices.
func (k *Classifier) Categories() List {
	list := List{Categories: k.names, Descriptions: make(map[string]string), SystemPrompts: make(map[string]string)}
	for _, c := range k.categories {
		if c.Description != "" {
			list.Descriptions[c.Name] = c.Description
		}
		if c.SystemPrompt != "" {
			list.SystemPrompts[c.Name] = c.SystemPrompt
		}
	}
	return list
}

// An Outcome is the classification result of a text.
type Outcome struct {
	Class         int       `json:"class"`      // index of the category
	Category      string    `json:"category"`   // its name
	Confidence    float64   `json:"confidence"` // its probability
	Model         string    `json:"model"`      // the model that should answer the text
	UseReasoning  bool      `json:"use_reasoning"`
	Probabilities []float64 `json:"probabilities,omitempty"` // of all categories, in their order; the sum is 1
	Entropy       float64   `json:"entropy"`                 // of Probabilities, in bits: 0 is certain
	Categories    []string  `json:"-"`                       // the names, in the order of Probabilities
}

// ErrNoCategories is returned by Classify if the configuration has no categories and there are no tags.
var ErrNoCategories = errors.New(`there are no categories: write some into "metarouter": {"classification": {"categories": […]}}`)

// Classify sorts a text. It fails only if the text is empty, too long or not UTF-8, if there
// are no categories, or if ctx ends while the classifier is trained.
func (k *Classifier) Classify(ctx context.Context, text string) (Outcome, error) {
	if err := check(text, k.config.MaxText); err != nil {
		return Outcome{}, err
	}
	if len(k.categories) == 0 {
		return Outcome{}, ErrNoCategories
	}
	builtin, err := k.builtin(ctx)
	if err != nil {
		return Outcome{}, err
	}
	o := k.policy.decide(text, builtin.probabilities(text))
	o.Categories = k.names
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

// Health is the state of classification.
type Health struct {
	Categories []string `json:"categories"`
	Model      string   `json:"model"`
}

// Health returns at once.
func (k *Classifier) Health() Health { return Health{k.names, k.config.Model} }
