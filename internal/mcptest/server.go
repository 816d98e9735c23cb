package mcptest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
)

const modern = "2026-07-28"

var legacy = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// The keys of _meta that the modern era and its subscriptions use.
const (
	keyVersion      = "io.modelcontextprotocol/protocolVersion"
	keyServerInfo   = "io.modelcontextprotocol/serverInfo"
	keySubscription = "io.modelcontextprotocol/subscriptionId"
)

// message is any JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// server is the fake server once it reads messages. What it answers is kept as
// text, so that a test can ask for bytes that no encoder would write.
type server struct {
	*options
	info json.RawMessage // serverInfo

	out          sync.Mutex // guards stdout, line by line, and what follows
	banner, dump bool       // which of the 20 MB lines of -noise were written

	mu            sync.Mutex // guards what follows
	list          []tool
	grown         int
	answered      int // calls
	initialized   bool
	discovered    bool
	inFlight      map[string]context.CancelFunc // by id
	subscriptions []json.RawMessage             // ids of subscriptions/listen
}

func newServer(o *options) *server {
	return &server{
		options:  o,
		info:     encode(map[string]string{"name": o.name, "version": o.version}),
		list:     toolsOf(o),
		inFlight: map[string]context.CancelFunc{},
	}
}

// run reads messages until the end of stdin.
func (s *server) run() {
	s.makeNoise()
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if s.trace != "" {
				appendTo(s.trace, string(bytes.TrimSpace(line))+"\n")
			}
			s.receive(line)
		}
		if err != nil {
			return
		}
	}
}

func (s *server) receive(line []byte) {
	var m message
	switch err := json.Unmarshal(line, &m); {
	case s.mute:
	case err != nil:
		s.write(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`)
	case m.Method == "": // a response, and nothing was asked
	case m.ID == nil:
		s.notified(m)
	case slices.Contains(s.hang, m.Method):
	case m.Method == "tools/call":
		ctx, cancel := context.WithCancel(context.Background())
		s.mu.Lock()
		s.inFlight[string(m.ID)] = cancel
		s.mu.Unlock()
		go func() {
			defer cancel()
			s.call(ctx, m)
		}()
	default:
		s.answer(m.ID, func(modern bool) (string, *rpcError) { return s.request(m, modern) }, m.Params)
	}
}

func (s *server) notified(m message) {
	if m.Method != "notifications/cancelled" {
		return
	}
	var p struct{ RequestID json.RawMessage }
	json.Unmarshal(m.Params, &p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel, ok := s.inFlight[string(p.RequestID)]; ok {
		cancel()
	}
	s.subscriptions = slices.DeleteFunc(s.subscriptions, func(id json.RawMessage) bool { return bytes.Equal(id, p.RequestID) })
}

// answer finds the era of a request by its parameters and writes what work says;
// nothing if that is neither a result nor an error.
func (s *server) answer(id json.RawMessage, work func(modern bool) (string, *rpcError), params json.RawMessage) {
	isModern, e := s.eraOf(params)
	var result string
	if e == nil {
		result, e = work(isModern)
	}
	switch {
	case e != nil:
		s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, id, e.object))
	case result != "" && isModern:
		// "resultType" and serverInfo in every result.
		added := `{"resultType":"complete"`
		if !bytes.Contains([]byte(result), []byte(`"_meta"`)) {
			added += fmt.Sprintf(`,"_meta":{%q:%s}`, keyServerInfo, s.info)
		}
		if result != "{}" {
			added += ","
		}
		s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s%s}`, id, added, result[1:]))
	case result != "":
		s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result))
	}
}

func (s *server) eraOf(params json.RawMessage) (isModern bool, _ *rpcError) {
	var p struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	json.Unmarshal(params, &p)
	var version string
	json.Unmarshal(p.Meta[keyVersion], &version)
	switch {
	case s.era == "legacy", s.era == "both" && version == "":
		return false, nil
	case version == "":
		return false, newError(-32602, "Invalid params: _meta has no "+keyVersion)
	case version != modern:
		return false, &rpcError{fmt.Sprintf(`{"code":-32022,"message":"Unsupported protocol version","data":{"supported":%s,"requested":%q}}`,
			encode(s.supported()), version)}
	}
	return true, nil
}

func (s *server) supported() []string {
	if s.era == "both" {
		return append([]string{modern}, legacy...)
	}
	return []string{modern}
}

// request answers everything but calls.
func (s *server) request(m message, isModern bool) (result string, _ *rpcError) {
	switch {
	case m.Method == "initialize" && !isModern:
		return s.initialize(m.Params)
	case m.Method == "ping" && !isModern:
		return "{}", nil
	case m.Method == "server/discover" && isModern:
		s.mu.Lock()
		s.discovered = true
		s.mu.Unlock()
		return fmt.Sprintf(`{"supportedVersions":%s,"capabilities":%s,"instructions":%s,"ttlMs":0,"cacheScope":"private"}`,
			encode(s.supported()), s.capabilities(), encode(s.instructions)), nil
	case m.Method == "subscriptions/listen" && isModern:
		s.subscribe(m)
		return "", nil
	case m.Method == "tools/list" && !s.withoutList:
		return s.listTools(m.Params, isModern)
	}
	return "", s.unknown(m.Method)
}

