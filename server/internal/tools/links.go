package tools

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/internal/urls"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
)

// maxLinks bounds the links that are kept for all clients, and maxLink the bytes of one.
const (
	maxLinks = 10_000
	maxLink  = 2 << 10
)

// links keeps which server gave a client the URI of a resource in a result of a tool or prompt. The zero value is empty.
type links struct {
	mu    sync.Mutex // guards the fields below
	given map[link]string
	order []link // the oldest first
}

type link struct {
	owner any
	uri   string
}

// give notes that the server gave the client a URI. It reports false if another one gave it before.
func (l *links) give(owner any, uri, server string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := link{owner, uri}
	if before, ok := l.given[one]; ok || len(uri) > maxLink {
		return !ok || before == server
	}
	if l.given == nil {
		l.given = make(map[link]string)
	}
	l.given[one] = server
	if l.order = append(l.order, one); len(l.order) > maxLinks {
		delete(l.given, l.order[0])
		l.order = l.order[1:]
	}
	return true
}

// forget drops the links of the clients for which of reports true.
func (l *links) forget(of func(owner any) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	isOf := func(one link) bool { return of(one.owner) }
	maps.DeleteFunc(l.given, func(one link, _ string) bool { return isOf(one) })
	l.order = slices.DeleteFunc(l.order, isOf)
}

// Linked notes the links and embedded resources in a result of a tool or prompt. A URI by which the client knows a resource of another
// server becomes one that names the server.
func (r *runner) Linked(owner any, server string, result json.RawMessage) json.RawMessage {
	if !bytes.Contains(result, []byte(`"resource`)) {
		return result
	}
	var changes content.Repairs
	resource := func(at string, resource []byte) []byte {
		uri := r.link(owner, server, resource)
		if uri == nil {
			return resource
		}
		changes.Note("%s", at)
		return wire.SetMember(resource, "uri", uri)
	}
	block := func(at string, block []byte) []byte {
		if wire.Text(block, "type") == "resource_link" {
			return resource(at, block)
		}
		return changes.Inside(at, block, "resource", resource)
	}
	each := func(_ string, result []byte) []byte {
		result = changes.Each(result, "content", wire.Member(result, "content"), block)
		return changes.Each(result, "messages", wire.Member(result, "messages"), func(at string, message []byte) []byte {
			return changes.Inside(at, message, "content", block)
		})
	}
	return changes.Inside("", each("", result), "result", each) // of a task
}

// link returns the URI that the client gets in place of the resource's, as JSON; nil if it is to stay.
func (r *runner) link(owner any, server string, resource []byte) []byte {
	uri, ok := wire.String(wire.Member(resource, "uri"))
	if !ok || uri == "" || urls.IsOwn(uri) || strings.HasPrefix(uri, ResultScheme) {
		return nil
	}
	at := catalog.Address{Server: server, URI: uri}
	switch ours := r.Catalog.View().Exposed(at); {
	case ours != "" && ours != uri:
		return wire.AppendString(nil, ours)
	case ours == "" && (r.Catalog.View().IsListed(uri) || !r.results.links.give(owner, uri, server)):
		return wire.AppendString(nil, at.Qualified())
	}
	return nil
}

// Giver returns the server that gave the client the URI of a resource in a result, "" if none did.
func (t *Tools) Giver(owner any, uri string) string {
	l := &t.results.links
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.given[link{owner, uri}]
}
