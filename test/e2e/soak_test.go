//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/server"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

const (
	soakClients  = 20
	soakRequests = 10_000
)

// TestSoak has many clients do everything that clients do, well and badly, and
// then looks whether the router is as it was: the same open files, the same
// processes.
func TestSoak(t *testing.T) {
	layer.Full(t)
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("open files are counted in /proc")
	}
	s := prepare(t, soaked(), map[string]any{"listWait": "60s"})
	url, router := s.serveHTTP("--mode", "direct", "--debug") // else its files can't be counted
	names := learn(t, url)
	pid := router.Cmd.Process.Pid
	files, children := openFiles(t, pid), descendants(t, pid)

	soak(t, url, names, soakClients, soakRequests)

	mcptest.WaitFor(t, fmt.Sprintf("the router to have %d files and %d descendants again", files, children), func() bool {
		f, c := openFiles(t, pid), descendants(t, pid)
		if f > files || c > children {
			t.Logf("%d files, %d descendants", f, c)
			time.Sleep(500 * time.Millisecond)
			return false
		}
		return true
	})
	router.Cmd.Process.Signal(syscall.SIGTERM)
	if err := router.Close(); err != nil {
		t.Errorf("%v\n%s", err, router.Stderr())
	}
}

// TestSoakGoroutines does a part of it to a router in this process, whose
// goroutines can be counted: none is left when it has ended.
func TestSoakGoroutines(t *testing.T) {
	layer.Full(t)
	before := goleak.IgnoreCurrent()
	s := prepare(t, soaked(), map[string]any{"mode": "direct", "listWait": "60s"})
	c, err := config.Load(s.config)
	if err != nil {
		t.Fatal(err)
	}
	r := adapter.New(c, adapter.Options{DataDir: t.TempDir()})
	options := server.Options{Mode: c.Router.Mode, ListWait: c.Router.ListWait}
	servers := server.NewServers(server.Profiles{Open: func(server.View, []string) (server.Router, server.Options) { return r.Parts(), options }, Whole: r.Parts()})
	ctx, cancel := context.WithCancel(t.Context())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.Run(ctx, nil) })
	g.Go(func() error { return servers.Run(ctx) })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	handler := servers.Handler(server.HTTPOptions{Bound: listener.Addr().String()})
	h := httptest.Server{Listener: listener, Config: &http.Server{Handler: handler}}
	h.Start()
	url := h.URL + "/mcp"

	names := learn(t, url)
	soak(t, url, names, soakClients, soakRequests/5)

	handler.Close(within(t))
	h.Close()
	cancel()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
	leak := goleak.Find(before)
	for until := time.Now().Add(3 * time.Minute); leak != nil && time.Now().Before(until); { // on a busy machine they end late
		leak = goleak.Find(before)
	}
	if leak != nil {
		t.Error(leak)
	}
}

// soaked are the servers of a soak.
func soaked() entries {
	servers := entries{}
	for _, name := range []string{"a", "b", "c"} {
		servers[name] = fake("-tools", "echo,sleep,progress", "-prompts", "p_"+name, "-resources", "fake://"+name+"/r", "-era", "both")
	}
	return servers
}

// offer is what the clients use.
type offer struct{ echoes, sleeps, progresses, prompts, uris []string }

// learn asks what there is, and uses it once, so that what is made at the first
// use is there already.
func learn(t *testing.T, url string) offer {
	t.Helper()
	var o offer
	for _, era := range []string{"legacy", "modern"} {
		c := mcptest.NewHTTPClient(t, url)
		open(t, c, nil, era, `{}`, nil)
		o = offer{}
		for _, name := range listed(t, c, "tools/list", "tools", "name") {
			switch {
			case strings.HasSuffix(name, "echo"):
				o.echoes = append(o.echoes, name)
			case strings.HasSuffix(name, "sleep"):
				o.sleeps = append(o.sleeps, name)
			case strings.HasSuffix(name, "progress"):
				o.progresses = append(o.progresses, name)
			}
		}
		o.prompts = listed(t, c, "prompts/list", "prompts", "name")
		o.uris = listed(t, c, "resources/list", "resources", "uri")
		w := &soaker{t: t, url: url, offer: o, modern: era == "modern", client: c, random: rand.New(rand.NewPCG(1, 2))}
		for _, echo := range o.echoes { // each server, in this era
			if _, err := c.Call(within(t), echo, json.RawMessage(`{"message":"a"}`)); err != nil {
				t.Fatal(err)
			}
		}
		for _, use := range []func(context.Context) error{w.list, w.echo, w.read, w.prompt, w.withProgress} {
			if err := use(within(t)); err != nil {
				t.Fatal(err)
			}
		}
		if era == "legacy" {
			if err := c.Delete(within(t)); err != nil {
				t.Fatal(err)
			}
		}
		c.Close()
	}
	return o
}

func listed(t *testing.T, c mcptest.Requester, method, kind, key string) []string {
	t.Helper()
	items, err := mcptest.List(within(t), c, method, kind)
	if err != nil || len(items) == 0 {
		t.Fatalf("%s: %s, %v", method, items, err)
	}
	var names []string
	for _, item := range items {
		names = append(names, member(t, item, key))
	}
	return names
}

// soak makes the requests, and leaves no session behind.
func soak(t *testing.T, url string, o offer, clients, requests int) {
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			w := &soaker{t: t, url: url, offer: o, modern: i%2 == 1, random: rand.New(rand.NewPCG(1, uint64(i)))}
			w.run(requests / clients)
		})
	}
	group.Wait()
}

