package fakeserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/test/internal/protocol"
)

func (o *options) hasResources() bool { return len(o.resources)+len(o.templates) > 0 || o.hasSkills() }

func (o *options) hasSkills() bool { return len(o.skillsGiven)+o.manySkills > 0 }

func listPrompts(c *call) (string, *rpcError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []json.RawMessage
	for _, name := range c.prompts {
		all = append(all, json.RawMessage(fmt.Sprintf(`{"name":%s,"description":%s,"arguments":[{"name":"topic","required":false}]}`,
			protocol.Encode(name), protocol.Encode("The prompt "+name+"."))))
	}
	return pageOf(c, "prompts", all)
}

// getPrompt answers with the arguments, byte for byte.
func getPrompt(c *call) (string, *rpcError) {
	var p struct {
		Name      string
		Arguments json.RawMessage
	}
	json.Unmarshal(c.message.Params, &p)
	c.mu.Lock()
	known := slices.Contains(c.prompts, p.Name)
	c.mu.Unlock()
	if !known {
		return "", newError(-32602, "Unknown prompt: "+p.Name)
	}
	says := p.Name + " with " + string(p.Arguments)
	if p.Name == "ask" {
		answers, pause, e := c.ask(question{Method: "elicitation/create"})
		if answers == nil {
			return pause, e
		}
		says = string(answers[0])
	}
	return fmt.Sprintf(`{"description":"A prompt.","messages":[{"role":"user","content":{"type":"text","text":%s}}]}`, protocol.Encode(says)), nil
}

func listResources(c *call) (string, *rpcError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []json.RawMessage
	for _, uri := range c.resources {
		all = append(all, json.RawMessage(fmt.Sprintf(`{"uri":%s,"name":%s}`, protocol.Encode(uri), protocol.Encode(uri[strings.LastIndexByte(uri, '/')+1:]))))
	}
	return pageOf(c, "resources", all)
}

func listTemplates(c *call) (string, *rpcError) {
	var all []json.RawMessage
	for i, template := range c.templates {
		all = append(all, json.RawMessage(fmt.Sprintf(`{"uriTemplate":%s,"name":"template_%d"}`, protocol.Encode(template), i+1)))
	}
	return pageOf(c, "resourceTemplates", all)
}

func readResource(c *call) (string, *rpcError) {
	var p struct{ URI string }
	json.Unmarshal(c.message.Params, &p)
	if !c.hasResource(p.URI) {
		code := -32002
		if c.modern {
			code = -32602
		}
		return "", &rpcError{fmt.Sprintf(`{"code":%d,"message":"Resource not found","data":{"uri":%s}}`, code, protocol.Encode(p.URI))}
	}
	says := "contents of " + p.URI
	c.mu.Lock()
	if content, ok := c.skillFile(p.URI); ok {
		says = content
	}
	c.mu.Unlock()
	if strings.HasSuffix(p.URI, "/ask") {
		answers, pause, e := c.ask(question{Method: "elicitation/create"})
		if answers == nil {
			return pause, e
		}
		says = string(answers[0])
	}
	contents := fmt.Sprintf(`"mimeType":"text/plain","text":%s`, protocol.Encode(says))
	if strings.HasSuffix(p.URI, ".bin") {
		contents = fmt.Sprintf(`"mimeType":"application/octet-stream","blob":%q`, base64.StdEncoding.EncodeToString([]byte(says)))
	}
	caching := ""
	if c.modern {
		caching = `,"ttlMs":0,"cacheScope":"private"`
	}
	return fmt.Sprintf(`{"contents":[{"uri":%s,%s}]%s}`, protocol.Encode(p.URI), contents, caching), nil
}

func (s *server) hasResource(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, isFile := s.skillFile(uri)
	return isFile && s.hasSkills() || slices.Contains(s.resources, uri) || slices.ContainsFunc(s.templates, func(template string) bool {
		fixed, _, _ := strings.Cut(template, "{")
		return strings.HasPrefix(uri, fixed)
	})
}

// completeArgument offers two completions of the value, and the name of the prompt or
// template: a router that renames must use the server's own name.
func completeArgument(c *call) (string, *rpcError) {
	var p struct {
		Ref      struct{ Name, URI string }
		Argument struct{ Name, Value string }
	}
	json.Unmarshal(c.message.Params, &p)
	written := p.Argument.Value
	return fmt.Sprintf(`{"completion":{"values":%s,"total":3,"hasMore":false}}`,
		protocol.Encode([]string{written + "1", written + "2", p.Ref.Name + p.Ref.URI})), nil
}

func growPrompts(c *call) (string, *rpcError) {
	name := c.grownName()
	c.mu.Lock()
	c.prompts = append(c.prompts, name)
	c.mu.Unlock()
	c.notifyAll("notifications/prompts/list_changed", "")
	return text("added " + name), nil
}

func growResources(c *call) (string, *rpcError) {
	uri := "fake://" + c.grownName()
	c.mu.Lock()
	c.resources = append(c.resources, uri)
	c.mu.Unlock()
	c.notifyAll("notifications/resources/list_changed", "")
	return text("added " + uri), nil
}

func (s *server) grownName() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grown++
	return fmt.Sprintf("grown_%d", s.grown)
}

func touchResource(c *call) (string, *rpcError) {
	var a struct{ URI string }
	json.Unmarshal(c.arguments, &a)
	c.notifyAll("notifications/resources/updated", a.URI)
	return text("touched " + a.URI), nil
}
