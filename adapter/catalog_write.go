package adapter

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter/internal/offerstore"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/discovery"
	"github.com/mcp-metarouter/metarouter/internal/capability"
	"github.com/mcp-metarouter/metarouter/internal/hints"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A catalogWriter writes what the servers' sessions list to the registry and the store. It
// is the supervisor's handler.
type catalogWriter struct {
	onDemand bool
	registry *registry.Registry
	store    *offerstore.Store
	log      *zap.Logger

	// mu guards the fields below, and has the registry change together with them.
	mu     sync.Mutex
	tagger *tagger
	labels *labels                   // nil without an outside classifier
	known  map[string]string         // server -> the key of the offer that is in the registry
	offers map[string]registry.Offer // by server, before labels; empty without labels
	place  string                    // identifies the configuration in the store; "" before configure
	saved  registry.Claims           // as they are in the store
	keys   map[string]string         // server -> the key of its offer that was stored last, in this run or an earlier one
	older  map[string]registry.Offer // of entries that were edited while no router ran, until they are listed
	trusts map[string]bool           // servers whose hints are believed whatever their names say
	others map[string]config.Server  // servers of other nodes, of which nothing is stored
	gone   goneOffers                // of such servers, until they are listed again

	unsaved map[string]unsaved // by server, what is to be stored
	toSave  chan struct{}      // holds a notice while there may be something to store
	saving  sync.Mutex         // held while offers are stored, so that the latest is stored last; taken before mu
}

// A tagger gives tools the capability tags of one configuration.
type tagger struct {
	tags      map[string][]string // the configuration's own, on which stored tools depend
	taxonomy  *capability.Taxonomy
	discovery *discovery.Discovery
}

func newTagger(tags map[string][]string, log *zap.Logger) *tagger {
	taxonomy := capability.NewTaxonomy(tags)
	return &tagger{tags, taxonomy, discovery.New(taxonomy, log)}
}

// storeKey returns the key of the server's stored offer: a hash of all that determines the
// offer.
func (t *tagger) storeKey(s config.Server) string {
	rules := wire.Marshal([]any{s.Hash(), s.Tools, s.Capabilities, t.tags})
	sum := sha256.Sum256(rules)
	return hex.EncodeToString(sum[:12])
}

// retag returns the offer of an entry with the tags of this configuration.
func (t *tagger) retag(entry config.Server, o registry.Offer) registry.Offer {
	o.Tools = slices.Clone(o.Tools)
	for i := range o.Tools {
		tags := slices.Clone(entry.Capabilities)
		for _, tag := range t.taxonomy.Infer(o.Tools[i]) {
			tags = append(tags, tag.Name)
		}
		slices.Sort(tags)
		o.Tools[i].Capabilities = slices.Compact(tags)
	}
	return o
}

func newCatalogWriter(onDemand bool, t *tagger, r *registry.Registry, s *offerstore.Store, log *zap.Logger) *catalogWriter {
	return &catalogWriter{
		onDemand: onDemand, tagger: t, registry: r, store: s, log: log.Named("catalog"),
		known: make(map[string]string), offers: make(map[string]registry.Offer), keys: make(map[string]string), older: make(map[string]registry.Offer), others: make(map[string]config.Server),
		unsaved: make(map[string]unsaved), toSave: make(chan struct{}, 1),
	}
}

// publish puts the offer into the registry, with what speaks against the hints of its tools.
// w.mu must be held.
func (w *catalogWriter) publish(server string, o registry.Offer) (changed bool, err error) {
	o = w.tagger.doubt(o, w.trusts[server])
	if w.labels == nil {
		return w.registry.Replace(server, o)
	}
	if changed, err = w.registry.Replace(server, w.labels.label(o)); err == nil {
		w.offers[server] = o
		w.labels.changed()
	}
	return changed, err
}

