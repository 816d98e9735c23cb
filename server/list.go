package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/session"
)

const (
	// pageSize is the most tools that one answer to tools/list holds.
	pageSize = 1000

	// coalesce is how long changes are gathered before clients are told, and
	// announceEvery the least time between two notifications.
	coalesce      = 100 * time.Millisecond
	announceEvery = 500 * time.Millisecond
)

// A view is the catalog as clients see it. It is immutable.
type view struct {
	snapshot *registry.Snapshot
	names    *Names
	listed   []listing // by name
}

// A listing is one tool in the answer to tools/list.
type listing struct {
	name       string
	definition json.RawMessage
}

// view returns the current view, making it if the catalog has changed.
func (s *Server) view() *view {
	snapshot := s.router.Snapshot()
	if v := s.current.Load(); v != nil && v.snapshot == snapshot {
		return v
	}
	v := &view{snapshot: snapshot, names: NewNames(snapshot.Tools(), s.opts.Names, s.opts.Separator)}
	tools := snapshot.Tools()
	if s.search {
		tools = s.pinned(v.names)
		for name, own := range s.own {
			v.listed = append(v.listed, listing{name, own.Definition})
		}
	}
	for _, t := range tools {
		name := v.names.Exposed(t)
		v.listed = append(v.listed, listing{name, wire.SetMember(t.Definition, "name", wire.AppendString(nil, name))})
	}
	slices.SortFunc(v.listed, func(a, b listing) int { return cmp.Compare(a.name, b.name) })
	s.current.Store(v)
	return v
}

// pinned returns those of the pinned tools that there are, each once.
func (s *Server) pinned(names *Names) []*registry.NormalizedTool {
	var tools []*registry.NormalizedTool
	for _, name := range s.opts.Pinned {
		t, err := names.Resolve(name)
		if err == nil && !slices.Contains(tools, t) {
			tools = append(tools, t)
		}
	}
	return tools
}

// page returns the tools behind the cursor, as the members of a list result that
// both eras have. A cursor is the name of the last tool before the page, so that
// pages fit together though the list changes between them.
//
// It reports false if the cursor is none of ours.
func (v *view) page(cursor string) (page json.RawMessage, ok bool) {
	start := 0
	if cursor != "" {
		last, ok := decodeCursor(cursor)
		if !ok {
			return nil, false
		}
		i, found := slices.BinarySearchFunc(v.listed, last, func(l listing, name string) int { return cmp.Compare(l.name, name) })
		if start = i; found {
			start++
		}
	}
	end := min(start+pageSize, len(v.listed))
	size := 64
	for _, l := range v.listed[start:end] {
		size += len(l.definition) + 1
	}
	page = append(make([]byte, 0, size), `{"tools":[`...)
	for i, l := range v.listed[start:end] {
		if i > 0 {
			page = append(page, ',')
		}
		page = append(page, l.definition...)
	}
	page = append(page, ']')
	if end < len(v.listed) {
		page = append(page, `,"nextCursor":`...)
		page = wire.AppendString(page, encodeCursor(v.listed[end-1].name))
	}
	return append(page, '}'), true
}

const cursorPrefix = "after:"

func encodeCursor(name string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(cursorPrefix + name))
}

func decodeCursor(cursor string) (name string, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return "", false
	}
	return strings.CutPrefix(string(b), cursorPrefix)
}

// greetAndList is the middleware that answers what the SDK should not.
func (s *Server) greetAndList(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch method {
		case "initialize":
			result, err := next(ctx, method, req)
			if r, ok := result.(*mcp.InitializeResult); ok && err == nil {
				r.Instructions = s.instructions()
			}
			return result, err
		case "server/discover":
			// The SDK would take the session for a modern one from here on, and
			// refuse a client that then goes on with initialize.
			return s.discover(), nil
		case "tools/list":
			return s.list(ctx, req.GetParams().(*mcp.ListToolsParams))
		}
		return next(ctx, method, req)
	}
}

func (s *Server) discover() *mcp.DiscoverResult {
	return &mcp.DiscoverResult{
		SupportedVersions: mcp.SupportedProtocolVersions(),
		Capabilities:      &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}},
		Instructions:      s.instructions(),
		Cacheable:         mcp.Cacheable{CacheScope: "private"},
	}
}

// A rawResult is a result that leaves as it is.
type rawResult struct {
	mcp.ResultBase
	raw json.RawMessage
}

func (r *rawResult) MarshalJSON() ([]byte, error) { return r.raw, nil }

// list answers tools/list. In direct mode, the first waits for servers never seen
// before.
func (s *Server) list(ctx context.Context, params *mcp.ListToolsParams) (mcp.Result, error) {
	if !s.search {
		s.settle(ctx, nil)
	}
	var cursor, version string
	if params != nil {
		cursor = params.Cursor
		version, _ = params.Meta[mcp.MetaKeyProtocolVersion].(string)
	}
	page, ok := s.view().page(cursor)
	if !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown cursor"}
	}
	if version >= session.Modern {
		page = append(page[:len(page)-1], `,"ttlMs":0,"cacheScope":"private"}`...)
		page = s.complete(page)
	}
	return &rawResult{raw: page}, nil
}

// announce tells clients when the list has changed, until ctx ends. Many changes
// at once are one notification.
func (s *Server) announce(ctx context.Context) {
	// The SDK tells its sessions when a tool of its own is added. Nobody sees
	// this one, since the lists are ours.
	sentinel := &mcp.Tool{Name: "changed", InputSchema: json.RawMessage(`{"type":"object"}`)}
	last, crossed := s.view().listed, false
	for {
		changed := s.router.Changed()
		if now := s.view().listed; !slices.EqualFunc(last, now, sameListing) {
			last = now
			s.mcp.AddTool(sentinel, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown tool"}
			})
			if !crossed {
				crossed = s.warnOfBudget()
			}
			if !sleep(ctx, announceEvery) {
				return
			}
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
		if !sleep(ctx, coalesce) {
			return
		}
	}
}

// warnOfBudget logs that the list costs more than Auto allows, if it does.
func (s *Server) warnOfBudget() bool {
	if s.search || s.opts.Mode == Direct {
		return false
	}
	cost := s.cost()
	if cost <= s.opts.ToolBudget {
		return false
	}
	s.log.Warn("the list of tools has grown over the budget; the next start is in search mode",
		zap.Int("tokens", cost), zap.Int("budget", s.opts.ToolBudget))
	return true
}

func sameListing(a, b listing) bool {
	return a.name == b.name && bytes.Equal(a.definition, b.definition)
}

// sleep reports false if ctx ends before d has passed.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// onlyToOpened is the middleware that keeps notifications from clients that have
// only asked who we are: the SDK takes them for old ones that want all.
func onlyToOpened(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		ss, ok := req.GetSession().(*mcp.ServerSession)
		if ok && strings.HasSuffix(method, "/list_changed") && ss.InitializeParams() == nil {
			return nil, nil
		}
		return next(ctx, method, req)
	}
}
