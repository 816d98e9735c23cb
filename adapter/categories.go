package adapter

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metarouter/metarouter/classify"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/discovery"
	"github.com/mcp-metarouter/metarouter/registry"
)

// tagCategories are the capability tags as categories, for those who configure none:
// of the taxonomy and of the servers' entries, in alphabetical order.
func tagCategories(c config.Config, t *discovery.Taxonomy) []config.Category {
	tags := t.Tags()
	for _, s := range c.Servers {
		tags = append(tags, registry.Tags(s.Capabilities)...)
	}
	slices.Sort(tags)
	var all []config.Category
	for _, tag := range slices.Compact(tags) {
		all = append(all, config.Category{Name: tag, Keywords: t.Words(tag)})
	}
	return all
}

// A sorter tells the selector of what category a task is. What it says is a tag that
// tools bear, too.
type sorter struct {
	*classify.Classifier
	hurried atomic.Int64 // until when no search waits for the outside server, in Unix nanoseconds
}

const (
	// patience is how long a search waits for the outside server before the built-in
	// classifier answers.
	patience = 500 * time.Millisecond

	// hurry is how long no search waits after one did in vain.
	hurry = 10 * time.Second
)

// Category implements [selector.Classifier].
func (s *sorter) Category(ctx context.Context, task string) (tag string, likely float64) {
	o, err := s.sort(ctx, clip(task, s.Limit()))
	if tag = s.Tag(o, err); tag == "" {
		return "", 0
	}
	return tag, o.Confidence
}

func (s *sorter) sort(ctx context.Context, task string) (classify.Outcome, error) {
	if time.Now().UnixNano() < s.hurried.Load() {
		return s.StandIn(task)
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	o, err := s.Classify(limited, task)
	if generation, _ := s.Outside(); generation > 0 && limited.Err() != nil && ctx.Err() == nil { // it is slow, not starting
		s.hurried.Store(time.Now().Add(hurry).UnixNano())
	}
	return o, err
}

// maxDescribed is how much of a task or of a tool's description is classified at
// most, in bytes.
const maxDescribed = 1000

// clip returns the beginning of the text that is classified, if limit bytes may be.
func clip(text string, limit int) string {
	if limit = min(limit, maxDescribed); len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "")
	}
	return text
}

// labels are the tags that the classifier gives to tools by their texts: the built-in
// one's, until the outside server has said its own.
type labels struct {
	classifier *classify.Classifier
	wake       chan struct{} // holds a signal when there are other texts

	mu    sync.Mutex       // guards known
	known map[string]label // of the texts that there were last
}

// A label is what a text was found to be.
type label struct {
	tag string // "" for none
	by  int    // the generation of the outside server that said it; 0: the built-in classifier did
}

const (
	// relabelEvery is how long what the outside server says waits for more of it, so that
	// the catalog does not change with each tool.
	relabelEvery = 5 * time.Second

	// askAgain is the pause before a text is asked about again, so that a server which
	// goes down and comes up again and again is not asked about all tools each time.
	askAgain = 50 * time.Millisecond
)

func newLabels(c *classify.Classifier) *labels {
	return &labels{classifier: c, wake: make(chan struct{}, 1), known: make(map[string]label)}
}

// label returns the offer in which each tool bears the tag of its text, too, as far as
// that is known. The others' will be.
func (l *labels) label(o registry.Offer) registry.Offer {
	l.mu.Lock()
	defer l.mu.Unlock()
	tools := slices.Clone(o.Tools)
	for i := range tools {
		if tag := l.known[l.text(&tools[i])].tag; tag != "" && !slices.Contains(tools[i].Capabilities, tag) {
			tools[i].Capabilities = registry.Tags(append(slices.Clone(tools[i].Capabilities), tag))
		}
	}
	o.Tools = tools
	return o
}

// apart takes the words of an identifier apart.
var apart = strings.NewReplacer("_", " ", "-", " ", ".", " ", "/", " ")

// text returns that by which a tool is classified.
func (l *labels) text(t *registry.NormalizedTool) string {
	return clip(apart.Replace(t.Name)+". "+t.Description, l.classifier.Limit())
}

// changed says that there are other texts.
func (l *labels) changed() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run has the texts classified: at once by the built-in classifier, and then, one after
// the other, by each generation of the outside server. news is called when tags may
// have changed. It returns when ctx ends.
func (l *labels) run(ctx context.Context, texts func() []string, news func()) error {
	for {
		generation, changed := l.classifier.Outside()
		all := texts()
		if l.guess(ctx, all) {
			news()
		}
		if !l.ask(ctx, all, generation, changed, news) {
			continue
		}
		select {
		case <-l.wake:
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// guess has the built-in classifier classify the texts of which nothing is known, and
// forgets all others. It reports whether there were any.
func (l *labels) guess(ctx context.Context, texts []string) (news bool) {
	known := make(map[string]label, len(texts))
	for _, text := range texts {
		l.mu.Lock()
		said, ok := l.known[text]
		l.mu.Unlock()
		if !ok && ctx.Err() == nil {
			said.tag, news = l.classifier.Tag(l.classifier.StandIn(text)), true
		}
		known[text] = said
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = known
	return news
}

// ask has the outside server classify the texts that its generation has not, those
// first that none has. It returns false when there are others, or another generation.
func (l *labels) ask(ctx context.Context, texts []string, generation int, changed <-chan struct{}, news func()) (done bool) {
	if generation == 0 {
		return true // it is down
	}
	l.mu.Lock()
	texts = slices.DeleteFunc(texts, func(text string) bool { return l.known[text].by == generation })
	slices.SortStableFunc(texts, func(a, b string) int { return cmp.Compare(l.known[a].by, l.known[b].by) })
	l.mu.Unlock()
	told, untold := time.Now(), false
	defer func() {
		if untold {
			news()
		}
	}()
	for _, text := range texts {
		l.mu.Lock()
		pause := askAgain
		if l.known[text].by == 0 {
			pause = 0
		}
		l.mu.Unlock()
		select {
		case <-l.wake:
			return false
		case <-changed:
			return false
		case <-ctx.Done():
			return true
		case <-time.After(pause):
		}
		o, err := l.classifier.Classify(ctx, text)
		select {
		case <-changed: // who said it?
			return false
		default:
		}
		l.mu.Lock()
		l.known[text] = label{l.classifier.Tag(o, err), generation}
		l.mu.Unlock()
		if untold = true; time.Since(told) > relabelEvery {
			news()
			told, untold = time.Now(), false
		}
	}
	return true
}
