//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// everything is the set of flags for a fake server that offers everything.
var everything = []string{
	"-tools", "ask,echo,progress,log,hang,roots,capabilities,touch,grow,grow_prompts,grow_resources,later",
	"-prompts", "hello,ask", "-resources", "fake://a,fake://b.bin,fake://x/ask", "-templates", "fake://t/{name}",
	"-complete", "-logging", "-ask-roots",
}

const declared = `{"sampling":{},"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true}}`

// withoutRoots are the capabilities of a client without a session, except in the roots check. The
// router cannot recognize such a client, so it would ask for the roots before each request to a
// server that has asked for them.
const withoutRoots = `{"sampling":{},"elicitation":{"form":{},"url":{}}}`

// A cell is a session of a client of one era with a server of one era.
type cell struct {
	*session
	way, clientEra, serverEra string
	transport                 string                 // "stdio" or "http"
	trace                     string                 // the server's
	elsewhere                 bool                   // the server is on another node
	another                   func() *session        // with roots, if nameless
	seen                      []mcptest.Notification // by await
}

// TestCells uses all of the protocol that is more than a request and a response, for clients and
// servers of both eras, each over stdio and HTTP. The direct cells, without a router, check the
// test's own client and server.
func TestCells(t *testing.T) {
	t.Parallel()
	eras, transports := []string{"legacy", "modern"}, []string{"stdio", "http"}
	for _, era := range eras {
		for _, face := range transports {
			t.Run(fmt.Sprintf("direct/%s/%s", era, face), func(t *testing.T) {
				t.Parallel()
				newCell(t, "direct", face, face, era, era).check(t)
			})
		}
	}
	for _, clientEra := range eras {
		for _, serverEra := range eras {
			for _, face := range transports {
				for _, backend := range transports {
					t.Run(fmt.Sprintf("router/%s client by %s/%s server by %s", clientEra, face, serverEra, backend), func(t *testing.T) {
						t.Parallel()
						newCell(t, "router", face, backend, clientEra, serverEra).check(t)
					})
				}
			}
		}
	}
}

func newCell(t *testing.T, way, face, backend, clientEra, serverEra string) *cell {
	c := &cell{way: way, transport: face, clientEra: clientEra, serverEra: serverEra, trace: filepath.Join(t.TempDir(), "trace")}
	flags := append(slices.Clone(everything), "-era", serverEra, "-trace", c.trace)
	var url string
	if backend == "http" {
		url, _ = mcptest.Remote(t, "http", flags...)
	}
	if way == "direct" {
		if backend == "http" {
			c.openHTTP(t, url)
		} else {
			command, args := mcptest.Command(flags...)
			c.openStdio(t, mcptest.Start(t, command, args, t.TempDir(), nil))
		}
		return c
	}
	server := fake(flags...)
	if backend == "http" {
		server = map[string]any{"type": "http", "url": url}
	}
	s := prepare(t, entries{"fake": server}, map[string]any{"listWait": "60s"})
	if face == "http" {
		url, _ := s.serveHTTP("--mode", "direct", "--names", "bare")
		c.openHTTP(t, url)
	} else {
		c.openStdio(t, s.start("--mode", "direct", "--names", "bare"))
	}
	return c
}

// nameless reports whether the router cannot recognize the client in its next request although
// the server needs that.
func (c *cell) nameless() bool {
	return c.way == "router" && c.transport == "http" && c.clientEra == "modern" && c.serverEra == "legacy"
}

func (c *cell) openStdio(t *testing.T, raw *mcptest.Client) {
	c.session = open(t, raw, raw.Notifications, c.clientEra, declared, answer)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("stderr of the other side:\n%s", raw.Stderr())
		}
	})
}

func (c *cell) openHTTP(t *testing.T, url string) {
	raw := mcptest.NewHTTPClient(t, url)
	capabilities := declared
	if c.nameless() {
		capabilities = withoutRoots
		c.another = func() *session {
			raw := mcptest.NewHTTPClient(t, url)
			return open(t, raw, raw.Notifications, c.clientEra, declared, answer)
		}
	}
	c.session = open(t, raw, raw.Notifications, c.clientEra, capabilities, answer)
	if c.clientEra == "legacy" {
		if _, err := raw.Open(t.Context()); err != nil {
			t.Fatalf("open the GET stream: %v", err)
		}
	}
}

