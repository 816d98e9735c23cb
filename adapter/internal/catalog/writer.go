// Package catalog writes the catalog of a router: it lists and tags the tools of servers, stores them,
// recalls them at the next start, and notes which definitions changed.
package catalog

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/discovery"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/hints"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A Writer writes the lists of sessions with servers to a registry and a store. It is the
// [supervisor.Handler] of a router.
type Writer struct {
	published
	Saves    saver
	onDemand bool
	lists    *zap.Logger // of faults in the lists of servers

	others map[string]config.Server // servers of other nodes, of which nothing is stored; also guarded by published.mu
}

// NewWriter returns a writer that tags tools by t, and stores them below the folder dataDir unless that is "". onDemand is an
// option of the router.
func NewWriter(onDemand bool, t *Tagger, r *registry.Registry, dataDir string, log *zap.Logger) *Writer {
	store, lists := newStore(dataDir, log), log.Named("discovery")
	log = log.Named("catalog")
	return &Writer{
		published: published{registry: r, log: log, tagger: t, known: make(map[string]string), older: make(map[string]registry.Offer)},
		Saves:     saver{store: store, registry: r, log: log, due: make(chan struct{}, 1), waiting: make(map[string]unsaved)},
		onDemand:  onDemand, lists: lists, others: make(map[string]config.Server),
	}
}

// Configure adapts the catalog to a configuration: its servers keep their URIs, the hints of some
// are trusted, and stored offers are recalled.
func (w *Writer) Configure(c config.Config) {
	stored := w.Saves.load(c.Files)
	names := make([]string, len(c.Servers))
	for i, s := range c.Servers {
		names[i] = s.Name
	}
	w.mu.Lock()
	w.registry.Configure(names, stored)
	w.trust(c.Servers)
	w.mu.Unlock()
	w.recall(c.Servers)
}

// Retag gives all tools the tags of another configuration with these entries, and stores the offers
// under their new keys.
func (w *Writer) Retag(t *Tagger, entries []config.Server) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.tagger
	w.tagger = t
	for _, entry := range slices.AppendSeq(slices.Clone(entries), maps.Values(w.others)) {
		if w.known[entry.Name] != before.storeKey(entry) {
			continue // it is not listed yet
		}
		offer := t.tag(entry, w.offer(entry.Name))
		if _, err := w.publish(entry.Name, offer); err != nil {
			w.log.Error("tag tools", zap.String("server", entry.Name), zap.Error(err))
			continue
		}
		w.known[entry.Name] = t.storeKey(entry)
		w.save(entry.Name, offer)
	}
	signal.Leave(w.Saves.due)
}

// save has the server's offer stored, unless the server is on another node. w.mu must be held.
func (w *Writer) save(server string, o registry.Offer) {
	if _, other := w.others[server]; !other {
		w.Saves.put(server, w.known[server], o)
	}
}

// Learn implements [supervisor.Handler].
func (w *Writer) Learn(ctx context.Context, entry config.Server, s session.Session) error {
	return w.list(ctx, entry, s, false)
}

// LearnOther is Learn for a server of another node.
func (w *Writer) LearnOther(ctx context.Context, entry config.Server, s session.Session) error {
	return w.list(ctx, entry, s, true)
}

func (w *Writer) list(ctx context.Context, entry config.Server, s session.Session, other bool) error {
	w.mu.Lock()
	if delete(w.others, entry.Name); other {
		w.others[entry.Name] = entry
	}
	t := w.tagger
	w.mu.Unlock()
	offer, err := discovery.List(ctx, entry.Name, s, discovery.Rules(entry.Tools), w.lists)
	if err != nil {
		return err
	}
	if entry.Personal() { // they may belong to one user's account
		offer.Resources = nil
	}
	for _, d := range offer.Dropped {
		w.log.Debug("left out", zap.String("server", entry.Name), zap.String(d.Kind, d.Name), zap.String("reason", d.Reason))
	}
	return w.adopt(ctx, entry, t.tag(entry, offer), t)
}

// adopt puts the offer of a server into the registry, unless ctx has ended, and has it stored.
// t has tagged the tools.
func (w *Writer) adopt(ctx context.Context, entry config.Server, o registry.Offer, t *Tagger) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if w.tagger != t { // the configuration was edited while the server was listed
		o = w.tagger.tag(entry, o)
	}
	tools, key := w.permitted(entry, o.Tools)
	o.Tools = tools
	before, known := w.offer(entry.Name), w.known[entry.Name] != ""
	if !known {
		before, known = w.older[entry.Name]
	}
	if known {
		o.LastSeen, o.Confirmed = lastSeen(before, o.Tools, w.entries[entry.Name].NewTools == "hold"), hints.Confirmed(before, o.Tools)
	}
	changed, err := w.publish(entry.Name, o)
	if err != nil {
		return err
	}
	if known && changed {
		logChanges(w.log, entry.Name, before.Tools, o.Tools)
	}
	delete(w.older, entry.Name)
	changed = changed || w.known[entry.Name] != key
	w.known[entry.Name] = key
	if changed {
		w.save(entry.Name, o)
	}
	signal.Leave(w.Saves.due) // other servers' URIs may have changed
	return nil
}

// Seen notes that a person has seen how the definitions of the server's tools changed; see LastSeen
// of [registry.Offer].
func (w *Writer) Seen(server string) error {
	_, err := w.amend(server, func(o *registry.Offer) { o.LastSeen = nil })
	return err
}

// ConfirmHints notes that a person has confirmed the hints that were shown, by the server's own
// names of its tools; see Confirmed of [registry.Offer]. It is an error if a tool has other hints
// by now: these stay unconfirmed.
func (w *Writer) ConfirmHints(server string, shown map[string]registry.Hints) error {
	var left []string
	known, err := w.amend(server, func(o *registry.Offer) { o.Confirmed, left = hints.Confirm(*o, shown) })
	switch {
	case !known:
		return fmt.Errorf("confirm hints: the tools of %q are not known as its entry is now; 'metarouter tools %s' lists them", server, commandline.Quote(server))
	case err == nil && len(left) > 0:
		return fmt.Errorf("confirm hints: %s of %q changed again meanwhile, and was not confirmed; look at the changes and repeat this", plain.Line(strings.Join(left[:min(len(left), 5)], ", ")), server)
	}
	return err
}

// amend edits a known offer, and stores it at once. It reports false if the offer is not known.
func (w *Writer) amend(server string, edit func(*registry.Offer)) (known bool, err error) {
	w.mu.Lock()
	if w.known[server] == "" {
		w.mu.Unlock()
		return false, nil
	}
	o := w.offer(server)
	edit(&o)
	if _, err = w.publish(server, o); err == nil {
		w.save(server, o)
	}
	w.mu.Unlock()
	return true, cmp.Or(err, w.Saves.All())
}

// Known implements [supervisor.Handler].
func (w *Writer) Known(entry config.Server) bool { return w.onDemand || w.Listed(entry) }

// maxAway bounds the servers of other nodes whose next lists are compared with their last ones.
const maxAway = 200

// Forget implements [supervisor.Handler]. The server may be of another node: when that is back, it may have changed its tools.
func (w *Writer) Forget(server string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.older, server)
	if _, other := w.others[server]; other && w.known[server] != "" && len(w.older) < maxAway {
		w.compareNext(server, w.offer(server))
	}
	delete(w.known, server)
	delete(w.others, server)
	w.registry.Remove(server)
}