// soaker is one client after another.
type soaker struct {
	offer
	t         *testing.T
	url       string
	modern    bool
	random    *rand.Rand
	client    *mcptest.HTTPClient
	abandoned []*mcptest.HTTPClient
}

func (w *soaker) run(requests int) {
	uses := []func(context.Context) error{
		w.list, w.echo, w.echo, w.echo, w.read, w.prompt, w.withProgress,
		w.cancelled, w.dropped, w.listening,
	}
	for range requests {
		if w.client == nil && !w.begin() {
			return
		}
		if err := uses[w.random.IntN(len(uses))](w.t.Context()); err != nil {
			w.t.Errorf("modern %v: %v", w.modern, err)
			return
		}
		switch w.random.IntN(50) {
		case 0:
			w.end(w.client)
			w.client = nil
		case 1: // the client is gone, and its session is not
			w.client.Close()
			w.abandoned = append(w.abandoned, w.client)
			w.client = nil
		}
	}
	for _, c := range append(w.abandoned, w.client) {
		if c != nil {
			w.end(c)
		}
	}
}

func (w *soaker) begin() bool {
	w.client = mcptest.NewHTTPClient(w.t, w.url)
	begin := w.client.Initialize
	if w.modern {
		begin = w.client.Discover
	}
	_, err := begin(w.t.Context())
	if err != nil {
		w.t.Errorf("begin a session: %v", err)
	}
	return err == nil
}

func (w *soaker) end(c *mcptest.HTTPClient) {
	if !w.modern {
		if err := c.Delete(w.t.Context()); err != nil {
			w.t.Errorf("delete a session: %v", err)
		}
	}
	c.Close()
}

func (w *soaker) one(of []string) string { return of[w.random.IntN(len(of))] }

func (w *soaker) list(ctx context.Context) error {
	kind := w.one([]string{"tools", "prompts", "resources"})
	_, err := mcptest.List(ctx, w.client, kind+"/list", kind)
	return err
}

func (w *soaker) echo(ctx context.Context) error {
	want := fmt.Sprintf(`{"message":"%d"}`, w.random.Int())
	result, err := w.client.Call(ctx, w.one(w.echoes), json.RawMessage(want))
	if quoted, _ := json.Marshal(want); err == nil && !strings.Contains(string(result), string(quoted)) {
		return fmt.Errorf("echo of %s: %s", want, result)
	}
	return err
}

func (w *soaker) read(ctx context.Context) error {
	_, err := w.client.Request(ctx, "resources/read", map[string]string{"uri": w.one(w.uris)})
	return err
}

func (w *soaker) prompt(ctx context.Context) error {
	_, err := w.client.Request(ctx, "prompts/get", map[string]string{"name": w.one(w.prompts)})
	return err
}

func (w *soaker) withProgress(ctx context.Context) error {
	x, err := w.client.Exchange(ctx, "tools/call", map[string]any{
		"name": w.one(w.progresses), "arguments": map[string]any{"n": 5}, "_meta": map[string]any{"progressToken": 1},
	})
	if err == nil && len(x.Before) < 5 {
		return fmt.Errorf("%d notifications before the result of progress, want 5", len(x.Before))
	}
	return err
}

// cancelled gives up a call as the protocol has it.
func (w *soaker) cancelled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(w.random.IntN(20))*time.Millisecond)
	defer cancel()
	_, err := w.client.Call(ctx, w.one(w.sleeps), json.RawMessage(`{"ms":30000}`))
	if !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("a call that was given up: %v", err)
	}
	return nil
}

// dropped closes the connection in the middle of a call and says nothing.
func (w *soaker) dropped(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(1+w.random.IntN(20))*time.Millisecond)
	defer cancel()
	params := fmt.Sprintf(`{"name":%q,"arguments":{"ms":100}}`, w.one(w.sleeps))
	if w.modern {
		params = strings.TrimSuffix(params, "}") + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}`
	}
	resp, err := w.client.Do(ctx, http.MethodPost, mcptest.StandardHeaders("tools/call", json.RawMessage(params)),
		`{"jsonrpc":"2.0","id":"dropped","method":"tools/call","params":`+params+`}`)
	if err == nil {
		<-ctx.Done()
		resp.Body.Close()
	}
	return nil
}

// listening opens a stream for what belongs to no request, and drops it.
func (w *soaker) listening(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(1+w.random.IntN(20))*time.Millisecond)
	defer cancel()
	if w.modern {
		_, err := w.client.Request(ctx, "subscriptions/listen", map[string]any{"notifications": map[string]any{"toolsListChanged": true}})
		if !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("a subscription ended by itself: %v", err)
		}
		return nil
	}
	ended, err := w.client.Open(ctx)
	if err == nil {
		<-ended
	} else if ctx.Err() == nil {
		return fmt.Errorf("open the GET stream: %w", err)
	}
	return nil
}

func openFiles(t *testing.T, pid int) int {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// descendants counts the processes below one.
func descendants(t *testing.T, pid int) int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	children := map[int][]int{}
	for _, file := range stats {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended since
		}
		var id, parent int
		var state string
		fmt.Sscan(string(b), &id)
		fmt.Sscan(string(b[strings.LastIndexByte(string(b), ')')+1:]), &state, &parent)
		children[parent] = append(children[parent], id)
	}
	var count func(pid int) int
	count = func(pid int) int {
		n := len(children[pid])
		for _, child := range children[pid] {
			n += count(child)
		}
		return n
	}
	return count(pid)
}
