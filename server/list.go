package server

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// listItems answers the list requests from the catalog. In direct mode, the first
// waits for servers never seen before.
func listItems(ctx context.Context, c *call) (json.RawMessage, error) {
	s := c.server
	if !s.search {
		s.settle(ctx, nil)
	}
	cursor, ok := "", true
	if raw := wire.Member(c.params, "cursor"); raw != nil && string(raw) != "null" {
		cursor, ok = wire.String(raw)
	}
	var page json.RawMessage
	view, method := s.view(), c.method
	if ok {
		if method == "tools/list" && c.wantsFlat() {
			method = flatTools
		}
		page, ok = view.lists[method].page(cursor)
	}
	if !ok {
		return nil, invalidParams("unknown cursor")
	}
	if c.method == "tools/list" && cursor == "" {
		s.saved(BySearchMode, view.spared)
	}
	return page, nil
}

// wantsFlat reports whether the client gives the definitions of tools to the
// Anthropic API, which refuses a whole request where a schema has allOf, anyOf or
// oneOf at its top level. Its own clients pass on what they get.
func (r *request) wantsFlat() bool {
	return strings.Contains(strings.ToLower(r.clientName()), "claude")
}

// clientName returns the name that the client gives itself, "" if none.
func (r *request) clientName() string {
	if r.modern {
		return nameIn(wire.Member(r.meta, metaClient))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.client
}

// nameIn returns the name in a clientInfo, but no more of it than a name has.
func nameIn(info json.RawMessage) string {
	name, _ := wire.String(wire.Member(info, "name"))
	return brief(name)
}

// prompt finds the prompt that a client means.
func (s *Server) prompt(ctx context.Context, name string) (*registry.Prompt, error) {
	prompt, err := s.view().prompts.Resolve(name)
	if err != nil && s.settle(ctx, s.view().snapshot) {
		prompt, err = s.view().prompts.Resolve(name)
	}
	if err != nil {
		return nil, invalidParams(err.Error())
	}
	return prompt, nil
}

// promptName returns the name under which clients see the prompt.
func (s *Server) promptName(p *registry.Prompt) string { return s.view().prompts.Exposed(p) }

// resourceURI returns the URI under which clients see the resource.
func (s *Server) resourceURI(r *registry.Resource) string {
	return s.view().exposed[address{r.Server, r.URI}]
}

// templateURI returns the URI template under which clients see the template.
func (s *Server) templateURI(t *registry.Template) string {
	return s.view().exposed[address{t.Server, t.URITemplate}]
}
