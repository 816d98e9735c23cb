package adapter

import (
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"sync"

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
type sorter struct{ *classify.Classifier }

// Category implements [selector.Classifier].
func (s sorter) Category(ctx context.Context, task string) (tag string, likely float64) {
	o, err := s.Classify(ctx, clip(task))
	if err != nil || !s.Fits(o) {
		return "", 0
	}
	return tagOf(o.Category), o.Confidence
}

func tagOf(category string) string { return strings.ToLower(strings.TrimSpace(category)) }

// maxDescribed is how much of a task or of a tool's description is classified, in bytes.
const maxDescribed = 1000

func clip(text string) string {
	if len(text) > maxDescribed {
		text = strings.ToValidUTF8(text[:maxDescribed], "")
	}
	return text
}

// maxLabels bounds what is remembered of the outside server's answers.
const maxLabels = 50_000

type digest [sha256.Size]byte

// labels are the tags that an outside classification server gives to tools. What it
// has not said yet, the built-in classifier says.
type labels struct {
	classifier *classify.Classifier
	wake       chan struct{} // holds a signal when there is something to ask

	mu     sync.Mutex        // guards what follows
	known  map[digest]string // its tag for a text, "" for none
	wanted map[digest]string // texts to ask about
}

func newLabels(c *classify.Classifier) *labels {
	return &labels{classifier: c, wake: make(chan struct{}, 1), known: make(map[digest]string), wanted: make(map[digest]string)}
}

// label returns the offer in which each tool bears the tag of its category, too.
func (l *labels) label(o registry.Offer) registry.Offer {
	tools := slices.Clone(o.Tools)
	for i := range tools {
		if tag := l.of(&tools[i]); tag != "" && !slices.Contains(tools[i].Capabilities, tag) {
			tools[i].Capabilities = registry.Tags(append(slices.Clone(tools[i].Capabilities), tag))
		}
	}
	o.Tools = tools
	return o
}

// apart takes the words of an identifier apart.
var apart = strings.NewReplacer("_", " ", "-", " ", ".", " ", "/", " ")

// of returns the tag of a tool's category, "" for none.
func (l *labels) of(t *registry.NormalizedTool) string {
	text := clip(apart.Replace(t.Name) + ". " + t.Description)
	key := digest(sha256.Sum256([]byte(text)))
	l.mu.Lock()
	tag, known := l.known[key]
	if !known {
		l.wanted[key] = text
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
	l.mu.Unlock()
	if !known {
		tag = l.tag(l.classifier.StandIn(text))
	}
	return tag
}

func (l *labels) tag(o classify.Outcome, err error) string {
	if err != nil || !l.classifier.Fits(o) {
		return ""
	}
	return tagOf(o.Category)
}

// run asks the outside server for what it has not been asked, as long as it is up,
// until ctx ends. news is called when tags may have changed.
func (l *labels) run(ctx context.Context, news func()) error {
	for {
		changed := l.classifier.Changed()
		if l.ask(ctx) {
			news()
		}
		select {
		case <-l.wake:
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// ask reports whether anything was learned.
func (l *labels) ask(ctx context.Context) (news bool) {
	for {
		key, text, ok := l.next()
		if !ok {
			return news
		}
		o, err := l.classifier.Classify(ctx, text)
		if ctx.Err() != nil || err == nil && o.Degraded {
			return news // it is down, and asked again when it is up
		}
		l.mu.Lock()
		if len(l.known) >= maxLabels {
			clear(l.known)
		}
		l.known[key] = l.tag(o, err)
		delete(l.wanted, key)
		l.mu.Unlock()
		news = true
	}
}

func (l *labels) next() (key digest, text string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, text := range l.wanted {
		return key, text, true
	}
	return key, "", false
}
