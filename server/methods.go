package server

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

// A handler answers a request. An error is a [*session.Error], or the request
// was cancelled.
type handler func(ctx context.Context, c *call) (json.RawMessage, error)

// A method is what clients may ask for.
type method struct {
	handle    handler
	legacy    bool // only the legacy era has it
	modern    bool // only the modern era has it
	asks      bool // a server may ask the client something before it answers
	cacheable bool // results say how long they may be kept
	quick     bool // answered before the next message is looked at
}

// methods are all that there are.
var methods map[string]method

func init() { // not initialized in place, since handlers use the table
	methods = map[string]method{
		"initialize":               {handle: initialize, legacy: true, quick: true},
		"ping":                     {handle: ping, legacy: true, quick: true},
		"logging/setLevel":         {handle: setLevel, legacy: true},
		"resources/subscribe":      {handle: subscribe, legacy: true},
		"resources/unsubscribe":    {handle: unsubscribe, legacy: true},
		"server/discover":          {handle: discover, modern: true, cacheable: true, quick: true},
		"subscriptions/listen":     {handle: listen, modern: true},
		"tasks/get":                {handle: relayTask, modern: true},
		"tasks/update":             {handle: relayTask, modern: true},
		"tasks/cancel":             {handle: relayTask, modern: true},
		"tools/list":               {handle: listItems, cacheable: true},
		"prompts/list":             {handle: listItems, cacheable: true},
		"resources/list":           {handle: listItems, cacheable: true},
		"resources/templates/list": {handle: listItems, cacheable: true},
		"tools/call":               {handle: callTool, asks: true},
		"prompts/get":              {handle: getPrompt, asks: true},
		"resources/read":           {handle: readResource, asks: true, cacheable: true},
		"completion/complete":      {handle: completeArgument},
	}
}

// revisions are those of the legacy era, and all.
var (
	legacyRevisions = []string{session.LatestLegacy, "2025-06-18", "2025-03-26", session.Oldest}
	revisions       = append([]string{session.Modern}, legacyRevisions...)
)

// introduce takes in what a legacy client says of itself.
func (r *request) introduce() error {
	version, _ := wire.String(wire.Member(r.params, "protocolVersion"))
	if !slices.Contains(legacyRevisions, version) {
		version = session.LatestLegacy
	}
	capabilities := wire.Member(r.params, "capabilities")
	if !wire.IsObject(capabilities) {
		capabilities = json.RawMessage("{}")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.opened && !r.visitor {
		return &session.Error{Code: session.CodeInvalidRequest, Message: "the session is initialized already"}
	}
	r.version, r.capabilities, r.opened = version, slices.Clone(capabilities), true
	r.client = nameIn(wire.Member(r.params, "clientInfo"))
	r.announce()
	return nil
}

func initialize(_ context.Context, c *call) (json.RawMessage, error) {
	c.mu.Lock()
	version := c.version
	c.mu.Unlock()
	return wire.Marshal(struct {
		ProtocolVersion string          `json:"protocolVersion"`
		Capabilities    json.RawMessage `json:"capabilities"`
		ServerInfo      json.RawMessage `json:"serverInfo"`
		Instructions    string          `json:"instructions"`
	}{version, c.server.capabilities(false), c.server.info, c.server.instructions()}), nil
}

func discover(_ context.Context, c *call) (json.RawMessage, error) {
	return wire.Marshal(struct {
		SupportedVersions []string        `json:"supportedVersions"`
		Capabilities      json.RawMessage `json:"capabilities"`
		Instructions      string          `json:"instructions"`
	}{revisions, c.server.capabilities(true), c.server.instructions()}), nil
}

func ping(context.Context, *call) (json.RawMessage, error) { return json.RawMessage("{}"), nil }

// capabilities are what clients may ask for: all that the router relays, whether
// or not a server that has it is up yet; of extensions, those that servers have.
func (s *Server) capabilities(modern bool) json.RawMessage {
	const all = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"logging":{},"completions":{}}`
	extensions := make(map[string]json.RawMessage)
	snapshot := s.router.Snapshot()
	for _, i := range s.router.Servers() {
		wire.Members(snapshot.Offer(i.Name).Extensions, func(name string, value []byte) bool {
			if extensions[name] == nil {
				extensions[name] = value
			}
			return true
		})
	}
	if !modern {
		delete(extensions, tasksExtension)
	}
	if len(extensions) == 0 {
		return json.RawMessage(all)
	}
	return wire.SetMember([]byte(all), "extensions", wire.Marshal(extensions))
}

// setLevel has servers send log messages from the level on.
func setLevel(ctx context.Context, c *call) (json.RawMessage, error) {
	level, err := c.text("level")
	if err != nil {
		return nil, err
	}
	if !slices.Contains(levels, level) {
		return nil, invalidParams("unknown level " + level + "; there are " + strings.Join(levels, ", "))
	}
	c.mu.Lock()
	c.level = level
	c.mu.Unlock()
	if c.visitor {
		return json.RawMessage("{}"), nil
	}
	c.server.adjustLevel(ctx)
	return json.RawMessage("{}"), nil
}

// adjustLevel tells the servers the least severe level that any client wants.
func (s *Server) adjustLevel(ctx context.Context) {
	s.mu.Lock()
	conversations := slices.Collect(maps.Keys(s.conversations))
	s.mu.Unlock()
	wanted := ""
	for _, c := range conversations {
		c.mu.Lock()
		level := c.level
		c.mu.Unlock()
		if level != "" && (wanted == "" || slices.Index(levels, level) < slices.Index(levels, wanted)) {
			wanted = level
		}
	}
	if wanted != "" {
		s.router.SetLevel(ctx, wanted)
	}
}

// completeArgument completes an argument of a prompt or of a resource template.
func completeArgument(ctx context.Context, c *call) (json.RawMessage, error) {
	params := c.bare()
	ref := wire.Member(params, "ref")
	kind, _ := wire.String(wire.Member(ref, "type"))
	switch kind {
	case "ref/prompt":
		name, _ := wire.String(wire.Member(ref, "name"))
		prompt, err := c.server.prompt(ctx, name)
		if err != nil {
			return nil, err
		}
		ref = wire.SetMember(ref, "name", wire.AppendString(nil, prompt.Name))
		return c.relay(ctx, prompt.Server, wire.SetMember(params, "ref", ref))
	case "ref/resource":
		uri, _ := wire.String(wire.Member(ref, "uri"))
		found, err := c.server.locate(ctx, uri)
		if err != nil {
			return nil, err
		}
		ref = wire.SetMember(ref, "uri", wire.AppendString(nil, found[0].uri))
		return c.relay(ctx, found[0].server, wire.SetMember(params, "ref", ref))
	}
	return nil, invalidParams("completion/complete needs a ref of the type ref/prompt or ref/resource")
}

func getPrompt(ctx context.Context, c *call) (json.RawMessage, error) {
	name, err := c.text("name")
	if err != nil {
		return nil, err
	}
	prompt, err := c.server.prompt(ctx, name)
	if err != nil {
		return nil, err
	}
	return c.relay(ctx, prompt.Server, wire.SetMember(c.bare(), "name", wire.AppendString(nil, prompt.Name)))
}
