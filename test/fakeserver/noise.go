package fakeserver

import (
	"io"
	"strings"
)

// stray is the text that -noise writes at the start and before each message. No line of it is a
// message for the client, though some lines are JSON-RPC.
var stray = strings.Join([]string{
	"Fake MCP server running on stdio",
	`{"level":30,"time":1763700000000,"msg":"starting"}`,
	`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no such request"}}`,
	`{"jsonrpc":"2.0","id":"not-a-request","result":{}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"cut":`,
	"",
	"null",
	"42",
	"[]",
	`"text"`,
	"\x1b[32m[debug]\x1b[0m ready\r",
	"\xff\xfe\x00",
	"",
}, "\n")

const hugeLine = 20 << 20

// makeNoise writes the stray lines. Its first call also writes a line of text of 20 MB, its
// second a line of JSON of 20 MB.
func (s *server) makeNoise() {
	if !s.noise {
		return
	}
	s.out.Lock()
	defer s.out.Unlock()
	io.WriteString(s.stdout, stray)
	switch {
	case !s.banner:
		s.banner = true
		io.WriteString(s.stdout, strings.Repeat("x", hugeLine)+"\n")
	case !s.dump:
		s.dump = true
		io.WriteString(s.stdout, `{"level":20,"dump":"`+strings.Repeat("y", hugeLine)+"\"}\n")
	}
}
