package discovery

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A lister makes one listing.
type lister struct {
	server  string
	session session.Session
	rules   Rules
	log     *zap.Logger
	offer   registry.Offer
	read    int // bytes of all pages so far
}

// drop notes and logs that something is left out.
func (l *lister) drop(kind, name, reason string) {
	if l.leaveOut(registry.Dropped{Kind: kind, Name: name, Reason: reason}) {
		l.log.Warn(kind+" left out", zap.String(kind, brief(name)), zap.String("reason", brief(reason)))
	}
}

// leaveOut notes that something is left out, and reports false if there are maxDropped notes already.
func (l *lister) leaveOut(d registry.Dropped) bool {
	if len(l.offer.Dropped) == maxDropped {
		return false
	}
	d.Name, d.Reason = brief(d.Name), brief(d.Reason)
	l.offer.Dropped = append(l.offer.Dropped, d)
	return true
}

func brief(text string) string {
	return prose.Cut(strings.ToValidUTF8(text, ""), maxDroppedText+len("…"))
}

// repaired logs the repairs.
func (l *lister) repaired(kind, name string, repairs []string) {
	if len(repairs) > 0 {
		l.log.Debug(kind+" repaired", zap.String(kind, name), zap.Strings("repairs", repairs))
	}
}

// tools lists the tools.
func (l *lister) tools(ctx context.Context) error {
	if !l.session.Info().Has("tools") {
		return nil
	}
	r := l.rules
	if err := r.check(); err != nil {
		return err
	}
	theirs, ours := map[string]bool{}, map[string]bool{}
	err := l.pages(ctx, registry.KindTool, "tools/list", "tools", func(i int, raw json.RawMessage) {
		t, err := Normalize(l.server, raw, r.Rename)
		if err != nil {
			name := label(i, raw, "name")
			if d, refused := r.Excludes(name); refused && d.Filter == "deny" { // the configuration left it out: no warning
				l.leaveOut(d)
			} else {
				l.drop(registry.KindTool, name, err.Error())
			}
			return
		}
		name := t.ServerName()
		if theirs[name] {
			l.drop(registry.KindTool, name, "duplicate name: the server lists it twice, and the first is kept")
			return
		}
		theirs[name] = true
		if d, refused := r.Excludes(name); refused { // no warning
			l.leaveOut(d)
			return
		}
		if ours[t.Name] {
			l.drop(registry.KindTool, name, fmt.Sprintf("duplicate name: another tool is already called %q after renaming", t.Name))
			return
		}
		ours[t.Name] = true
		l.repaired(registry.KindTool, t.Name, t.Repairs)
		l.offer.Tools = append(l.offer.Tools, t)
	})
	if err != nil {
		return fmt.Errorf("list tools of %s: %w", l.server, err)
	}
	return nil
}

// others lists prompts, resources, templates and skills.
func (l *lister) others(ctx context.Context) {
	if l.session.Info().Has("prompts") {
		l.offer.Prompts = collect(ctx, l, source{registry.KindPrompt, "prompts/list", "prompts", "name"},
			normalizePrompt, func(p registry.Prompt) (string, []string) { return p.Name, p.Repairs })
	}
	about := func(r registry.Resource) (string, []string) { return r.URI, r.Repairs }
	if l.session.Info().Has("resources") {
		l.offer.Resources = collect(ctx, l, source{registry.KindResource, "resources/list", "resources", "uri"}, normalizeResource, about)
		l.offer.Templates = collect(ctx, l, source{registry.KindTemplate, "resources/templates/list", "resourceTemplates", "uriTemplate"}, normalizeResource, about)
	}
	if wire.Member(wire.Member(l.session.Info().Capabilities, "extensions"), session.SkillsExtension) != nil {
		l.offer.Skills = collect(ctx, l, source{registry.KindSkill, "skills/list", "skills", "uri"},
			func(server string, raw json.RawMessage, _ string) (registry.Skill, error) { return Skill(server, raw) }, about)
		if n := len(l.offer.Skills); n > maxSkills {
			l.cut(registry.KindSkill, fmt.Sprintf("only the first %d of %d skills are used", maxSkills, n))
			l.offer.Skills = l.offer.Skills[:maxSkills]
		}
	}
}

// A source is one of the lists of a server.
type source struct {
	kind   string // of its elements
	method string // the request for it
	member string // the member of the result with the elements
	key    string // the member of an element that identifies it
}

