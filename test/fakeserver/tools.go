package fakeserver

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/test/internal/protocol"
)

// RawResult is the answer of the tool raw: valid JSON that a decoder of known types does
// not keep unchanged. A modern server adds resultType before it.
const RawResult = `{"content":[{"type":"text","text":"caf\u00e9 \u2028 <b> & \/ \ud83d\ude00 \ud800", "zeta":1, "alpha":[ ]},` +
	`{"type":"hologram","frames":[9007199254740993,1e400,-0.0,1.10]},` +
	`{"type":"resource","resource":{"uri":"fake://empty","text":""}}],` +
	` "structuredContent" : {"b":12345678901234567890, "a" : 2},"unknown":{"deep":[ null ]},` +
	`"_meta":{"example.com/n":9007199254740993}}`

// RawError is the JSON-RPC error object of the tool error.
const RawError = `{"code":-31999,"message":"the error tool always fails","data":{"b":9007199254740993, "a":"\u00e9"}}`

// A tool is one entry of the list, called by its name.
type tool struct {
	name       string
	definition json.RawMessage
	act        action
}

// An action answers a call with a CallToolResult or an error, or never if both are zero.
type action func(*call) (result string, _ *rpcError)

type behaviour struct {
	description, properties, annotations string
	act                                  action
}

// behaviours returns the tools that do more than echo, or whose description is not made of
// their name.
func behaviours() map[string]behaviour {
	return map[string]behaviour{
		"echo":   {"Return the arguments as text.", `{"message":{"type":"string"}}`, safe, echo},
		"say":    {"Return the argument text as text.", `{"text":{"type":"string"}}`, safe, sayText},
		"answer": {"Return the argument result as the result.", `{"result":{"type":"object"}}`, safe, answerWith},
		"refuse": {"Fail with a JSON-RPC error with the argument text as its message.", `{"text":{"type":"string"}}`, safe, refuseWith},
		"pid":    {"Return the process id of this server.", `{}`, safe, func(c *call) (string, *rpcError) { return text(fmt.Sprint(c.pid)), nil }},
		"cwd":    {"Return the working directory of this server.", `{}`, safe, workingDirectory},
		"env":    {"Return the environment of this server, sorted, a variable a line.", `{}`, safe, environment},
		"sleep":  {"Wait for a number of milliseconds, then answer.", `{"ms":{"type":"integer"}}`, safe, sleepThenAnswer},
		"hang":   {"Never answer, but write 'cancelled ID' to the trace when the call is cancelled.", `{}`, "", neverAnswer},
		"crash":  {"Exit in the middle of the call.", `{}`, "", func(c *call) (string, *rpcError) { c.fail(7, "fatal: crash was called"); return "", nil }},
		"fail":   {"Fail, as a tool does.", `{}`, "", func(*call) (string, *rpcError) { return failure("the fail tool always fails"), nil }},
		"error":  {"Fail with a JSON-RPC error.", `{}`, "", func(*call) (string, *rpcError) { return "", &rpcError{RawError} }},
		"big":    {"Return a text of a number of bytes.", `{"bytes":{"type":"integer"}}`, safe, bigText},
		"prose":  {"Return a text of a number of bytes, with line ends and quotes.", `{"bytes":{"type":"integer"}}`, safe, proseText},
		"raw":    {"Return a result with unusual bytes.", `{}`, safe, func(*call) (string, *rpcError) { return RawResult, nil }},
		"progress": {"Send a number of progress notifications, then answer.",
			`{"n":{"type":"integer"}}`, safe, sendProgress},
		"capabilities": {"Return the client's capabilities, as this server received them.", `{}`, safe, clientCapabilities},
		"meta":         {"Return the _meta of this call, an object.", `{}`, safe, requestMeta},
		"headers":      {"Return the HTTP headers of this call, sorted, one a line.", `{}`, safe, requestHeaders},
		"log":          {"Send n log messages of a level.", `{"level":{"type":"string"},"n":{"type":"integer"}}`, safe, sendLogs},
		"roots":        {"Return the client's last answer to roots/list.", `{}`, safe, clientRoots},
		"ask":          {"Ask the client and return its answers, a line each.", askSchema, "", askTool},
		"later":        {"Ask the client 1 s after this call; the trace has the answer.", askSchema, "", askLater},
		"task":         {"Work as a task, if the client knows tasks.", `{}`, "", runTask},

		"ledger_read":   {"Read an account, and record the execution.", ledgerSchema, safe, recordExecution("ledger_read")},
		"ledger_put":    {"Set an account, and record the execution.", ledgerSchema, `{"readOnlyHint":false,"idempotentHint":true}`, recordExecution("ledger_put")},
		"ledger_charge": {"Charge an account, and record the execution.", ledgerSchema, `{"readOnlyHint":false,"idempotentHint":false}`, recordExecution("ledger_charge")},

		"list_categories": {"List the categories: animal, plant and other.", `{}`, safe,
			func(*call) (string, *rpcError) { return text(`{"categories":["animal","plant","other"]}`), nil }},
		"classify_text": {"Say whether a text is about an animal or a plant.", `{"text":{"type":"string"}}`, safe, classifyText},

		"grow_prompts":   {"Add a prompt to this server.", `{}`, "", growPrompts},
		"grow_resources": {"Add a resource to this server.", `{}`, "", growResources},
		"grow_skills":    {"Add a skill to this server, and change all.", `{}`, "", growSkills(true)},
		"edit_skills":    {"Do that without a notification.", `{}`, "", growSkills(false)},
		"touch":          {"Say that a resource has changed.", `{"uri":{"type":"string"}}`, "", touchResource},

		"grow":   {"Add a tool to this server.", `{}`, "", growTools},
		"shrink": {"Remove the last tool of this server.", `{}`, "", shrinkTools},

		"browser_navigate":   {"Navigate to a URL in the browser", `{"url":{"type":"string"}}`, "", echo},
		"browser_screenshot": {"Take a screenshot of the current page", `{"full_page":{"type":"boolean"}}`, safe, echo},
		"browser_click":      {"Click an element on the page", `{"selector":{"type":"string"}}`, "", echo},
	}
}

