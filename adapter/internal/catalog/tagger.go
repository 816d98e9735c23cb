package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/capability"
	"github.com/mcp-metarouter/metarouter/internal/hints"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/taglist"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A Tagger gives tools the capability tags of one configuration.
type Tagger struct {
	Taxonomy *capability.Taxonomy
	tags     map[string][]string // the configuration's own, on which stored tools depend
}

// NewTagger returns the tagger of the key "capabilities".
func NewTagger(tags map[string][]string) *Tagger {
	return &Tagger{capability.NewTaxonomy(tags), tags}
}

// storeKey returns the key of the server's stored offer: a hash of everything that determines the
// offer.
func (t *Tagger) storeKey(s config.Server) string {
	return hash([]any{s.Hash(), s.Tools, s.Capabilities, t.tags})
}

func hash(v any) string {
	sum := sha256.Sum256(wire.Marshal(v))
	return hex.EncodeToString(sum[:12])
}

// tag returns the offer of an entry with the tags of this configuration.
func (t *Tagger) tag(entry config.Server, o registry.Offer) registry.Offer {
	o.Tools = slices.Clone(o.Tools)
	for i := range o.Tools {
		o.Tools[i].Capabilities = taglist.Clean(append(slices.Clone(entry.Capabilities), t.Taxonomy.Infer(o.Tools[i])...))
	}
	return o
}

// doubt returns the offer with the reasons against the hints of its tools: the tools' names, unless
// the server is trusted, and changes of the hints since a person confirmed them.
//
// Trust does not cover changed hints: the person who wrote "trustHints" judged the server as it
// was then.
//
// If the entry says so, tools are held which are new or have changed since a person looked.
func (t *Tagger) doubt(entry config.Server, o registry.Offer) registry.Offer {
	tools := slices.Clone(o.Tools)
	for i := range tools {
		_, unseen := o.LastSeen[tools[i].ServerName()]
		tools[i].Held = unseen && entry.NewTools == "hold"
		var reasons []string
		if !entry.TrustHints {
			reasons = append(reasons, t.Taxonomy.Doubt(tools[i]))
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
