package fakeserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-metarouter/metarouter/test/internal/protocol"
)

// answer returns the answer to a request, or nothing if the request is never answered.
func (c *call) answer() (result string, _ *rpcError) {
	switch method := c.message.Method; {
	case method == "tools/list" && !c.withoutList:
		return listTools(c)
	case method == "tools/call":
		return callTool(c)
	case method == "prompts/list" && len(c.options.prompts) > 0:
		return listPrompts(c)
	case method == "prompts/get" && len(c.options.prompts) > 0:
		return getPrompt(c)
	case method == "resources/list" && c.hasResources():
		return listResources(c)
	case method == "resources/templates/list" && c.hasResources():
		return listTemplates(c)
	case method == "resources/read" && c.hasResources():
		return readResource(c)
	case strings.HasPrefix(method, "skills/") && c.hasSkills():
		return answerSkills(c)
	case method == "completion/complete" && c.complete:
		return completeArgument(c)
	case c.modern:
		return answerModern(c)
	}
	return answerLegacy(c)
}

func answerModern(c *call) (string, *rpcError) {
	switch c.message.Method {
	case "server/discover":
		c.lock.Lock()
		c.discovered = true
		c.lock.Unlock()
		return fmt.Sprintf(`{"supportedVersions":%s,"capabilities":%s,"instructions":%s,"ttlMs":0,"cacheScope":"private"}`,
			protocol.Encode(c.supported()), c.offered(true), protocol.Encode(c.instructions)), nil
	case "subscriptions/listen":
		listenTo(c)
		return "", nil
	case "tasks/get", "tasks/update", "tasks/cancel":
		return answerTask(c)
	}
	return "", c.unknown(c.message.Method)
}

func answerLegacy(c *call) (string, *rpcError) {
	var p struct{ URI, Level string }
	json.Unmarshal(c.message.Params, &p)
	c.lock.Lock()
	defer c.lock.Unlock()
	switch method := c.message.Method; {
	case method == "initialize":
		return initialize(c)
	case method == "ping":
		return "{}", nil
	case method == "logging/setLevel" && c.logging:
		c.level = p.Level
		return "{}", nil
	case method == "resources/subscribe" && c.hasResources():
		c.watched[p.URI] = true
		return "{}", nil
	case method == "resources/unsubscribe" && c.hasResources():
		delete(c.watched, p.URI)
		return "{}", nil
	}
	return "", c.unknown(c.message.Method)
}

// initialize must be called with the lock held.
func initialize(c *call) (string, *rpcError) {
	if c.oneEra && c.discovered {
		return "", newError(0, `duplicate "initialize" received`)
	}
	c.initialized = true
	var p struct {
		ProtocolVersion string
		Capabilities    json.RawMessage
	}
	json.Unmarshal(c.message.Params, &p)
	c.capabilities = p.Capabilities
	version := c.protocolVersion
	if slices.Contains(legacyVersions, version) && slices.Contains(legacyVersions, p.ProtocolVersion) && p.ProtocolVersion < version {
		version = p.ProtocolVersion
	}
	instructions := ""
	if c.instructions != "" {
		instructions = `,"instructions":` + string(protocol.Encode(c.instructions))
	}
	return fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":%s%s}`, version, c.offered(false), c.info, instructions), nil
}

// offered returns the server's capabilities.
func (s *server) offered(isModern bool) string {
	var parts []byte
	add := func(has bool, part string) {
		if has {
			parts = append(append(parts, ','), part...)
		}
	}
	add(!s.withoutList, `"tools":{"listChanged":true}`)
	add(len(s.options.prompts) > 0, `"prompts":{"listChanged":true}`)
	add(s.hasResources(), `"resources":{"listChanged":true,"subscribe":true}`)
	add(s.complete, `"completions":{}`)
	add(s.logging, `"logging":{}`)
	add(s.hasSkills(), `"extensions":{"`+skillsExtension+`":{"directoryRead":true}}`)
	add(isModern && s.hasTask() && !s.hasSkills(), `"extensions":{"`+protocol.KeyTasks+`":{}}`)
	return "{" + string(bytes.TrimPrefix(parts, []byte(","))) + "}"
}

func listTools(c *call) (string, *rpcError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	definitions := make([]json.RawMessage, len(c.list))
	for i, t := range c.list {
		definitions[i] = t.definition
	}
	return pageOf(c, "tools", definitions)
}

