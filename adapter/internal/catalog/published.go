package catalog

import (
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/registry"
)

// publish puts the offer into the registry, with the doubts about the hints of its tools. w.mu must
// be held.
func (w *Writer) publish(server string, o registry.Offer) (changed bool, err error) {
	return w.registry.Replace(server, w.tagger.doubt(w.entries[server], o))
}

// offer returns the server's offer. w.mu must be held.
func (w *Writer) offer(server string) registry.Offer {
	l := w.registry.Snapshot().Offer(server)
	return registry.Offer{
		Tools: values(l.Tools), Prompts: values(l.Prompts), Resources: values(l.Resources), Templates: values(l.Templates), Skills: values(l.Skills),
		Capabilities: l.Capabilities, Extensions: l.Extensions, Version: l.Version, Look: l.Look, Instructions: l.Instructions, Suspect: l.Suspect, Dropped: l.Dropped, LastSeen: l.LastSeen, Confirmed: l.Confirmed,
	}
}

func values[T any](pointers []*T) (all []T) {
	for _, one := range pointers {
		all = append(all, *one)
	}
	return all
}

// Listed reports whether the entry's offer is in the registry.
func (w *Writer) Listed(entry config.Server) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.known[entry.Name]
	return known != "" && known == w.tagger.storeKey(entry) // a key takes time to compute
}

// trust notes the entries, and updates the tools of the servers whose hints or new tools are judged in another way
// than before. w.mu must be held.
func (w *Writer) trust(entries []config.Server) {
	before := w.entries
	w.entries = make(map[string]config.Server, len(entries))
	for _, entry := range entries {
		w.entries[entry.Name] = entry
		was := before[entry.Name]
		if w.known[entry.Name] == "" || was.TrustHints == entry.TrustHints && was.NewTools == entry.NewTools {
			continue
		}
		if _, err := w.publish(entry.Name, w.offer(entry.Name)); err != nil {
			w.log.Error("judge hints of tools", zap.String("server", entry.Name), zap.Error(err))
		}
	}
}
