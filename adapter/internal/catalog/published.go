package catalog

import (
	"context"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/classify"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/registry"
)

// published are the offers in the registry.
type published struct {
	registry *registry.Registry
	log      *zap.Logger

	// mu guards the fields below, and has the registry change together with them.
	mu      sync.Mutex
	tagger  *Tagger
	labels  *labels                   // nil without an outside classifier
	known   map[string]string         // server -> the key of the offer that is in the registry
	offers  map[string]registry.Offer // by server, before labels; empty without labels
	older   map[string]registry.Offer // of entries that were edited while no router ran, until they are listed
	trusted map[string]bool           // servers with "trustHints"
	holding map[string]bool           // servers with "newTools": "hold"
}

// publish puts the offer into the registry, with the doubts about the hints of its tools. p.mu must
// be held.
func (p *published) publish(server string, o registry.Offer) (changed bool, err error) {
	o = p.tagger.doubt(o, p.trusted[server], p.holding[server])
	if p.labels == nil {
		return p.registry.Replace(server, o)
	}
	if changed, err = p.registry.Replace(server, p.labels.label(o)); err == nil {
		p.offers[server] = o
		signal.Leave(p.labels.wake)
	}
	return changed, err
}

// offer returns the server's offer, before labels. p.mu must be held.
func (p *published) offer(server string) registry.Offer {
	if o, ok := p.offers[server]; ok {
		return o
	}
	l := p.registry.Snapshot().Offer(server)
	return registry.Offer{
		Tools: values(l.Tools), Prompts: values(l.Prompts), Resources: values(l.Resources), Templates: values(l.Templates),
		Capabilities: l.Capabilities, Extensions: l.Extensions, Version: l.Version, Dropped: l.Dropped, LastSeen: l.LastSeen, Confirmed: l.Confirmed,
	}
}

func values[T any](pointers []*T) (all []T) {
	for _, one := range pointers {
		all = append(all, *one)
	}
	return all
}

// Listed reports whether the entry's offer is in the registry.
func (p *published) Listed(entry config.Server) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.known[entry.Name]
	return known != "" && known == p.tagger.storeKey(entry) // a key takes time to compute
}

// trust notes which servers' hints are believed whatever the names of their tools say, and which servers'
// new tools are held, and updates the tools of the servers for which that changed. p.mu must be held.
func (p *published) trust(entries []config.Server) {
	before, held := p.trusted, p.holding
	p.trusted, p.holding = make(map[string]bool), make(map[string]bool)
	for _, entry := range entries {
		p.trusted[entry.Name], p.holding[entry.Name] = entry.TrustHints, entry.NewTools == "hold"
		if p.known[entry.Name] == "" || before[entry.Name] == entry.TrustHints && held[entry.Name] == p.holding[entry.Name] {
			continue
		}
		if _, err := p.publish(entry.Name, p.offer(entry.Name)); err != nil {
			p.log.Error("judge hints of tools", zap.String("server", entry.Name), zap.Error(err))
		}
	}
}

// forget removes the server from the catalog. p.mu must be held.
func (p *published) forget(server string) {
	delete(p.known, server)
	delete(p.offers, server)
	delete(p.older, server)
	p.registry.Remove(server)
}

// Label has an outside classifier give the tools further tags, or stops that if c is nil.
func (p *published) Label(c *classify.Classifier) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c == nil && p.labels == nil {
		return
	}
	offers := make(map[string]registry.Offer)
	for server := range p.known {
		offers[server] = p.offer(server)
	}
	p.labels, p.offers = newLabels(c), make(map[string]registry.Offer)
	for server, o := range offers {
		if _, err := p.publish(server, o); err != nil {
			p.log.Error("tag tools", zap.String("server", server), zap.Error(err))
		}
	}
}

// RunLabels asks the classifier of Label about the tools, until ctx ends.
func (p *published) RunLabels(ctx context.Context) error {
	if l := p.labelsNow(); l != nil {
		return l.run(ctx, p.texts, p.relabel)
	}
	return nil
}

// GuessLabels labels all tools by the built-in classifier, if Label was called with another one.
func (p *published) GuessLabels(ctx context.Context) {
	if l := p.labelsNow(); l != nil && l.guess(ctx, p.texts()) {
		p.relabel()
	}
}

func (p *published) labelsNow() *labels {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.labels
}

// texts returns the texts by which the tools are classified, each once.
func (p *published) texts() (texts []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.offers {
		for i := range o.Tools {
			texts = append(texts, p.labels.text(&o.Tools[i]))
		}
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// relabel puts all offers into the registry again, with the labels that they have now.
func (p *published) relabel() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.labels == nil {
		return
	}
	offers := make(map[string]registry.Offer, len(p.offers))
	for server, o := range p.offers {
		offers[server] = p.labels.label(o)
	}
	if _, err := p.registry.ReplaceAll(offers); err != nil {
		p.log.Error("tag tools", zap.Error(err))
	}
}
