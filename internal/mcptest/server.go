package mcptest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
)

const modern = "2026-07-28"

var legacy = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// The keys of _meta that the modern era and its subscriptions use.
const (
	keyVersion      = "io.modelcontextprotocol/protocolVersion"
	keyCapabilities = "io.modelcontextprotocol/clientCapabilities"
	keyClientInfo   = "io.modelcontextprotocol/clientInfo"
	keyLogLevel     = "io.modelcontextprotocol/logLevel"
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

// server is what all clients of the fake server share. What it answers is kept
// as text, so that a test can ask for bytes that no encoder would write.
type server struct {
	*options
	info json.RawMessage // serverInfo

	out          sync.Mutex // guards stdout, line by line, and what follows
	banner, dump bool       // which of the 20 MB lines of -noise were written

	mu        sync.Mutex // guards what follows
	list      []tool
	prompts   []string
	resources []string
	grown     int
	answered  int // calls
	questions int // asked of clients
	peers     map[*peer]bool
	tasks     map[string]*task
}

func newServer(o *options) *server {
	return &server{
		options:   o,
		info:      encode(map[string]string{"name": o.name, "version": o.version}),
		list:      toolsOf(o),
		prompts:   slices.Clone(o.prompts),
		resources: slices.Clone(o.resources),
		peers:     map[*peer]bool{},
		tasks:     map[string]*task{},
	}
}

// run serves until the end of stdin.
func (s *server) run() {
	if s.httpFile != "" || s.sseFile != "" {
		s.runHTTP()
		return
	}
	s.makeNoise()
	p := s.newPeer(s.write)
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			p.read(line, nil)
		}
		if err != nil {
			return
		}
	}
}

func (s *server) write(line string) {
	s.makeNoise()
	s.out.Lock()
	defer s.out.Unlock()
	os.Stdout.WriteString(line + "\n")
}

// traced appends a line to the -trace.
func (s *server) traced(line string) {
	if s.trace != "" {
		appendTo(s.trace, line+"\n")
	}
}

// modernize adds resultType and serverInfo, which are in every modern result.
func (s *server) modernize(result string) string {
	var has map[string]json.RawMessage
	json.Unmarshal([]byte(result), &has)
	added := ""
	if has["resultType"] == nil {
		added = `"resultType":"complete",`
	}
	if has["_meta"] == nil {
		added += fmt.Sprintf(`"_meta":{%q:%s},`, keyServerInfo, s.info)
	}
	return "{" + added[:len(added)-btoi(len(has) == 0)] + result[1:]
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (s *server) countCall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered++; s.answered == s.exitAfter {
		fail(4, "fatal: that was call %d", s.answered)
	}
}

func (s *server) eraOf(meta map[string]json.RawMessage) (isModern bool, _ *rpcError) {
	var version string
	json.Unmarshal(meta[keyVersion], &version)
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
