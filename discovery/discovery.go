// Package discovery lists the offer of a server, for the registry.
//
// [List] asks a live session for its tools, prompts, resources, templates and skills. It
// repairs definitions that would break clients. A definition that cannot be repaired is left out with a
// reason: a bad one never spoils the list, and never causes a panic.
//
// All other functions are pure.
package discovery

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/glob"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A longer list is an error: the server sends pages without end.
const (
	maxPages     = 1000
	maxItems     = 100_000
	maxListBytes = 64 << 20 // of all lists of a server together
	maxSkills    = 1000     // further ones are not listed, and are found by their URI
)

// othersWait limits the time for the lists of prompts, resources and templates. It is
// shorter than the limit of the whole listing, so that a server which never answers with
// them is used for its tools.
const othersWait = 20 * time.Second

// Rules are the configuration's part about one server's tools. The zero
// value allows all and changes nothing.
type Rules struct {
	Allow  []string          // globs over the server's own names; empty allows all
	Deny   []string          // globs over the server's own names; wins over Allow
	Rename map[string]string // the server's own name to the one that clients see
}

// Bounds of the notes on items left out: how many of one server, and the length of a
// name or a reason in bytes.
const (
	maxDropped     = 2000
	maxDroppedText = 300
)

// List asks a live session for all pages of its lists, and returns their elements
// normalized; tools have no capability tags yet. The rules apply to tools only. Lists that the server does not
// declare in its capabilities are not asked for.
//
// List fails if the server's answer is not a list of tools, or if the list never ends. A
// JSON-RPC error of the server is a wrapped *[session.Error]. If another list fails, the
// offer has nothing of that kind, so that the tools can be used. Offer.Dropped has what was
// left out, a list that failed included.
func List(ctx context.Context, server string, s session.Session, r Rules, log *zap.Logger) (registry.Offer, error) {
	l := lister{server: server, session: s, rules: r, log: log.With(zap.String("server", server))}
	if err := l.tools(ctx); err != nil {
		return registry.Offer{}, err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, othersWait, fmt.Errorf("no answer within %s", othersWait))
	defer cancel()
	l.others(bounded)
	if ctx.Err() != nil {
		return registry.Offer{}, context.Cause(ctx)
	}
	l.offer.Version, l.offer.Look = s.Info().Version, s.Info().Look
	l.offer.Instructions, l.offer.Suspect = instructions(s.Info().Instructions)
	if capabilities := s.Info().Capabilities; wire.IsObject(capabilities) {
		l.offer.Capabilities = capabilities
		if extensions := wire.Member(capabilities, "extensions"); wire.IsObject(extensions) {
			l.offer.Extensions = extensions
		}
	}
	return l.offer, nil
}

// check reports an invalid glob. It never matches, so it would let tools through that it
// is meant to deny.
func (r Rules) check() error {
	for _, text := range slices.Concat(r.Allow, r.Deny) {
		if _, err := glob.Parse(text); err != nil {
			return fmt.Errorf("tools: bad pattern %q: %w", text, err)
		}
	}
	return nil
}

// Excludes reports whether the rules leave a tool out, and the note on it.
func (r Rules) Excludes(name string) (registry.Dropped, bool) {
	name = nameOf(name) // which the patterns are about
	d := registry.Dropped{Kind: registry.KindTool, Name: name}
	for _, text := range r.Deny {
		if matches(text, name) {
			d.Reason, d.Filter, d.Pattern = fmt.Sprintf("filtered by config: denied by %q", text), "deny", text
			return d, true
		}
	}
	for _, text := range r.Allow {
		if matches(text, name) {
			return d, false
		}
	}
	d.Reason, d.Filter = "filtered by config: not in allow", "allow"
	return d, len(r.Allow) > 0
}

// matches reports whether a name matches a pattern. A bad one, which check reports, matches
// nothing.
func matches(text, name string) bool {
	p, err := glob.Parse(text)
	return err == nil && p.Match(name)
}