func (s *server) initialize(params json.RawMessage) (string, *rpcError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.oneEra && s.discovered {
		return "", newError(0, `duplicate "initialize" received`)
	}
	s.initialized = true
	var p struct{ ProtocolVersion string }
	json.Unmarshal(params, &p)
	version := s.protocol
	if slices.Contains(legacy, p.ProtocolVersion) && p.ProtocolVersion < version {
		version = p.ProtocolVersion
	}
	instructions := ""
	if s.instructions != "" {
		instructions = `,"instructions":` + string(encode(s.instructions))
	}
	return fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":%s%s}`, version, s.capabilities(), s.info, instructions), nil
}

func (s *server) capabilities() string {
	if s.withoutList {
		return `{}`
	}
	return `{"tools":{"listChanged":true}}`
}

func (s *server) listTools(params json.RawMessage, isModern bool) (string, *rpcError) {
	var p struct{ Cursor *string }
	json.Unmarshal(params, &p)
	s.mu.Lock()
	defer s.mu.Unlock()
	first := 0
	if p.Cursor != nil {
		var err error
		if first, err = strconv.Atoi(*p.Cursor); err != nil || first < 0 || first > len(s.list) {
			return "", newError(-32602, "Invalid params: no such cursor")
		}
	}
	end := len(s.list)
	if s.page > 0 {
		end = min(end, first+s.page)
	}
	var b bytes.Buffer
	b.WriteString(`{"tools":[`)
	for i, t := range s.list[first:end] {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(t.definition)
	}
	b.WriteByte(']')
	switch {
	case end < len(s.list):
		fmt.Fprintf(&b, `,"nextCursor":"%d"`, end)
	case s.badSchemas:
		b.WriteString(`,"nextCursor":null`)
	}
	if isModern {
		b.WriteString(`,"ttlMs":0,"cacheScope":"private"`)
	}
	b.WriteByte('}')
	return b.String(), nil
}

// subscribe acknowledges a subscriptions/listen; it has no answer until it ends.
func (s *server) subscribe(m message) {
	var p struct {
		Notifications struct{ ToolsListChanged bool }
	}
	json.Unmarshal(m.Params, &p)
	agreed := `{}`
	if p.Notifications.ToolsListChanged {
		agreed = `{"toolsListChanged":true}`
	}
	s.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{%q:%s},"notifications":%s}}`,
		keySubscription, m.ID, agreed))
	if p.Notifications.ToolsListChanged {
		s.mu.Lock()
		s.subscriptions = append(s.subscriptions, m.ID)
		s.mu.Unlock()
	}
}

// changed tells the clients of both eras that the list has changed.
func (s *server) changed() {
	s.mu.Lock()
	initialized, subscriptions := s.initialized, slices.Clone(s.subscriptions)
	s.mu.Unlock()
	if initialized {
		s.write(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	}
	for _, id := range subscriptions {
		s.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{%q:%s}}}`, keySubscription, id))
	}
}

// call answers one tools/call.
func (s *server) call(ctx context.Context, m message) {
	s.answer(m.ID, func(bool) (string, *rpcError) {
		var p struct {
			Name      string
			Arguments json.RawMessage
			Meta      struct{ ProgressToken json.RawMessage } `json:"_meta"`
		}
		json.Unmarshal(m.Params, &p)
		act, ok := s.tool(p.Name)
		if !ok {
			return "", newError(-32602, "Unknown tool: "+p.Name)
		}
		return act(&call{server: s, ctx: ctx, arguments: p.Arguments, token: p.Meta.ProgressToken})
	}, m.Params)

	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.inFlight, string(m.ID))
	if s.answered++; s.answered == s.exitAfter {
		fail(4, "fatal: that was call %d", s.answered)
	}
}

func (s *server) tool(name string) (action, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.list, func(t tool) bool { return t.name == name })
	if i < 0 {
		return nil, false
	}
	return s.list[i].act, true
}

func (s *server) unknown(method string) *rpcError {
	switch {
	case s.exitOnUnknown:
		fail(5, "fatal: unknown method %q", method)
	case s.silentOnUnknown:
		return nil
	}
	return newError(-32601, "Method not found")
}

func (s *server) write(line string) {
	s.makeNoise()
	s.out.Lock()
	defer s.out.Unlock()
	os.Stdout.WriteString(line + "\n")
}

// rpcError is the JSON of a JSON-RPC error object.
type rpcError struct{ object string }

func newError(code int, message string) *rpcError {
	return &rpcError{fmt.Sprintf(`{"code":%d,"message":%s}`, code, encode(message))}
}

// encode is for values that can't fail to encode.
func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
