package fakeserver

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/test/internal/protocol"
)

const askSchema = `{"method":{"type":"string"},"params":{"type":"object"},"rounds":{"type":"integer"}}`

// A question is a request that the server sends to its client, once per round.
type question struct {
	Method string
	Params json.RawMessage // defaultParams if absent
	Rounds int             // 0 means one
}

// defaultParams are the parameters of a question without any.
var defaultParams = map[string]string{
	"sampling/createMessage": `{"messages":[{"role":"user","content":{"type":"text","text":"2+2?"}}],"maxTokens":10}`,
	"elicitation/create": `{"mode":"form","message":"Your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},` +
		`"required":["name"]}}`,
	"roots/list": `{}`,
}

// ask returns the client's answers, byte for byte. In the legacy era the server asks while
// the call runs. In the modern era it answers the call with pause, an input_required
// result, or with an error, until a call brings the answers.
func (c *call) ask(q question) (answers []json.RawMessage, pause string, _ *rpcError) {
	if q.Params == nil {
		q.Params = json.RawMessage(defaultParams[q.Method])
	}
	q.Rounds = max(q.Rounds, 1)
	if c.modern {
		return c.askModern(q)
	}
	for range q.Rounds {
		answer, ok := c.askNow(c.ctx, c.send, q)
		if !ok {
			return nil, "", nil
		}
		answers = append(answers, answer)
	}
	return answers, "", nil
}

// askNow sends a request and waits for its result or error object. ok is false if the
// call was cancelled.
func (p *peer) askNow(ctx context.Context, send func(string), q question) (answer json.RawMessage, ok bool) {
	p.mu.Lock()
	p.questions++
	id := fmt.Sprintf("%q", fmt.Sprintf("fake-%d", p.questions))
	p.mu.Unlock()
	answered := make(chan protocol.Message, 1)
	p.lock.Lock()
	p.asked[id] = answered
	p.lock.Unlock()
	send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, q.Method, q.Params))
	select {
	case m := <-answered:
		if m.Error != nil {
			return m.Error, true
		}
		return m.Result, true
	case <-ctx.Done():
		return nil, false
	}
}

// A state is the data that the client keeps for the server between the rounds of the modern era.
type state struct {
	Of      []byte // hash of the request
	Answers []json.RawMessage
}

func (c *call) askModern(q question) (answers []json.RawMessage, pause string, _ *rpcError) {
	if e := c.mayAsk(q); e != nil {
		return nil, "", e
	}
	var p struct {
		RequestState   *string
		InputResponses map[string]json.RawMessage
	}
	json.Unmarshal(c.message.Params, &p)
	s := state{Of: c.identity()}
	if p.RequestState != nil {
		before, ok := unseal(*p.RequestState)
		if !ok {
			return nil, "", newError(-32602, "requestState was altered")
		}
		if !bytes.Equal(before.Of, s.Of) {
			return nil, "", newError(-32602, "requestState belongs to another request")
		}
		s = before
		if answer, ok := p.InputResponses[keyOf(s)]; ok {
			s.Answers = append(s.Answers, answer)
		}
	}
	if len(s.Answers) >= q.Rounds {
		return s.Answers, "", nil
	}
	return nil, fmt.Sprintf(`{"resultType":"input_required","inputRequests":{%q:{"method":%q,"params":%s}},"requestState":%q}`,
		keyOf(s), q.Method, q.Params, seal(s)), nil
}

// keyOf returns the key of the next question.
func keyOf(s state) string { return fmt.Sprintf("question %d", len(s.Answers)+1) }

// mayAsk returns an error if the client has not declared the capability that the question
// needs.
func (c *call) mayAsk(q question) *rpcError {
	capability, _, _ := strings.Cut(q.Method, "/")
	var declared map[string]json.RawMessage
	json.Unmarshal(c.meta[protocol.KeyCapabilities], &declared)
	if declared[capability] != nil {
		return nil
	}
	return missing(fmt.Sprintf(`{%q:{}}`, capability))
}

