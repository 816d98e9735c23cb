package catalog

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/classify"
	"github.com/mcp-metarouter/metarouter/internal/taglist"
	"github.com/mcp-metarouter/metarouter/registry"
)

// labels are the tags that the classifier gives to tools by their texts: the built-in classifier,
// until the outside server has classified the text.
type labels struct {
	classifier *classify.Classifier
	wake       chan struct{} // holds a signal when the texts have changed

	mu    sync.Mutex       // guards known
	known map[string]label // by text, of the latest texts
}

// A label is the tag of one text.
type label struct {
	tag string // may be ""
	by  int    // the generation of the outside server that gave it; 0: the built-in classifier
}

const (
	// relabelEvery is how long answers of the outside server are collected before the catalog
	// changes.
	relabelEvery = 5 * time.Second

	// askAgain is the pause before a text is classified again, since a server may go down and
	// come up repeatedly.
	askAgain = 50 * time.Millisecond
)

func newLabels(c *classify.Classifier) *labels {
	if c == nil {
		return nil
	}
	return &labels{classifier: c, wake: make(chan struct{}, 1), known: make(map[string]label)}
}

// label returns the offer with the known tags of the tools' texts added to their capabilities.
func (l *labels) label(o registry.Offer) registry.Offer {
	l.mu.Lock()
	defer l.mu.Unlock()
	tools := slices.Clone(o.Tools)
	for i := range tools {
		if tag := l.known[l.text(&tools[i])].tag; tag != "" && !slices.Contains(tools[i].Capabilities, tag) {
			tools[i].Capabilities = taglist.Clean(append(slices.Clone(tools[i].Capabilities), tag))
		}
	}
	o.Tools = tools
	return o
}

// apart separates the words of an identifier.
var apart = strings.NewReplacer("_", " ", "-", " ", ".", " ", "/", " ")

// text returns the text by which a tool is classified.
func (l *labels) text(t *registry.NormalizedTool) string {
	return Clip(apart.Replace(t.Name)+". "+t.Description, l.classifier.Limit())
}

// run has the texts classified until ctx ends: at once by the built-in classifier, and then, one after
// the other, by each generation of the outside server. news is called when tags may have changed.
func (l *labels) run(ctx context.Context, texts func() []string, news func()) error {
	for {
		generation, changed := l.classifier.OutsideGeneration()
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

// guess has the built-in classifier classify the unknown texts, and forgets all labels of
// other texts. It reports whether any text was unknown, unless ctx has ended.
func (l *labels) guess(ctx context.Context, texts []string) (news bool) {
	known := make(map[string]label, len(texts))
	for _, text := range texts {
		l.mu.Lock()
		said, ok := l.known[text]
		l.mu.Unlock()
		if !ok && ctx.Err() == nil {
			said.tag, news = l.classifier.Tag(l.classifier.ClassifyBuiltin(ctx, text)), true
		}
		known[text] = said
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = known
	return news && ctx.Err() == nil
}

// ask has the outside server classify the texts that its generation has not classified, first those
// that no generation has. It returns false when the texts or the generation have changed.
func (l *labels) ask(ctx context.Context, texts []string, generation int, changed <-chan struct{}, news func()) (done bool) {
	if generation == 0 {
		return true // the server is down
	}
	l.mu.Lock()
	texts = slices.DeleteFunc(texts, func(text string) bool { return l.known[text].by == generation })
	slices.SortStableFunc(texts, func(a, b string) int { return cmp.Compare(l.known[a].by, l.known[b].by) })
	l.mu.Unlock()
	reported, unreported := time.Now(), false
	defer func() {
		if unreported {
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
		case <-changed: // the answer may be of either generation
			return false
		default:
		}
		l.mu.Lock()
		l.known[text] = label{l.classifier.Tag(o, err), generation}
		l.mu.Unlock()
		if unreported = true; time.Since(reported) > relabelEvery {
			news()
			reported, unreported = time.Now(), false
		}
	}
	return true
}

// maxClassified bounds the part of a task or of a tool's description that is classified, in bytes.
const maxClassified = 1000

// Clip returns the beginning of a text, as much as is classified: at most limit bytes.
func Clip(text string, limit int) string {
	if limit = min(limit, maxClassified); len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "")
	}
	return text
}
