package peer

import (
	"encoding/json"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// Roots are the folders that a server gets in place of its client's roots, as absolute paths or
// file URIs. Nil stands for the client's roots, and an empty list for no roots.
type Roots []string

// noRoots is the answer to roots/list without roots.
var noRoots = json.RawMessage(`{"roots":[]}`)

// Shown returns the capabilities of a client as the server gets them. A server that gets no
// roots does not ask for them.
func (r Roots) Shown(capabilities json.RawMessage) json.RawMessage {
	switch {
	case r == nil:
		return capabilities
	case len(r) == 0:
		return wire.DeleteMember(capabilities, "roots")
	}
	return wire.SetMember(capabilities, "roots", json.RawMessage("{}"))
}

// answer returns the result of roots/list, if the client from is not to be asked for it. fixed
// says that the entry gives it. A client without roots has an empty list, since the server may
// have been shown the capabilities of all clients.
func (r Roots) answer(from session.Client) (result json.RawMessage, fixed bool) {
	if r == nil {
		if from == nil || !session.Answers(from.Capabilities(), "roots/list") {
			return noRoots, false
		}
		return nil, false
	}
	type root struct {
		URI  string `json:"uri"`
		Name string `json:"name,omitempty"`
	}
	all := make([]root, len(r))
	for i, folder := range r {
		if all[i].URI = folder; !strings.HasPrefix(folder, "file://") {
			all[i] = root{fileURI(filepath.ToSlash(folder)), filepath.Base(folder)}
		}
	}
	return wire.Marshal(map[string]any{"roots": all}), true
}

// fileURI returns the URI of an absolute path with slashes: /a, C:/a or //host/a.
func fileURI(path string) string {
	u := url.URL{Scheme: "file", Path: path}
	if host, rest, ok := strings.Cut(strings.TrimPrefix(path, "//"), "/"); ok && strings.HasPrefix(path, "//") {
		u.Host, u.Path = host, "/"+rest
	} else if !strings.HasPrefix(path, "/") {
		u.Path = "/" + path
	}
	return u.String()
}
