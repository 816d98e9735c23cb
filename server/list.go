package server

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// list answers the list requests from the catalog. Unless the search tools are shown, the first
// waits for servers that were never listed.
func (s *Server) list(ctx context.Context, c conversation.Call) (json.RawMessage, error) {
	s.display.settle(ctx, s.catalog)
	view := s.catalog.View()
	list := view.Tools
	switch {
	case c.Method == "prompts/list":
		list = view.PromptList
	case c.Method == "resources/list":
		list = view.Resources
	case c.Method == "resources/templates/list":
		list = view.Templates
	case c.Method == "skills/list":
		list = view.Skills
	case showsApps(c.Capabilities()) && wantsFlat(c.ClientName()):
		list = view.FlatAppTools
	case showsApps(c.Capabilities()):
		list = view.AppTools
	case wantsFlat(c.ClientName()):
		list = view.FlatTools
	}
	given := wire.Member(c.Params, "cursor")
	cursor, isText := wire.String(given)
	page, ok := list.Page(cursor)
	if !ok || !isText && given != nil && string(given) != "null" {
		return nil, session.InvalidParams("unknown cursor")
	}
	if c.Method == "tools/list" && cursor == "" && s.opts.Savings != nil && view.Spared > 0 {
		s.opts.Savings.ListSpared(view.Spared)
	}
	return page, nil
}

// showsApps reports whether a client with the capabilities shows the user interfaces of servers
// (MCP Apps), which need tools that models do not see.
func showsApps(capabilities json.RawMessage) bool {
	return wire.Member(wire.Member(capabilities, "extensions"), appsExtension) != nil
}

// forModels matches names of clients that give the definitions of tools to an API of models. Names that are English words, or parts
// of such, must stand alone.
var forModels = lazy.Regexp(`(?i)claude|openai|chatgpt|codex|copilot|gemini|windsurf|opencode|vscode|\b(?:code|cursor|cline|goose|zed)\b`)

// wantsFlat reports whether the client gives the definitions of tools to an API of models, which refuses a whole request for one
// schema, e.g. for anyOf at its top level.
func wantsFlat(client string) bool { return forModels().MatchString(client) }

// setLevel sets the log messages that the client wants, and has servers send those
// that any client wants.
func (s *Server) setLevel(ctx context.Context, c conversation.Call) (json.RawMessage, error) {
	var clients []*conversation.Conversation
	for _, server := range s.servers.all() {
		clients = append(clients, server.clients.All()...)
	}
	least, err := setLevel(c, clients)
	if err == nil && !c.Visitor {
		s.router.SetLevel(ctx, least)
	}
	return json.RawMessage("{}"), err
}

// setLevel sets the level that a client wants, and returns the least level that it or one of the clients
// wants.
func setLevel(c conversation.Call, clients []*conversation.Conversation) (least string, err error) {
	if least, err = c.Text("level"); err != nil {
		return "", err
	}
	levels := session.Levels
	if !slices.Contains(levels, least) {
		return "", session.InvalidParams("unknown level " + least + "; there are " + strings.Join(levels, ", "))
	}
	c.SetLevel(least)
	for _, client := range clients {
		if l := client.Level(); l != "" && slices.Index(levels, l) < slices.Index(levels, least) {
			least = l
		}
	}
	return least, nil
}
