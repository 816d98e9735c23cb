// Package discovery makes the registry say what a live session says.
//
// It asks a server for all its tools, cleans each of what would break clients,
// and tags it with what it is good for. One bad tool is repaired or left out
// with its reason; it never spoils the list, and never panics.
//
// Everything here but [Discovery.List] is pure.
package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/session"
)

// A list longer than this is an error: the server is paging without end.
const (
	maxPages = 1000
	maxTools = 100_000
)

// Rules are what the configuration says about one server's tools. The zero
// value allows all and changes nothing.
type Rules struct {
	Allow        []string          // globs over the server's own names; empty allows all
	Deny         []string          // globs over the server's own names; wins over Allow
	Rename       map[string]string // the server's own name to the one that clients see
	Capabilities []string          // every tool bears them
}

// A Listing is what became of a server's list of tools.
type Listing struct {
	Tools   []registry.NormalizedTool // in the server's order
	Dropped []Dropped                 // in the server's order
}

// Dropped is a tool that is not offered, and why.
type Dropped struct {
	Name   string // the server's own name, or "#3" for the third tool if it has none
	Reason string
}

// Discovery lists the tools of sessions. It may be used by many goroutines at
// once.
type Discovery struct {
	taxonomy *Taxonomy
	log      *zap.Logger
}

// New returns a Discovery that tags tools by the taxonomy.
func New(taxonomy *Taxonomy, log *zap.Logger) *Discovery {
	return &Discovery{taxonomy: taxonomy, log: log.Named("discovery")}
}

// List asks a live session for all its tools, on as many pages as there are,
// and returns them normalized. A server that did not declare the tools
// capability has none and is not asked.
//
// It is an error if the server does not answer with a list, or never ends it.
// A JSON-RPC error from the server is a wrapped *[session.Error]. A tool that
// cannot be offered is not an error: it is in Listing.Dropped.
func (d *Discovery) List(ctx context.Context, server string, s session.Session, r Rules) (Listing, error) {
	if !s.Info().Has("tools") {
		return Listing{}, nil
	}
	if err := r.check(); err != nil {
		return Listing{}, err
	}
	definitions, err := pages(ctx, s)
	if err != nil {
		return Listing{}, fmt.Errorf("list tools of %s: %w", server, err)
	}

	var list Listing
	log := d.log.With(zap.String("server", server))
	drop := func(i int, raw json.RawMessage, reason string) {
		name := label(i, raw)
		list.Dropped = append(list.Dropped, Dropped{Name: name, Reason: reason})
		log.Warn("tool left out", zap.String("tool", name), zap.String("reason", reason))
	}
	theirs, ours := map[string]bool{}, map[string]bool{}
	for i, raw := range definitions {
		t, err := Normalize(server, raw, r.Rename)
		if err != nil {
			drop(i, raw, err.Error())
			continue
		}
		if theirs[t.ServerName()] {
			drop(i, raw, "duplicate name: the server lists it twice, and the first is kept")
			continue
		}
		theirs[t.ServerName()] = true
		if reason := r.refuse(t.ServerName()); reason != "" {
			list.Dropped = append(list.Dropped, Dropped{Name: t.ServerName(), Reason: reason})
			continue
		}
		if ours[t.Name] {
			drop(i, raw, fmt.Sprintf("duplicate name: another tool is already called %q after renaming", t.Name))
			continue
		}
		ours[t.Name] = true
		t.Capabilities = d.capabilities(t, r)
		if len(t.Repairs) > 0 {
			log.Debug("tool repaired", zap.String("tool", t.Name), zap.Strings("repairs", t.Repairs))
		}
		list.Tools = append(list.Tools, t)
	}
	return list, nil
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

// pages returns the tool objects of all pages of tools/list.
//
// "Clients SHOULD treat a missing nextCursor as the end of results" and "MUST
// NOT" assume anything else about a cursor, so the empty string is one like any
// other (specification, server/utilities/pagination).
func pages(ctx context.Context, s session.Session) ([]json.RawMessage, error) {
	var all []json.RawMessage
	seen := map[string]bool{}
	params := json.RawMessage(`{}`)
	for range maxPages {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		result, err := s.Call(ctx, "tools/list", params)
		if err != nil {
			return nil, err
		}
		tools, cursor, err := page(result)
		if err != nil {
			return nil, err
		}
		all = append(all, tools...)
		if len(all) > maxTools {
			return nil, fmt.Errorf("more than %d tools", maxTools)
		}
		if cursor == nil {
			return all, nil
		}
		if seen[string(cursor)] {
			return nil, fmt.Errorf("the list never ends: cursor %.80s came twice", cursor)
		}
		seen[string(cursor)] = true
		params = slices.Concat(json.RawMessage(`{"cursor":`), cursor, json.RawMessage(`}`))
	}
	return nil, fmt.Errorf("more than %d pages", maxPages)
}

// page takes one result of tools/list apart. The cursor is a JSON string as
// sent; it is nil on the last page, where some servers send null.
func page(result json.RawMessage) (tools []json.RawMessage, cursor json.RawMessage, err error) {
	// A map matches names exactly, where a struct would fold their case.
	var members map[string]json.RawMessage
	if err := json.Unmarshal(result, &members); err != nil || members == nil {
		return nil, nil, errors.New("the result is not an object")
	}
	raw, ok := members["tools"]
	if !ok || json.Unmarshal(raw, &tools) != nil {
		return nil, nil, errors.New("the result has no array of tools")
	}
	cursor, ok = members["nextCursor"]
	if !ok || string(cursor) == "null" {
		return tools, nil, nil
	}
	if cursor[0] != '"' {
		return nil, nil, errors.New("nextCursor is not a string")
	}
	return tools, cursor, nil
}

// label names a tool that could not be normalized.
func label(i int, raw json.RawMessage) string {
	var t struct{ Name string }
	if json.Unmarshal(raw, &t) != nil || t.Name == "" {
		return fmt.Sprintf("#%d", i+1)
	}
	return t.Name
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

// refuse returns why the rules keep a tool out, or "".
func (r Rules) refuse(name string) string {
	for _, glob := range r.Deny {
		if matches(glob, name) {
			return fmt.Sprintf("filtered by config: denied by %q", glob)
		}
	}
	for _, glob := range r.Allow {
		if matches(glob, name) {
			return ""
		}
	}
	if len(r.Allow) > 0 {
		return "filtered by config: not in allow"
	}
	return ""
}

// matches is path.Match for names that are no paths: * matches a slash too.
func matches(glob, name string) bool {
	flat := strings.NewReplacer("/", "\x00")
	ok, _ := path.Match(flat.Replace(glob), flat.Replace(name))
	return ok
}
