package adapter

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/hints"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/registry"
)

// doubt returns the offer with what speaks against the hints of its tools: their names, unless
// these are trusted, and that the hints changed since a person confirmed them.
//
// trusted does not cover hints that changed: the person who wrote "trustHints" judged the
// server as it was then.
func (t *tagger) doubt(o registry.Offer, trusted bool) registry.Offer {
	tools := slices.Clone(o.Tools)
	for i := range tools {
		var reasons []string
		if !trusted {
			reasons = append(reasons, t.taxonomy.Doubt(tools[i]))
		}
		if was, changed := o.Confirmed[tools[i].ServerName()]; changed {
			reasons = append(reasons, hints.Doubt(was, tools[i].Hints))
		}
		reasons = slices.DeleteFunc(reasons, func(s string) bool { return s == "" })
		tools[i].Doubt = plain.Line(strings.Join(reasons, "; and "))
	}
	o.Tools = tools
	return o
}

// trust notes which servers' hints are believed whatever the names of their tools say, and has
// the tools of edited ones follow. w.mu must be held.
func (w *catalogWriter) trust(entries []config.Server) {
	before := w.trusts
	w.trusts = make(map[string]bool)
	for _, entry := range entries {
		w.trusts[entry.Name] = entry.TrustHints
		if w.known[entry.Name] == "" || before[entry.Name] == entry.TrustHints {
			continue
		}
		if _, err := w.publish(entry.Name, w.offer(entry.Name)); err != nil {
			w.log.Error("judge hints of tools", zap.String("server", entry.Name), zap.Error(err))
		}
	}
}

// confirm notes that a person has confirmed the hints that were shown.
func (w *catalogWriter) confirm(server string, shown map[string]registry.Hints) error {
	w.mu.Lock()
	key := w.known[server]
	if key == "" {
		w.mu.Unlock()
		return fmt.Errorf("confirm hints: the tools of %q are not known as its entry is now; 'metarouter tools %s' lists them", server, server)
	}
	o := w.offer(server)
	var left []string
	o.Confirmed, left = hints.Confirm(o, shown)
	_, err := w.publish(server, o)
	if err == nil && !w.isOther(server) {
		w.unsaved[server] = unsaved{key, o}
	}
	w.mu.Unlock()
	err = cmp.Or(err, w.saveNow(server))
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("confirm hints: %s of %q changed again meanwhile, and was not confirmed; look at the changes and repeat this", plain.Line(strings.Join(left[:min(len(left), 5)], ", ")), server)
	}
	return err
}