// offer returns what the server offers, before labels. w.mu must be held.
func (w *catalogWriter) offer(server string) registry.Offer {
	if o, ok := w.offers[server]; ok {
		return o
	}
	l := w.registry.Snapshot().Offer(server)
	o := registry.Offer{Capabilities: l.Capabilities, Extensions: l.Extensions, Version: l.Version, Dropped: l.Dropped, LastSeen: l.LastSeen, Confirmed: l.Confirmed}
	for _, t := range l.Tools {
		o.Tools = append(o.Tools, *t)
	}
	for _, p := range l.Prompts {
		o.Prompts = append(o.Prompts, *p)
	}
	for _, r := range l.Resources {
		o.Resources = append(o.Resources, *r)
	}
	for _, t := range l.Templates {
		o.Templates = append(o.Templates, *t)
	}
	return o
}

// setTagger gives all tools the tags of another configuration, whose entries are given,
// and stores the offers under their new keys.
func (w *catalogWriter) setTagger(t *tagger, entries []config.Server) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.tagger
	w.tagger = t
	own := len(entries)
	for i, entry := range slices.AppendSeq(slices.Clone(entries), maps.Values(w.others)) {
		if w.known[entry.Name] != before.storeKey(entry) {
			continue // it is not listed yet
		}
		offer := t.retag(entry, w.offer(entry.Name))
		if _, err := w.publish(entry.Name, offer); err != nil {
			w.log.Error("tag tools", zap.String("server", entry.Name), zap.Error(err))
			continue
		}
		w.known[entry.Name] = t.storeKey(entry)
		if i < own {
			w.unsaved[entry.Name] = unsaved{t.storeKey(entry), offer}
		}
	}
	w.saveSoon()
}

// setLabels replaces the source of further tags; nil is none.
func (w *catalogWriter) setLabels(l *labels) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l == nil && w.labels == nil {
		return
	}
	offers := make(map[string]registry.Offer)
	for server := range w.known {
		offers[server] = w.offer(server)
	}
	w.labels, w.offers = l, make(map[string]registry.Offer)
	for server, o := range offers {
		if _, err := w.publish(server, o); err != nil {
			w.log.Error("tag tools", zap.String("server", server), zap.Error(err))
		}
	}
}

// texts returns the texts by which the tools are classified, each once.
func (w *catalogWriter) texts() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var texts []string
	seen := make(map[string]bool)
	for _, o := range w.offers {
		for i := range o.Tools {
			if text := w.labels.text(&o.Tools[i]); !seen[text] {
				seen[text] = true
				texts = append(texts, text)
			}
		}
	}
	slices.Sort(texts)
	return texts
}

// relabel puts all offers into the registry again, with the labels that they have now.
func (w *catalogWriter) relabel() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.labels == nil {
		return
	}
	offers := make(map[string]registry.Offer, len(w.offers))
	for server, o := range w.offers {
		offers[server] = w.labels.label(o)
	}
	if _, err := w.registry.ReplaceAll(offers); err != nil {
		w.log.Error("tag tools", zap.Error(err))
	}
}

func (w *catalogWriter) labelsNow() *labels {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.labels
}

// guess labels all tools by the built-in classifier, if there are labels.
func (w *catalogWriter) guess(ctx context.Context) {
	if labels := w.labelsNow(); labels != nil && labels.guess(ctx, w.texts()) {
		w.relabel()
	}
}

// configure tells the registry which servers the configuration has: they keep their URIs.
func (w *catalogWriter) configure(c config.Config) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var stored registry.Claims
	if w.place == "" && len(c.Files) > 0 {
		sum := sha256.Sum256(wire.Marshal(c.Files))
		w.place = hex.EncodeToString(sum[:12])
		stored = w.store.LoadClaims(w.place)
		w.saved = stored
		maps.Copy(w.keys, w.store.LoadKeys(w.place))
	}
	names := make([]string, len(c.Servers))
	for i, s := range c.Servers {
		names[i] = s.Name
	}
	w.registry.Configure(names, stored)
	w.trust(c.Servers)
}