// missing returns the error MissingRequiredClientCapability.
func missing(capabilities string) *rpcError {
	return &rpcError{`{"code":-32021,"message":"Missing required client capability","data":{"requiredCapabilities":` + capabilities + `}}`}
}

// identity returns a hash of the parts of the request that must be the same at a retry.
func (c *call) identity() []byte {
	var p struct {
		Name      string
		URI       string
		Arguments json.RawMessage
	}
	json.Unmarshal(c.message.Params, &p)
	sum := sha256.Sum256(protocol.Encode([]string{c.message.Method, p.Name, p.URI, string(p.Arguments)}))
	return sum[:]
}

func seal(s state) string {
	body := base64.RawURLEncoding.EncodeToString(protocol.Encode(s))
	return body + "." + signature(body)
}

func unseal(sealed string) (s state, ok bool) {
	body, signed, _ := strings.Cut(sealed, ".")
	b, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil || signed != signature(body) {
		return s, false
	}
	return s, json.Unmarshal(b, &s) == nil
}

func signature(body string) string {
	h := hmac.New(sha256.New, []byte("mcptest"))
	h.Write([]byte(body))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

func askTool(c *call) (string, *rpcError) {
	var q question
	json.Unmarshal(c.arguments, &q)
	answers, pause, e := c.ask(q)
	if answers == nil {
		return pause, e
	}
	var lines []string
	for _, answer := range answers {
		lines = append(lines, string(answer))
	}
	return text(strings.Join(lines, "\n")), nil
}

// askLater asks after the call has been answered, so late that the client has the answer.
func askLater(c *call) (string, *rpcError) {
	var q question
	json.Unmarshal(c.arguments, &q)
	if q.Params == nil {
		q.Params = json.RawMessage(defaultParams[q.Method])
	}
	time.AfterFunc(time.Second, func() {
		if answer, ok := c.askNow(context.Background(), c.push, q); ok {
			c.traceLine("later " + string(answer))
		}
	})
	return text("will ask"), nil
}

// askForRoots asks for the roots outside of any call.
func (p *peer) askForRoots() {
	answer, _ := p.askNow(context.Background(), p.push, question{Method: "roots/list", Params: json.RawMessage(`{}`)})
	p.lock.Lock()
	defer p.lock.Unlock()
	p.roots = string(answer)
}

func clientRoots(c *call) (string, *rpcError) {
	c.lock.Lock()
	defer c.lock.Unlock()
	return text(c.roots), nil
}

// levels are the severities of RFC 5424, lowest first.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// sendLogs sends the messages that the client wants: in the legacy era all until the client
// sets a level, in the modern era no message without a level in the request.
func sendLogs(c *call) (string, *rpcError) {
	var a struct {
		Level string
		N     int
	}
	json.Unmarshal(c.arguments, &a)
	c.lock.Lock()
	least := c.level
	c.lock.Unlock()
	wanted := true
	if c.modern {
		least, wanted = "", c.meta[protocol.KeyLogLevel] != nil
		json.Unmarshal(c.meta[protocol.KeyLogLevel], &least)
	}
	if wanted && slices.Index(levels, a.Level) >= slices.Index(levels, least) {
		for i := range max(a.N, 1) {
			c.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":%q,"logger":"fake","data":%q}}`,
				a.Level, fmt.Sprintf("message %d", i+1)))
		}
	}
	return text("logged"), nil
}

func clientCapabilities(c *call) (string, *rpcError) {
	if c.modern {
		return text(string(c.meta[protocol.KeyCapabilities])), nil
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	return text(string(c.capabilities)), nil
}

// requestMeta returns the _meta of the call.
func requestMeta(c *call) (string, *rpcError) {
	return text(string(protocol.Encode(c.meta))), nil
}

func requestHeaders(c *call) (string, *rpcError) {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(c.header)) {
		lines = append(lines, name+": "+strings.Join(c.header[name], ", "))
	}
	return text(strings.Join(lines, "\n")), nil
}