// pageOf returns one page of a list, as the result of a list method.
func pageOf(c *call, member string, all []json.RawMessage) (string, *rpcError) {
	var p struct{ Cursor *string }
	json.Unmarshal(c.message.Params, &p)
	first := 0
	if p.Cursor != nil {
		var err error
		if first, err = strconv.Atoi(*p.Cursor); err != nil || first < 0 || first > len(all) {
			return "", newError(-32602, "Invalid params: no such cursor")
		}
	}
	end := len(all)
	if c.page > 0 {
		end = min(end, first+c.page)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{%q:[`, member)
	for i, item := range all[first:end] {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(item)
	}
	b.WriteByte(']')
	switch {
	case end < len(all):
		fmt.Fprintf(&b, `,"nextCursor":"%d"`, end)
	case c.badSchemas:
		b.WriteString(`,"nextCursor":null`)
	}
	if c.modern {
		b.WriteString(`,"ttlMs":0,"cacheScope":"private"`)
	}
	b.WriteByte('}')
	return b.String(), nil
}

// callTool answers a tools/call.
func callTool(c *call) (string, *rpcError) {
	var p struct {
		Name      string
		Arguments json.RawMessage
	}
	json.Unmarshal(c.message.Params, &p)
	c.arguments = p.Arguments
	act, ok := c.action(p.Name)
	if !ok {
		return "", newError(-32602, "Unknown tool: "+p.Name)
	}
	return act(c)
}

func (s *server) action(name string) (action, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.list, func(t tool) bool { return t.name == name })
	if i < 0 {
		return nil, false
	}
	return s.list[i].act, true
}

// unknown returns the answer to an unknown method.
func (o *options) unknown(method string) *rpcError {
	switch {
	case o.exitOnUnknown:
		o.fail(5, "fatal: unknown method %q", method)
	case o.silentOnUnknown:
		return nil
	}
	return newError(-32601, "Method not found")
}

// A listen is a subscriptions/listen request, open until ctx is done.
type listen struct {
	ctx    context.Context
	id     json.RawMessage
	send   func(line string)
	filter filter
}

// A filter is the filter of a subscriptions/listen.
type filter struct {
	Tools     bool     `json:"toolsListChanged,omitempty"`
	Prompts   bool     `json:"promptsListChanged,omitempty"`
	Resources bool     `json:"resourcesListChanged,omitempty"`
	Watched   []string `json:"resourceSubscriptions,omitempty"`
}

func (f filter) wants(method, uri string) bool {
	switch method {
	case "notifications/tools/list_changed":
		return f.Tools
	case "notifications/prompts/list_changed":
		return f.Prompts
	case "notifications/resources/list_changed":
		return f.Resources
	}
	return slices.Contains(f.Watched, uri)
}

// listenTo acknowledges a subscriptions/listen and waits until the client ends it. The
// request has no answer.
func listenTo(c *call) {
	var p struct{ Notifications filter }
	json.Unmarshal(c.message.Params, &p)
	p.Notifications.Prompts = p.Notifications.Prompts && len(c.options.prompts) > 0
	p.Notifications.Resources = p.Notifications.Resources && c.hasResources()
	c.lock.Lock()
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{%q:%s},"notifications":%s}}`,
		protocol.KeySubscription, c.message.ID, protocol.Encode(p.Notifications)))
	c.listens = append(c.listens, listen{c.ctx, c.message.ID, c.send, p.Notifications})
	c.lock.Unlock()
	<-c.ctx.Done()
	c.lock.Lock()
	defer c.lock.Unlock()
	c.listens = slices.DeleteFunc(c.listens, func(l listen) bool { return l.ctx.Err() != nil })
}

// tellAll tells the clients of both eras that a list has changed, or the
// resource of the URI if that is not empty.
func (s *server) notifyAll(method, uri string) {
	s.mu.Lock()
	peers := make([]*peer, 0, len(s.peers))
	for p := range s.peers {
		peers = append(peers, p)
	}
	s.mu.Unlock()
	for _, p := range peers {
		p.notify(method, uri)
	}
}

func (p *peer) notify(method, uri string) {
	p.lock.Lock()
	defer p.lock.Unlock()
	of, and := "", ""
	if uri != "" {
		of = fmt.Sprintf(`,"params":{"uri":%s}`, protocol.Encode(uri))
		and = fmt.Sprintf(`,"uri":%s`, protocol.Encode(uri))
	}
	if p.initialized && (uri == "" || p.watched[uri]) {
		p.push(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q%s}`, method, of))
	}
	for _, l := range p.listens {
		if l.ctx.Err() == nil && l.filter.wants(method, uri) {
			l.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{"_meta":{%q:%s}%s}}`, method, protocol.KeySubscription, l.id, and))
		}
	}
}
