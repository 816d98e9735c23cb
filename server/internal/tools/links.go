package tools

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/urls"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
)

// maxLinks bounds the links that are kept for all clients, and maxLink the bytes of one.
const (
	maxLinks = 10_000
	maxLink  = 2 << 10
)

// links keeps which server gave a client the URI of a resource in a result of a tool. The zero value is empty.
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

// giver returns the server that gave the client the URI, "" if none did.
func (l *links) giver(owner any, uri string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.given[link{owner, uri}]
}

// forget drops the links of the clients for which of reports true.
func (l *links) forget(of func(owner any) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.order[:0]
	for _, one := range l.order {
		if of(one.owner) {
			delete(l.given, one)
		} else {
			kept = append(kept, one)
		}
	}
	clear(l.order[len(kept):])
	l.order = kept
}

// linked notes the links and embedded resources of a result. A URI by which the client knows a resource of another server becomes
// one that names the server.
func (r *runner) linked(owner any, server string, result json.RawMessage) json.RawMessage {
	if !bytes.Contains(result, []byte(`"resource`)) {
		return result
	}
	var blocks [][]byte
	changed := false
	for block := range wire.Values(wire.Member(result, "content")) {
		switch kind, _ := wire.String(wire.Member(block, "type")); kind {
		case "resource_link":
			if uri := r.link(owner, server, block); uri != nil {
				block, changed = wire.SetMember(block, "uri", uri), true
			}
		case "resource":
			inside := wire.Member(block, "resource")
			if uri := r.link(owner, server, inside); uri != nil {
				block, changed = wire.SetMember(block, "resource", wire.SetMember(inside, "uri", uri)), true
			}
		}
		blocks = append(blocks, block)
	}
	if !changed {
		return result
	}
	return wire.SetMember(result, "content", append(append([]byte("["), bytes.Join(blocks, []byte(","))...), ']'))
}

// link returns the URI that the client gets in place of that of the resource, as JSON; nil if it is to stay.
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
func (t *Tools) Giver(owner any, uri string) string { return t.results.links.giver(owner, uri) }
