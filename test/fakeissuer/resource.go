package fakeissuer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/fakeserver"
)

// Protection says which proof an MCP server asks of its callers.
type Protection struct {
	Flags      []string          // of the fake server, as for mcptest.Command
	Scopes     []string          // that its metadata names
	ToolScopes map[string]string // the scope that calls of a tool need, by the name of the tool
	NoMetadata bool              // describe the protection nowhere
	AnyToken   bool              // accept tokens for other audiences, and expired ones
	Refuse     bool              // refuse every token
}

// A Resource is a running MCP server that accepts the tokens of an issuer. It ends with its test.
type Resource struct {
	URL string // of its MCP endpoint

	mu         sync.Mutex // guards the fields below
	protection Protection
	issuer     *Issuer
	refused    int // requests
	accepted   int
}

// Protect starts an MCP server that accepts the tokens of the issuer.
func (i *Issuer) Protect(t testing.TB, p Protection) *Resource {
	r := &Resource{protection: p, issuer: i}
	behind := fakeserver.Handler(p.Flags...)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-protected-resource/mcp", r.metadata)
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, req *http.Request) {
		if r.admit(w, req) {
			behind.ServeHTTP(w, req)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	r.URL = server.URL + "/mcp"
	return r
}

// Change changes the protection, except for its flags.
func (r *Resource) Change(change func(*Protection)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.protection)
}

// Move has the server trust another issuer from now on.
func (r *Resource) Move(to *Issuer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.issuer = to
}

// Requests returns how many requests were accepted and refused.
func (r *Resource) Requests() (accepted, refused int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accepted, r.refused
}

func (r *Resource) metadata(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	p, issuer := r.protection, r.issuer
	r.mu.Unlock()
	if p.NoMetadata {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	about := map[string]any{
		"resource": r.URL, "authorization_servers": []string{issuer.URL}, "bearer_methods_supported": []string{"header"},
	}
	if p.Scopes != nil {
		about["scopes_supported"] = p.Scopes
	}
	answer(w, http.StatusOK, about)
}

// admit reports whether the request has a token that permits it; otherwise it has answered.
func (r *Resource) admit(w http.ResponseWriter, req *http.Request) bool {
	scope := r.scopeOf(req)
	r.mu.Lock()
	defer r.mu.Unlock()
	token, _ := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	g, ok := r.issuer.accepts(token)
	if ok && !r.protection.AnyToken {
		ok = g.resource == r.URL && time.Now().Before(g.expires)
	}
	switch {
	case !ok || r.protection.Refuse:
		code := ""
		if token != "" {
			code = "invalid_token"
		}
		r.challenge(w, http.StatusUnauthorized, code, "")
		return false
	case scope != "" && !slices.Contains(g.scopes, scope):
		r.challenge(w, http.StatusForbidden, "insufficient_scope", scope)
		return false
	}
	r.accepted++
	req.Header.Set("X-Account", g.account) // the server says who is calling
	return true
}

// challenge refuses a request. The lock must be held.
func (r *Resource) challenge(w http.ResponseWriter, status int, code, scope string) {
	r.refused++
	text := "Bearer "
	if !r.protection.NoMetadata {
		text += fmt.Sprintf("resource_metadata=%q, ", strings.TrimSuffix(r.URL, "/mcp")+"/.well-known/oauth-protected-resource/mcp")
	}
	if code != "" {
		text += fmt.Sprintf("error=%q, ", code)
	}
	if scope != "" {
		text += fmt.Sprintf("scope=%q, ", scope)
	}
	w.Header().Set("WWW-Authenticate", strings.TrimRight(text, ", "))
	http.Error(w, "refused", status)
}

// scopeOf returns the scope that the request needs.
func (r *Resource) scopeOf(req *http.Request) string {
	if req.Method != http.MethodPost {
		return ""
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, 8<<20))
	if err != nil {
		return ""
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	var message struct {
		Method string `json:"method"`
		Params struct {
			Name string `json:"name"`
		} `json:"params"`
	}
	if json.Unmarshal(body, &message) != nil || message.Method != "tools/call" {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.protection.ToolScopes[message.Params.Name]
}

// accepts returns the grant of the access token.
func (i *Issuer) accepts(token string) (grant, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	g, ok := i.access[token]
	if !ok || i.unusable[g.family] {
		return grant{}, false
	}
	return *g, true
}

// Issue returns tokens for the resource as a login does, without one: for tests that begin after
// it. clientID must be known to the issuer.
func (i *Issuer) Issue(clientID, resource string, scopes ...string) (access, refresh string, expires time.Time) {
	g := grant{client: clientID, resource: resource, scopes: scopes, family: newFamily()}
	i.mu.Lock()
	i.counts.Authorizations++
	refresh = i.newRefresh(g)
	i.mu.Unlock()
	access, _ = i.issue(g, refresh)["access_token"].(string)
	i.mu.Lock()
	defer i.mu.Unlock()
	return access, refresh, i.access[access].expires
}
