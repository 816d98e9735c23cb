package fakeserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/mcp-metarouter/metarouter/test/internal/protocol"
)

// legacyVersions are the protocol versions of the legacy era that the server knows.
var legacyVersions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// A server is the state that all clients of the fake server share.
type server struct {
	*options
	info json.RawMessage // serverInfo

	out          sync.Mutex // serializes lines to stdout and guards the next two
	banner, dump bool       // which of the 20 MB lines of -noise were written

	mu        sync.Mutex // guards the fields below
	list      []tool
	prompts   []string
	resources []string
	skills    []string
	grown     int
	answered  int // calls
	questions int // that clients were asked
	peers     map[*peer]bool
	tasks     map[string]*task
}

func newServer(o *options) *server {
	s := &server{
		options:   o,
		info:      protocol.Encode(map[string]string{"name": o.name, "version": o.version}),
		list:      toolsOf(o),
		prompts:   slices.Clone(o.prompts),
		resources: slices.Clone(o.resources),
		skills:    slices.Clone(o.skillsGiven),
		peers:     map[*peer]bool{},
		tasks:     map[string]*task{},
	}
	o.atExit(func() {
		go func() { // the caller may hold a lock
			s.mu.Lock()
			peers := slices.Collect(maps.Keys(s.peers))
			s.mu.Unlock()
			for _, p := range peers {
				p.leave()
			}
		}()
	})
	return s
}

// run serves until the end of stdin.
func (s *server) run() {
	if s.httpFile != "" || s.sseFile != "" {
		s.runHTTP()
		return
	}
	s.makeNoise()
	p := s.newPeer(s.write)
	in := bufio.NewReader(s.stdin)
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
	io.WriteString(s.stdout, line+"\n")
}

// traceLine appends a line to the -trace.
func (o *options) traceLine(line string) {
	if o.trace != "" {
		o.appendTo(o.trace, line+"\n")
	}
}

// modernize adds resultType and serverInfo, which every modern result has.
func (s *server) modernize(result string) string {
	var has map[string]json.RawMessage
	json.Unmarshal([]byte(result), &has)
	added := ""
	if has["resultType"] == nil {
		added = `"resultType":"complete",`
	}
	if has["_meta"] == nil {
		added += fmt.Sprintf(`"_meta":{%q:%s},`, protocol.KeyServerInfo, s.info)
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
	s.answered++
	n := s.answered
	s.mu.Unlock()
	if n == s.exitAfter {
		s.fail(4, "fatal: that was call %d", n)
	}
}

func (s *server) eraOf(meta map[string]json.RawMessage) (isModern bool, _ *rpcError) {
	var version string
	json.Unmarshal(meta[protocol.KeyVersion], &version)
	switch {
	case s.era == "legacy", s.era == "both" && version == "":
		return false, nil
	case version == "":
		return false, newError(-32602, "Invalid params: _meta has no "+protocol.KeyVersion)
	case version != protocol.Modern:
		return false, &rpcError{fmt.Sprintf(`{"code":-32022,"message":"Unsupported protocol version","data":{"supported":%s,"requested":%q}}`,
			protocol.Encode(s.supported()), version)}
	}
	return true, nil
}

func (o *options) supported() []string {
	if o.era == "both" {
		return append([]string{protocol.Modern}, legacyVersions...)
	}
	return []string{protocol.Modern}
}

// rpcError is the JSON of a JSON-RPC error object.
type rpcError struct{ object string }

func newError(code int, message string) *rpcError {
	return &rpcError{fmt.Sprintf(`{"code":%d,"message":%s}`, code, protocol.Encode(message))}
}
