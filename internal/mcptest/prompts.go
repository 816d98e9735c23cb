package mcptest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

func (s *server) hasResources() bool { return len(s.options.resources)+len(s.templates) > 0 }

func (c *call) listPrompts() (string, *rpcError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []json.RawMessage
	for _, name := range c.prompts {
		all = append(all, json.RawMessage(fmt.Sprintf(`{"name":%s,"description":%s,"arguments":[{"name":"topic","required":false}]}`,
			encode(name), encode("The prompt "+name+"."))))
	}
	return c.pageOf("prompts", all)
}

// getPrompt answers with the arguments as they came.
func (c *call) getPrompt() (string, *rpcError) {
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
	return fmt.Sprintf(`{"description":"A prompt.","messages":[{"role":"user","content":{"type":"text","text":%s}}]}`, encode(says)), nil
}

func (c *call) listResources() (string, *rpcError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []json.RawMessage
	for _, uri := range c.resources {
		all = append(all, json.RawMessage(fmt.Sprintf(`{"uri":%s,"name":%s}`, encode(uri), encode(uri[strings.LastIndexByte(uri, '/')+1:]))))
	}
	return c.pageOf("resources", all)
}

func (c *call) listTemplates() (string, *rpcError) {
	var all []json.RawMessage
	for i, template := range c.templates {
		all = append(all, json.RawMessage(fmt.Sprintf(`{"uriTemplate":%s,"name":"template_%d"}`, encode(template), i+1)))
	}
	return c.pageOf("resourceTemplates", all)
}

func (c *call) readResource() (string, *rpcError) {
	var p struct{ URI string }
	json.Unmarshal(c.message.Params, &p)
	if !c.hasResource(p.URI) {
		code := -32002
		if c.modern {
			code = -32602
		}
		return "", &rpcError{fmt.Sprintf(`{"code":%d,"message":"Resource not found","data":{"uri":%s}}`, code, encode(p.URI))}
	}
	says := "contents of " + p.URI
	if strings.HasSuffix(p.URI, "/ask") {
		answers, pause, e := c.ask(question{Method: "elicitation/create"})
		if answers == nil {
			return pause, e
		}
		says = string(answers[0])
	}
	contents := fmt.Sprintf(`"mimeType":"text/plain","text":%s`, encode(says))
	if strings.HasSuffix(p.URI, ".bin") {
		contents = fmt.Sprintf(`"mimeType":"application/octet-stream","blob":%q`, base64.StdEncoding.EncodeToString([]byte(says)))
	}
	caching := ""
	if c.modern {
		caching = `,"ttlMs":0,"cacheScope":"private"`
	}
	return fmt.Sprintf(`{"contents":[{"uri":%s,%s}]%s}`, encode(p.URI), contents, caching), nil
}

func (s *server) hasResource(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.resources, uri) || slices.ContainsFunc(s.templates, func(template string) bool {
		fixed, _, _ := strings.Cut(template, "{")
		return strings.HasPrefix(uri, fixed)
	})
}

// completeArgument offers two ways on from what was written, and says of what: a
// router that renames has to name it as this server does.
func (c *call) completeArgument() (string, *rpcError) {
	var p struct {
		Ref      struct{ Name, URI string }
		Argument struct{ Name, Value string }
	}
	json.Unmarshal(c.message.Params, &p)
	written := p.Argument.Value
	return fmt.Sprintf(`{"completion":{"values":%s,"total":3,"hasMore":false}}`,
		encode([]string{written + "1", written + "2", p.Ref.Name + p.Ref.URI})), nil
}

func (c *call) growPrompts() (string, *rpcError) {
	name := c.grownName()
	c.mu.Lock()
	c.prompts = append(c.prompts, name)
	c.mu.Unlock()
	c.tellAll("notifications/prompts/list_changed", "")
	return text("added " + name), nil
}

func (c *call) growResources() (string, *rpcError) {
	uri := "fake://" + c.grownName()
	c.mu.Lock()
	c.resources = append(c.resources, uri)
	c.mu.Unlock()
	c.tellAll("notifications/resources/list_changed", "")
	return text("added " + uri), nil
}

func (s *server) grownName() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grown++
	return fmt.Sprintf("grown_%d", s.grown)
}

func (c *call) touch() (string, *rpcError) {
	var a struct{ URI string }
	json.Unmarshal(c.arguments, &a)
	c.tellAll("notifications/resources/updated", a.URI)
	return text("touched " + a.URI), nil
}