const safe = `{"readOnlyHint":true,"idempotentHint":true,"openWorldHint":false}`

// toolsOf returns the tools that the options ask for, echo by default.
func toolsOf(o *options) []tool {
	var list []tool
	for _, asked := range o.tools {
		list = append(list, newTool(asked))
	}
	for i := range o.generated {
		list = append(list, newTool(fmt.Sprintf("tool_%04d: Generated tool number %d.", i+1, i+1)))
	}
	if o.list != "" {
		list = append(list, toolsIn(o.process, o.list)...)
	}
	if o.badSchemas {
		list = append(list, newTool("fine: A good tool among bad ones."))
		for _, definition := range badTools {
			list = append(list, tool{protocol.ToolName(definition), json.RawMessage(definition), echo})
		}
	}
	if len(list) == 0 {
		list = []tool{newTool("echo")}
	}
	if o.duplicate {
		list = append(list, newTool(list[0].name+": The second tool of this name."))
	}
	return list
}

// newTool makes a tool from a name, from "name: description" or from a definition. What
// the tool does depends on its name only.
func newTool(asked string) tool {
	if strings.HasPrefix(asked, "{") {
		name := protocol.ToolName(asked)
		return tool{name, json.RawMessage(asked), actionOf(name)}
	}
	name, description, described := strings.Cut(asked, ": ")
	properties, annotations := `{"message":{"type":"string"}}`, ""
	if b, ok := behaviours()[name]; ok {
		properties, annotations = b.properties, b.annotations
		if !described {
			description, described = b.description, true
		}
	}
	if !described {
		description = strings.ReplaceAll(name, "_", " ")
	}
	definition := fmt.Sprintf(`{"name":%s,"description":%s,"inputSchema":{"type":"object","properties":%s}`,
		protocol.Encode(name), protocol.Encode(description), properties)
	if annotations != "" {
		definition += `,"annotations":` + annotations
	}
	return tool{name, json.RawMessage(definition + "}"), actionOf(name)}
}

func actionOf(name string) action {
	if b, ok := behaviours()[name]; ok {
		return b.act
	}
	return echo
}

// toolsIn reads the tools of a recorded tools/list.
func toolsIn(p *process, file string) []tool {
	var recorded struct{ Tools []json.RawMessage }
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &recorded)
	}
	if err != nil {
		p.fail(2, "read -list: %v", err)
	}
	var list []tool
	for _, definition := range recorded.Tools {
		// A line holds one message, so a definition must be one line.
		oneLine := strings.NewReplacer("\n", "", "\r", "").Replace(string(definition))
		list = append(list, tool{protocol.ToolName(oneLine), json.RawMessage(oneLine), echo})
	}
	return list
}

