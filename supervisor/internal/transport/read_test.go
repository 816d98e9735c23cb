package transport

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// Messages that are not one line each are understood, and noted once.
func TestShapes(t *testing.T) {
	answer := func(m wire.Message) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"text":"} {"}}`, m.ID)
	}
	indented := func(m wire.Message) string {
		return fmt.Sprintf("{\n  \"jsonrpc\": \"2.0\",\n  \"id\": %s,\n  \"result\": {\r\n    \"text\": \"} {\"\n  }\n}", m.ID)
	}
	const note = `{"jsonrpc":"2.0","method":"notifications/x"}`
	for name, tc := range map[string]struct {
		write func(m wire.Message) string
		note  string
	}{
		"lines":                 {func(m wire.Message) string { return answer(m) + "\n" }, ""},
		"no line end":           {answer, ""},
		"no line end, indented": {indented, "writes messages over several lines"},
		"indented":              {func(m wire.Message) string { return indented(m) + "\n" }, "writes messages over several lines"},
		"two in a line":         {func(m wire.Message) string { return note + answer(m) + "\n" }, "writes more than one message in a line"},
		"BOM":                   {func(m wire.Message) string { return string(wire.BOM) + answer(m) + "\n" }, "writes a byte order mark"},
		"array":                 {func(m wire.Message) string { return "[" + answer(m) + "]\n" }, "writes messages in arrays"},
		"array of two":          {func(m wire.Message) string { return "[" + note + ", " + answer(m) + " ]\n" }, "writes messages in arrays"},
		"array and BOM":         {func(m wire.Message) string { return string(wire.BOM) + "[" + answer(m) + "]\n" }, "writes a byte order mark; writes messages in arrays"},
		"array of a log":        {func(m wire.Message) string { return `[{"level":3},"x"]` + "\n" + answer(m) + "\n" }, ""},
		"banner":                {func(m wire.Message) string { return "ready {ok} " + answer(m) + "\n" }, "writes text before its first message"},
		"banner that changes":   {func(m wire.Message) string { return "19:04 #" + string(m.ID) + " \xe9 " + answer(m) + "\n" }, "writes text before its first message"},
		"banner in brackets":    {func(m wire.Message) string { return "[info] " + answer(m) + "\n" }, "writes text before its first message"},
		"banner in colour":      {func(m wire.Message) string { return "\x1b[32mok\x1b[0m " + answer(m) + "\n" }, "writes text before its first message"},
		"banner in a line":      {func(m wire.Message) string { return "ready\n" + answer(m) + "\n" }, ""},
		"a log in JSON": {func(m wire.Message) string {
			return `{"level":3,"message":"content-length: x"}` + "\n" + answer(m) + "\n"
		}, ""},
		"half a message": {func(m wire.Message) string { return `{"jsonrpc":"2.0","id":1,"result":{` + "\n" + answer(m) + "\n" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, s := pair(t)
			for range 3 { // the first message, one after it, and one after that
				go func() { io.WriteString(s.out, tc.write(s.read())) }()
				result, err := p.Call(t.Context(), session.Request{Method: "m"})
				if text, _ := wire.String(wire.Member(result, "text")); text != "} {" || err != nil || wire.HasLineEnd(result) {
					t.Fatalf("result %q, %v", result, err)
				}
			}
			expect.Equal(t, strings.Join(reported(p).Notes, "; "), tc.note, "noted")
		})
	}
}

// A server that writes headers is answered with headers.
func TestHeaders(t *testing.T) {
	p, s := pair(t)
	body := `{"jsonrpc":"2.0","method":"notifications/x"}`
	fmt.Fprintf(s.out, "Content-Length: %d\r\nContent-Type: application/json\r\n\r\n%s", len(body), body)
	mcptest.WaitFor(t, "the header to be noted", func() bool { return reported(p).Notes != nil })
	for range 2 {
		go func() {
			header, _ := s.in.ReadString('\n')
			blank, _ := s.in.ReadString('\n')
			var n int
			if _, err := fmt.Sscanf(header, "Content-Length: %d\r\n", &n); err != nil || blank != "\r\n" {
				t.Errorf("header %q, then %q", header, blank)
			}
			request := make([]byte, n)
			io.ReadFull(s.in, request)
			m, err := wire.Parse(request)
			if err != nil {
				t.Errorf("%s: %v", request, err)
			}
			answer := fmt.Sprintf("{\n"+`  "jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
			fmt.Fprintf(s.out, "Content-Length: %d\r\n\r\n%s", len(answer), answer)
		}()
		_, err := p.Call(t.Context(), session.Request{Method: "m"})
		expect.OK(t, err)
	}
	expect.Equal(t, strings.Join(reported(p).Notes, "; "), "writes Content-Length headers, as the Language Server Protocol does", "noted") // and no shape
	expect.Equal(t, reported(p).StrayLines, 0, "strays")
}