// answers are the client's answers. Their bytes show whether the router changes them: a decoder
// would change the numbers and drop unknown members.
var answers = map[string]string{
	"sampling/createMessage": `{"role":"assistant","content":{"type":"text","text":"four","zeta":1,"alpha":[]},"model":"m","n":9007199254740993,"x":1.10}`,
	"elicitation/create":     `{"action":"accept","content":{"name":"Ada","n":9007199254740993},"x":1.10}`,
	"roots/list":             `{"roots":[{"uri":"file:///home/ada","name":"home","n":9007199254740993}],"x":1.10}`,
}

func answer(method string, _ json.RawMessage) json.RawMessage {
	return json.RawMessage(answers[method])
}

// check runs all checks, one after the other.
func (c *cell) check(t *testing.T) {
	for _, check := range []struct {
		name string
		run  func(*cell, *testing.T)
	}{
		{"tools", (*cell).tools},
		{"sampling", (*cell).sampling},
		{"elicitation by form", (*cell).elicitationForm},
		{"elicitation by URL", (*cell).elicitationURL},
		{"roots", (*cell).roots},
		{"several rounds", (*cell).rounds},
		{"requestState", (*cell).requestState},
		{"a question out of the blue", (*cell).outOfTheBlue},
		{"a question that is withdrawn", (*cell).withdrawn},
		{"progress", (*cell).progress},
		{"logging", (*cell).logging},
		{"cancellation", (*cell).cancellation},
		{"prompts", (*cell).prompts},
		{"resources", (*cell).resources},
		{"completion", (*cell).completion},
		{"subscriptions", (*cell).subscriptions},
		{"lists that change", (*cell).changes},
	} {
		t.Run(check.name, func(t *testing.T) { check.run(c, t) })
	}
}

// must returns the result of a request that has to succeed.
func (c *cell) must(t *testing.T, method string, params map[string]any) string {
	t.Helper()
	result, err := c.ask(within(t), method, params)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return string(result)
}

// text calls a tool and returns the text of its result.
func (c *cell) text(t *testing.T, tool string, arguments map[string]any) string {
	t.Helper()
	return decode(t, json.RawMessage(c.must(t, "tools/call", map[string]any{"name": tool, "arguments": arguments}))).text()
}

// await returns the first notification of the method that comes or has come since forget.
func (c *cell) await(t *testing.T, method string) mcptest.Notification {
	t.Helper()
	if i := slices.IndexFunc(c.seen, func(n mcptest.Notification) bool { return n.Method == method }); i >= 0 {
		n := c.seen[i]
		c.seen = slices.Delete(c.seen, i, i+1)
		return n
	}
	for deadline := time.After(time.Minute); ; {
		select {
		case n := <-c.notifications:
			if n.Method == method {
				return n
			}
			c.seen = append(c.seen, n)
		case <-deadline:
			t.Fatalf("%s did not come, only %v", method, c.seen)
		}
	}
}

// forget drops the received notifications.
func (c *cell) forget() {
	c.seen = nil
	for len(c.notifications) > 0 {
		<-c.notifications
	}
}

// none fails the test if a notification of the method has come since forget. It waits as long as an
// echo takes.
func (c *cell) none(t *testing.T, method string) {
	t.Helper()
	c.text(t, "echo", map[string]any{"message": "are you there?"})
	time.Sleep(50 * time.Millisecond) // the streams of HTTP are not in order
	for len(c.notifications) > 0 {
		c.seen = append(c.seen, <-c.notifications)
	}
	if i := slices.IndexFunc(c.seen, func(n mcptest.Notification) bool { return n.Method == method }); i >= 0 {
		t.Errorf("received %s %s", c.seen[i].Method, c.seen[i].Params)
	}
}

// traced returns the lines of the server's trace: those that it read and those that it added.
func (c *cell) traced(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(c.trace)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// awaitTrace waits for a line of the trace with this prefix.
func (c *cell) awaitTrace(t *testing.T, prefix string) string {
	t.Helper()
	var found string
	mcptest.WaitFor(t, fmt.Sprintf("a line %q… in the server's trace", prefix), func() bool {
		i := slices.IndexFunc(c.traced(t), func(line string) bool { return strings.HasPrefix(line, prefix) })
		if i >= 0 {
			found = c.traced(t)[i]
		}
		return i >= 0
	})
	return found
}