func echo(c *call) (string, *rpcError) {
	if c.arguments == nil {
		return text("{}"), nil
	}
	return text(string(c.arguments)), nil
}

func sayText(c *call) (string, *rpcError) {
	var a struct{ Text string }
	json.Unmarshal(c.arguments, &a)
	return text(a.Text), nil
}

func answerWith(c *call) (string, *rpcError) {
	var a struct{ Result json.RawMessage }
	json.Unmarshal(c.arguments, &a)
	return string(a.Result), nil
}

func refuseWith(c *call) (string, *rpcError) {
	var a struct{ Text string }
	json.Unmarshal(c.arguments, &a)
	return "", newError(-32000, a.Text)
}

func neverAnswer(c *call) (string, *rpcError) {
	<-c.ctx.Done()
	c.traceLine("cancelled " + string(c.message.ID))
	return "", nil
}

func workingDirectory(c *call) (string, *rpcError) {
	return text(c.dir), nil
}

func environment(c *call) (string, *rpcError) {
	return text(strings.Join(slices.Sorted(slices.Values(c.env)), "\n")), nil
}

// sleepThenAnswer does not answer if the call is cancelled.
func sleepThenAnswer(c *call) (string, *rpcError) {
	var a struct{ Ms int }
	json.Unmarshal(c.arguments, &a)
	select {
	case <-time.After(time.Duration(a.Ms) * time.Millisecond):
		return text(fmt.Sprintf("slept for %d ms", a.Ms)), nil
	case <-c.ctx.Done():
		return "", nil
	}
}

func bigText(c *call) (string, *rpcError) {
	var a struct{ Bytes int }
	json.Unmarshal(c.arguments, &a)
	return text(strings.Repeat("x", max(a.Bytes, 0))), nil
}

func proseText(c *call) (string, *rpcError) {
	var a struct{ Bytes int }
	json.Unmarshal(c.arguments, &a)
	return text(Prose(max(a.Bytes, 0))), nil
}

// Prose returns a text of this many bytes that JSON escapes about as often as it escapes
// prose and the output of programs.
func Prose(bytes int) string {
	const line = "A line of prose, with \"quotes\" and a C:\\path in it.\n"
	return strings.Repeat(line, bytes/len(line)+1)[:bytes]
}

// classifyText knows the categories of list_categories.
func classifyText(c *call) (string, *rpcError) {
	var a struct{ Text string }
	json.Unmarshal(c.arguments, &a)
	switch {
	case strings.Contains(a.Text, "cat"):
		return text(`{"class":0,"confidence":0.9,"model":"zoo","use_reasoning":true,"probabilities":[0.9,0.06,0.04]}`), nil
	case strings.Contains(a.Text, "tree"):
		return text(`{"class":1,"confidence":0.8}`), nil
	}
	return text(`{"class":2,"confidence":0.7}`), nil
}

func sendProgress(c *call) (string, *rpcError) {
	var a struct{ N int }
	json.Unmarshal(c.arguments, &a)
	for i := range a.N {
		if token := c.meta["progressToken"]; token != nil {
			c.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"total":%d}}`,
				token, i+1, a.N))
		}
	}
	return text(fmt.Sprintf("made %d steps", a.N)), nil
}

func growTools(c *call) (string, *rpcError) {
	c.mu.Lock()
	c.grown++
	t := newTool(fmt.Sprintf("grown_%d: A tool added while running.", c.grown))
	c.list = append(c.list, t)
	c.mu.Unlock()
	c.notifyAll("notifications/tools/list_changed", "")
	return text("added " + t.name), nil
}

func shrinkTools(c *call) (string, *rpcError) {
	c.mu.Lock()
	last := len(c.list) - 1
	removed := c.list[last].name
	c.list = c.list[:last]
	c.mu.Unlock()
	c.notifyAll("notifications/tools/list_changed", "")
	return text("removed " + removed), nil
}

func text(s string) string {
	return fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, protocol.Encode(s))
}
func failure(s string) string {
	return fmt.Sprintf(`{"content":[{"type":"text","text":%s}],"isError":true}`, protocol.Encode(s))
}