// After the first message, a line of text is not searched: it may hold what others wrote.
func TestTextIsNotSearched(t *testing.T) {
	p, s := pair(t)
	go func() {
		fmt.Fprintf(s.out, `{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", s.read().ID)
		m := s.read()
		fmt.Fprintf(s.out, `got {"jsonrpc":"2.0","id":%s,"result":{"from":"text"}}`+"\n", m.ID)
		fmt.Fprintf(s.out, `{"jsonrpc":"2.0","id":%s,"result":{"from":"server"}}`+"\n", m.ID)
	}()
	p.Call(t.Context(), session.Request{Method: "m"})
	if result, err := p.Call(t.Context(), session.Request{Method: "m"}); string(result) != `{"from":"server"}` || err != nil {
		t.Errorf("%s, %v", result, err)
	}
}

// A call whose answer comes after a text in the line fails soon, and not at its time limit.
func TestAnswerAfterText(t *testing.T) {
	for _, text := range []string{"Server started on stdio ", "> ", "[12:00] sent: ", "a {b} ", "\x1b[0m"} {
		synctest.Test(t, func(t *testing.T) {
			p, s := pair(t)
			go func() {
				fmt.Fprintf(s.out, `{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", s.read().ID)
				fmt.Fprintf(s.out, text+`{"jsonrpc":"2.0","id":%s,"result":{"from":"text"}}`+"\n", s.read().ID)
			}()
			p.Call(t.Context(), session.Request{Method: "m"})
			begun := time.Now()
			if _, err := p.Call(t.Context(), session.Request{Method: "m"}); err == nil || !strings.Contains(err.Error(), "not a JSON-RPC message") || time.Since(begun) > time.Minute/2 {
				t.Errorf("%q: %v after %s", text, err, time.Since(begun))
			}
			p.Close(io.EOF)
		})
	}
}

// A server that writes text is reported after two seconds, with what it wrote first.
func TestOnlyText(t *testing.T) {
	const hello = `{"jsonrpc":"2.0","method":"notifications/x"}` + "\n"
	for text, want := range map[string]string{
		"Usage: server [OPTIONS]\nmore\n":   "Usage: server [OPTIONS]",
		">>> ":                              ">>>",
		"{'jsonrpc': '2.0'}\n":              "{'jsonrpc': '2.0'}",
		"[12:00:00] up\n":                   "[12:00:00] up",
		`{"level":3,"message":"up"}` + "\n": "",
		"{\n":                               "",
		"\n":                                "",
		"up\n" + hello:                      "",
		hello:                               "",
	} {
		synctest.Test(t, func(t *testing.T) {
			got := ""
			p, s := pairHearing(t, func(first string) { got = first })
			io.WriteString(s.out, text)
			time.Sleep(textTime + time.Millisecond)
			synctest.Wait()
			p.Close(io.EOF)
			expect.Equal(t, got, want, "%q: reported", text)
		})
	}
}