// collect returns the normalized elements of a list; about returns the key and the repairs
// of one. If the list fails, collect notes and logs that and returns nothing.
func collect[T any](ctx context.Context, l *lister, what source,
	normalize func(server string, raw json.RawMessage, key string) (T, error), about func(T) (key string, repairs []string)) []T {
	var all []T
	seen := map[string]bool{}
	err := l.pages(ctx, what.kind, what.method, what.member, func(i int, raw json.RawMessage) {
		t, err := normalize(l.server, raw, what.key)
		if err != nil {
			l.drop(what.kind, label(i, raw, what.key), err.Error())
			return
		}
		key, repairs := about(t)
		if seen[key] {
			l.drop(what.kind, key, "duplicate "+what.key+": the server lists it twice, and the first is kept")
			return
		}
		seen[key] = true
		l.repaired(what.kind, key, repairs)
		all = append(all, t)
	})
	if err == nil {
		return all
	}
	refused, ok := errors.AsType[*session.Error](err)
	hasNone := ok && refused.Code == session.CodeMethodNotFound
	if !hasNone && !errors.Is(ctx.Err(), context.Canceled) {
		l.log.Warn("can't list the "+what.member+"; the server is used without", zap.Error(err))
		l.leaveOut(registry.Dropped{Kind: what.kind, Reason: err.Error()})
	}
	return nil
}

// pages calls f with the elements of all pages of a list and their positions. Of a page
// nothing is kept, unless f keeps it. A list that does not end as it should is cut, and keeps the
// pages read.
//
// "Clients SHOULD treat a missing nextCursor as the end of results" and "MUST
// NOT" assume anything else about a cursor, so the empty string is one like any
// other (specification of 2026-07-28, server/utilities/pagination). Servers of
// earlier revisions end a list with it.
func (l *lister) pages(ctx context.Context, kind, method, member string, f func(i int, raw json.RawMessage)) error {
	n := 0
	seen := map[[sha256.Size]byte]bool{} // cursors and pages
	again := func(parts ...json.RawMessage) bool {
		sum := sumOf(parts)
		defer func() { seen[sum] = true }()
		return seen[sum]
	}
	params := json.RawMessage(`{}`)
	for i := range maxPages {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		result, err := l.session.Call(ctx, session.Request{Method: method, Params: params})
		if refused, ok := errors.AsType[*session.Error](err); ok && i > 0 && refused.Code == session.CodeInvalidParams {
			l.cut(kind, "the server refuses its own cursor: "+err.Error())
			return nil
		}
		if err != nil {
			return err
		}
		if l.read += len(result); l.read > maxListBytes {
			return fmt.Errorf("its lists are longer than %d MiB together; the server must list less", maxListBytes>>20)
		}
		elements, cursor, err := page(result, member)
		if err != nil {
			return err
		}
		if n+len(elements) > maxItems {
			return fmt.Errorf("more than %d %s", maxItems, member)
		}
		if (i > 0 || cursor != nil) && len(elements) > 0 && again(elements...) {
			l.cut(kind, "it never ends: the same page came twice")
			return nil
		}
		for _, raw := range elements {
			f(n, raw)
			n++
		}
		switch {
		case cursor == nil, string(cursor) == `""` && l.session.Info().Era() == "legacy":
			return nil
		case cursor[0] != '"':
			l.cut(kind, "nextCursor is not a string")
			return nil
		case again(cursor):
			l.cut(kind, fmt.Sprintf("it never ends: cursor %.80s came twice", cursor))
			return nil
		}
		params = slices.Concat(json.RawMessage(`{"cursor":`), cursor, json.RawMessage(`}`))
	}
	l.cut(kind, fmt.Sprintf("it never ends: more than %d pages", maxPages))
	return nil
}

// sumOf returns a hash of the parts in any order, since some servers list in a random one.
func sumOf(parts []json.RawMessage) [sha256.Size]byte {
	var all []byte
	for _, part := range slices.SortedFunc(slices.Values(parts), func(a, b json.RawMessage) int { return bytes.Compare(a, b) }) {
		sum := sha256.Sum256(part)
		all = append(all, sum[:]...)
	}
	return sha256.Sum256(all)
}

// cut notes and logs that a list ends before the server says so.
func (l *lister) cut(kind, reason string) {
	l.leaveOut(registry.Dropped{Kind: kind, Reason: reason, Cut: true})
	l.log.Warn("a list of "+kind+"s has no proper end; what was read of it is used", zap.String("reason", reason))
}

// page returns the elements and the cursor of one page, as parts of it. The cursor is JSON
// with the server's bytes, or nil on the last page; some servers send null there.
func page(result json.RawMessage, member string) (elements []json.RawMessage, cursor json.RawMessage, err error) {
	var found [2][]byte
	if wire.Pick(result, found[:], member, "nextCursor") != nil {
		return nil, nil, errors.New("the result is not an object")
	}
	list, cursor := found[0], found[1]
	if string(list) == "null" { // an empty slice of a server in Go
		list = json.RawMessage("[]")
	}
	if wire.Elements(list, func(value []byte) bool {
		elements = append(elements, value)
		return len(elements) <= maxItems
	}) != nil {
		return nil, nil, fmt.Errorf("the result has no array of %s", member)
	}
	if string(cursor) == "null" {
		cursor = nil
	}
	return elements, cursor, nil
}

// label names an element that could not be normalized: its key if that is a string,
// otherwise its position.
func label(i int, raw json.RawMessage, key string) string {
	if name, ok := wire.String(wire.Member(raw, key)); ok && name != "" {
		return name
	}
	return fmt.Sprintf("#%d", i+1)
}
