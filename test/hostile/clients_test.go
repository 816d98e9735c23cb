//go:build linux

package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A guest is a hostile client. Its attack runs while an honest client calls.
type guest struct {
	own    map[string]any // the router's own keys
	attack func(*visit)
}

// A visit is a run of one hostile client. It ends with its context.
type visit struct {
	*router
	ctx context.Context
	all bool // a long run, with the full number of everything
}

const (
	token      = "the-honest-token-0123456789"
	otherToken = "another-known-token-0123456789"
)

var withTokens = map[string]any{"http": map[string]any{"tokens": []string{token, otherToken}}}

func TestClients(t *testing.T) {
	t.Parallel()
	all := map[string]guest{}
	for _, some := range []map[string]guest{connections, messages, strangers} {
		maps.Copy(all, some)
	}
	for name, g := range all {
		t.Run("HTTP "+name, func(t *testing.T) {
			t.Parallel()
			r := start(t, own(g.own))
			if g.own["http"] != nil {
				r.token = token
			}
			visitWith(r, r.honestLoad(), g.attack)
		})
	}
	for name, attack := range lines {
		t.Run("stdio "+name, func(t *testing.T) {
			t.Parallel()
			r := startShared(t)
			visitWith(r, &honest{t: t, call: r.process.Call, pause: 5 * time.Millisecond}, attack)
		})
	}
}

// own returns the router's own keys: all tools are listed unless they say otherwise.
func own(keys map[string]any) map[string]any {
	all := map[string]any{"mode": "direct"}
	maps.Copy(all, keys)
	return all
}

func visitWith(r *router, load *honest, attack func(*visit)) {
	load.begin()
	before := r.settle()
	d := lasts(r.t, 300*time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	attacked, over := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { load.work(attacked) })
	all.Go(func() {
		defer over()
		attack(&visit{router: r, ctx: ctx, all: d > 2*time.Second})
	})
	all.Wait()
	r.compare(before)
	load.one("after the attack")
	r.end()
}

// repeat calls f from several goroutines until the attack is over, at least once each.
func (v *visit) repeat(workers int, f func(i int)) {
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := w; ; i += workers {
				f(i)
				if v.ctx.Err() != nil || v.t.Failed() {
					return
				}
			}
		})
	}
	all.Wait()
}

// rest waits for the end of the attack.
func (v *visit) rest() { <-v.ctx.Done() }

// A reply is an answer of the router.
type reply struct {
	status int
	header http.Header
	body   string
}

// request sends a request by a connection of its own.
func (v *visit) request(method, path string, header map[string]string, body io.Reader) reply {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+v.address+path, body)
	if err != nil {
		v.t.Error(err)
		return reply{}
	}
	r.Close = true
	r.Header.Set("Content-Type", "application/json")
	if v.token != "" {
		r.Header.Set("Authorization", "Bearer "+v.token)
	}
	for k, value := range header {
		if k == "Host" {
			r.Host = value
		} else {
			r.Header.Set(k, value)
		}
	}
	resp, err := unfollowing.Do(r)
	if err != nil {
		// The router may close the connection of a request that it does not read.
		return reply{body: err.Error()}
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	return reply{resp.StatusCode, resp.Header, string(b)}
}

// unfollowing follows no redirect.
var unfollowing = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// post sends plain JSON-RPC.
func (v *visit) post(body string) reply {
	return v.request("POST", "/mcp", nil, strings.NewReader(body))
}

// refused checks that the status is one of these.
func (v *visit) refused(r reply, statuses ...int) {
	v.t.Helper()
	if !slices.Contains(statuses, r.status) {
		v.t.Errorf("the status is %d, want one of %v: %.300q", r.status, statuses, r.body)
	}
}

// connect opens a connection, which ends with the attack at the latest.
func (v *visit) connect() net.Conn {
	c, err := net.Dial("tcp", v.address)
	if err != nil {
		v.t.Errorf("connect: %v", err)
		return nil
	}
	context.AfterFunc(v.ctx, func() { c.SetDeadline(time.Now()) })
	return c
}

// raw sends bytes by a connection, and returns all that the router answers until it closes the
// connection or is silent for a while.
func (v *visit) raw(send string) string {
	c, err := net.Dial("tcp", v.address)
	if err != nil {
		v.t.Errorf("connect: %v", err)
		return ""
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(deadline))
	go io.WriteString(c, send)
	var got bytes.Buffer
	for b := make([]byte, 64<<10); got.Len() < 1<<20; {
		n, err := c.Read(b)
		got.Write(b[:n])
		if err != nil {
			break
		}
		c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	}
	return got.String()
}

// statuses returns the status lines of raw answers.
func statuses(answer string) (codes []string) {
	for line := range strings.Lines(answer) {
		if rest, ok := strings.CutPrefix(line, "HTTP/1.1 "); ok {
			codes = append(codes, rest[:3])
		}
	}
	return codes
}

// number returns a number of things, a tenth in a short run.
func (v *visit) number(n int) int {
	if v.all {
		return n
	}
	return n / 10
}

// startShared starts the router that clients over stdio share, and an honest client, which
// ends it.
func startShared(t *testing.T) *router {
	t.Helper()
	r := prepare(t, map[string]any{"mode": "direct"})
	r.process = r.join(nil)
	_, err := r.process.Initialize(within(t, patience))
	expect.OK(t, err, "initialize: %s", r.log())
	r.host = r.sharedHost()
	r.watch()
	return r
}

// join starts a client's serve.
func (r *router) join(env []string) *mcptest.Client {
	return mcptest.Start(r.t, r.binary, []string{"serve", "--config", r.config, "--data", r.data()}, r.dir, env)
}

// sharedHost returns the process id of the router that clients share: the only one that is
// neither a guard nor a client's.
func (r *router) sharedHost() (host int) {
	mcptest.WaitFor(r.t, "the shared router", func() bool {
		for _, p := range r.ours() {
			if p.pid != r.process.Cmd.Process.Pid && !slices.Contains(p.args, "guard") {
				host = p.pid
			}
		}
		return host != 0
	})
	return host
}

// stdio returns a hostile client of the shared router. It has not initialized.
func (v *visit) stdio() *mcptest.Client { return v.join(nil) }

// shake initializes a client and forgets it if that fails.
func (v *visit) shake() *mcptest.Client {
	c := v.stdio()
	if _, err := c.Initialize(within(v.t, patience)); err != nil {
		v.t.Errorf("initialize: %v\n%s", err, c.Stderr())
	}
	return c
}

// still checks that a hostile client is served after its attack, when its requests are done.
func (v *visit) still(c *mcptest.Client) {
	v.t.Helper()
	var err error
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		_, err = c.Request(within(v.t, deadline), "ping", json.RawMessage(`{}`))
		if busy, ok := errors.AsType[*mcptest.Error](err); !ok || !strings.HasPrefix(busy.Message, "busy") {
			break
		}
	}
	if err != nil {
		v.t.Errorf("ping after the attack: %v\n%s", err, c.Stderr())
	}
}

// rpc returns a request.
func rpc(id any, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":%q,"params":%s}`, id, method, params)
}