// Learn implements [supervisor.Handler].
func (w *catalogWriter) Learn(ctx context.Context, entry config.Server, s session.Session) error {
	w.mu.Lock()
	t := w.tagger
	delete(w.others, entry.Name)
	w.mu.Unlock()
	offer, err := t.discovery.List(ctx, entry.Name, s, rulesOf(entry))
	if err != nil {
		return err
	}
	for _, d := range offer.Dropped {
		w.log.Debug("left out", zap.String("server", entry.Name), zap.String(d.Kind, d.Name), zap.String("reason", d.Reason))
	}
	return w.adopt(ctx, entry, offer, t)
}

func rulesOf(entry config.Server) discovery.Rules {
	return discovery.Rules{
		Allow: entry.Tools.Allow, Deny: entry.Tools.Deny, Rename: entry.Tools.Rename,
		Capabilities: entry.Capabilities,
	}
}

// adopt puts the offer of a server into the registry, unless ctx has ended, and has it stored.
// t has tagged the tools.
func (w *catalogWriter) adopt(ctx context.Context, entry config.Server, o registry.Offer, t *tagger) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if w.tagger != t { // the configuration was edited while the server was listed
		o = w.tagger.retag(entry, o)
	}
	before, known := w.offer(entry.Name), w.known[entry.Name] != ""
	if !known {
		before, known = w.older[entry.Name]
	}
	if !known {
		before, known = w.gone.take(entry.Name)
	}
	if known {
		o.LastSeen, o.Confirmed = lastSeen(before, o.Tools), hints.Confirmed(before, o.Tools)
	}
	changed, err := w.publish(entry.Name, o)
	if err != nil {
		return err
	}
	if known && changed {
		w.logChanges(entry.Name, before.Tools, o.Tools)
	}
	delete(w.older, entry.Name)
	key := w.tagger.storeKey(entry)
	if !w.isOther(entry.Name) {
		if changed || w.known[entry.Name] != key {
			w.unsaved[entry.Name] = unsaved{key, o}
		}
		w.saveSoon() // other servers' URIs may be others now
	}
	w.known[entry.Name] = key
	return nil
}

// logChanges logs which definitions differ from those that the server listed before, in
// this run or an earlier one: a server that was harmless when a person looked may have
// changed since.
func (w *catalogWriter) logChanges(server string, before, after []registry.NormalizedTool) {
	changed, added, removed, details := changesOf(before, after)
	if changed+added+removed > 0 {
		w.log.Info("the server lists other tools than before", zap.String("server", server),
			zap.Int("changed", changed), zap.Int("new", added), zap.Int("removed", removed))
		w.log.Debug("tools that the server changed", zap.String("server", server), zap.Strings("changes", details))
	}
}

// seen notes that a person has seen how the definitions of the server's tools changed.
func (w *catalogWriter) seen(server string) error {
	w.mu.Lock()
	o, key := w.offer(server), w.known[server]
	if key == "" || len(o.LastSeen) == 0 {
		w.mu.Unlock()
		return nil
	}
	o.LastSeen = nil
	_, err := w.publish(server, o)
	if err == nil && !w.isOther(server) {
		w.unsaved[server] = unsaved{key, o}
	}
	w.mu.Unlock()
	return cmp.Or(err, w.saveNow(server))
}

// Known implements [supervisor.Handler].
func (w *catalogWriter) Known(entry config.Server) bool { return w.onDemand || w.listed(entry) }

// listed reports whether the entry's offer is in the registry.
func (w *catalogWriter) listed(entry config.Server) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.known[entry.Name]
	return known != "" && known == w.tagger.storeKey(entry) // a key takes time to compute
}

// Forget implements [supervisor.Handler].
func (w *catalogWriter) Forget(server string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(server)
}

// forget is Forget. w.mu must be held.
func (w *catalogWriter) forget(server string) {
	delete(w.known, server)
	delete(w.offers, server)
	delete(w.older, server)
	w.registry.Remove(server)
}

// unusedOffers is how long a stored offer is kept that no router uses: each edit of an entry
// stores the offer under another key.
const unusedOffers = 90 * 24 * time.Hour

// prune removes the stored offers that no router has used for a long time.
func (w *catalogWriter) prune() {
	if err := w.store.Prune(unusedOffers); err != nil {
		w.log.Warn("can't remove old stored offers", zap.Error(err))
	}
}
