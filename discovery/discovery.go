// Package discovery makes the registry say what a live session says.
//
// It asks a server for all that it offers, cleans each tool, prompt, resource and
// template of what would break clients, and tags tools with what they are good
// for. One that is bad is repaired or left out with its reason; it never spoils
// the list, and never panics.
//
// Everything here but [Discovery.List] is pure.
package discovery

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/session"
)

// A list longer than this is an error: the server is paging without end.
const (
	maxPages = 1000
	maxItems = 100_000
)

// othersWait is how long a server may take to list its prompts, resources and
// templates: less than a listing again may take in all, so that one that never
// answers is used for its tools.
const othersWait = 20 * time.Second

// Rules are what the configuration says about one server's tools. The zero
// value allows all and changes nothing.
type Rules struct {
	Allow        []string          // globs over the server's own names; empty allows all
	Deny         []string          // globs over the server's own names; wins over Allow
	Rename       map[string]string // the server's own name to the one that clients see
	Capabilities []string          // every tool bears them
}

// What is kept of what is left out: so many things of one server, and so much of a
// name or a reason, in bytes.
const (
	maxDropped     = 2000
	maxDroppedText = 300
)

// Discovery lists what sessions offer. It may be used by many goroutines at
// once.
type Discovery struct {
	taxonomy *Taxonomy
	log      *zap.Logger
}

// New returns a Discovery that tags tools by the taxonomy.
func New(taxonomy *Taxonomy, log *zap.Logger) *Discovery {
	return &Discovery{taxonomy: taxonomy, log: log.Named("discovery")}
}

// List asks a live session for all that it offers, on as many pages as there are,
// and returns it normalized. The rules are for tools alone. What a server did not
// declare as its capability it has not, and is not asked for.
//
// It is an error if the server does not answer with a list of tools, or never
// ends it. A JSON-RPC error from the server is a wrapped *[session.Error]. Where
// another list fails, the server offers none of that kind: a server whose tools
// work is of use. What cannot be offered is not an error: it is in
// Offer.Dropped.
func (d *Discovery) List(ctx context.Context, server string, s session.Session, r Rules) (registry.Offer, error) {
	l := lister{server: server, session: s, rules: r, log: d.log.With(zap.String("server", server))}
	if err := l.tools(ctx, d); err != nil {
		return registry.Offer{}, err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, othersWait, fmt.Errorf("no answer within %s", othersWait))
	defer cancel()
	l.others(bounded)
	if ctx.Err() != nil {
		return registry.Offer{}, context.Cause(ctx)
	}
	l.offer.Version = s.Info().Version
	if capabilities := s.Info().Capabilities; wire.IsObject(capabilities) {
		l.offer.Capabilities = capabilities
		if extensions := wire.Member(capabilities, "extensions"); wire.IsObject(extensions) {
			l.offer.Extensions = extensions
		}
	}
	return l.offer, nil
}

// capabilities returns the tags inferred and the tags given, sorted.
func (d *Discovery) capabilities(t registry.NormalizedTool, r Rules) []string {
	names := slices.Clone(r.Capabilities)
	for _, tag := range d.taxonomy.Infer(t) {
		names = append(names, tag.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// check reports a glob that can never match, which would let a tool through
// that its writer meant to deny.
func (r Rules) check() error {
	for _, glob := range slices.Concat(r.Allow, r.Deny) {
		if _, err := path.Match(glob, ""); err != nil {
			return fmt.Errorf("tools: bad pattern %q: %w", glob, err)
		}
	}
	return nil
}

// Refuses reports whether the rules keep a tool out, and what is to be said of it.
func (r Rules) Refuses(name string) (registry.Dropped, bool) {
	d := registry.Dropped{Kind: registry.KindTool, Name: name}
	for _, glob := range r.Deny {
		if matches(glob, name) {
			d.Reason, d.Filter, d.Pattern = fmt.Sprintf("filtered by config: denied by %q", glob), "deny", glob
			return d, true
		}
	}
	for _, glob := range r.Allow {
		if matches(glob, name) {
			return d, false
		}
	}
	d.Reason, d.Filter = "filtered by config: not in allow", "allow"
	return d, len(r.Allow) > 0
}

// matches is path.Match for names that are no paths: * matches a slash too.
func matches(glob, name string) bool {
	flat := strings.NewReplacer("/", "\x00")
	ok, _ := path.Match(flat.Replace(glob), flat.Replace(name))
	return ok
}
