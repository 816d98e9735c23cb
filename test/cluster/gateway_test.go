//go:build linux

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// A balancer is a load balancer before gateways, one after the other and without affinity. A request that a gateway
// did not accept goes to the next one.
type balancer struct {
	hosts []string
	next  atomic.Int64
	stays atomic.Bool // all requests go to one gateway while it is there
}

// RoundTrip implements [http.RoundTripper].
func (b *balancer) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if !b.stays.Load() {
		b.next.Add(1)
	}
	for range b.hosts {
		at := b.next.Load()
		again := r.Clone(r.Context())
		again.URL.Host, again.Body = b.hosts[at%int64(len(b.hosts))], io.NopCloser(bytes.NewReader(body))
		resp, err = http.DefaultTransport.RoundTrip(again)
		if failed, ok := errors.AsType[*net.OpError](err); !ok || failed.Op != "dial" {
			return resp, err
		}
		b.next.CompareAndSwap(at, at+1)
	}
	return resp, err
}

// balanced starts three gateways in a cluster, and a balancer before them. The server bank, which asks, is an entry of
// each, and far is on another node.
func balanced(t *testing.T) (b *balancer, gateways []*node, url string) {
	t.Helper()
	hub := natsserver.Start(t)
	b = new(balancer)
	flags := []string{"-tools", "ask,echo", "-era", "legacy"}
	bank, _ := mcptest.Remote(t, "http", flags...)
	for _, name := range []string{"a", "b", "c"} {
		n := newNode(t, name, []string{hub.URL()}, entries{"bank": {"url": bank, "questionsPerMinute": 100000}})
		gateways, b.hosts = append(gateways, n), append(b.hosts, n.address)
	}
	d := newNode(t, "d", []string{hub.URL()}, entries{"far": fake(flags...)})
	d.cluster["share"] = []string{"*"}
	trustEachOther(append(gateways, d)...)
	d.start()
	for _, n := range gateways {
		n.start()
	}
	for _, n := range gateways {
		mcptest.WaitFor(t, "node "+n.name+" to see the others", func() bool {
			return strings.Count(n.run("nodes", "--json"), `"key":`) == len(gateways)+1
		})
		n.lists("bank__ask", "far-at-d__ask")
	}
	s := httptest.NewServer(proxyTo(b))
	t.Cleanup(s.Close)
	return b, gateways, s.URL + "/mcp"
}

func proxyTo(b *balancer) http.Handler {
	target := &url.URL{Scheme: "http", Host: "gateways"}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: b, FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
}

// asked begins a call of a tool that asks twice, and returns the parameters that answer the last question with a name.
func asked(ctx context.Context, c *mcptest.HTTPClient, server, name string) (params map[string]any, err error) {
	params = map[string]any{"name": server + "__ask", "arguments": map[string]any{"method": "elicitation/create", "rounds": 2}}
	for range 2 { // the first question is answered here
		raw, err := c.Request(ctx, "tools/call", params)
		if err != nil {
			return nil, err
		}
		var begun struct {
			RequestState  string
			InputRequests map[string]any
		}
		if json.Unmarshal(raw, &begun) != nil || begun.RequestState == "" || len(begun.InputRequests) != 1 {
			return nil, fmt.Errorf("no question but %s", raw)
		}
		for key := range begun.InputRequests {
			begun.InputRequests[key] = map[string]any{"action": "accept", "content": map[string]any{"name": name}}
		}
		params["requestState"], params["inputResponses"] = begun.RequestState, begun.InputRequests
	}
	return params, nil
}

// answered sends the answer to a question.
func answered(ctx context.Context, c *mcptest.HTTPClient, params map[string]any, name string) error {
	raw, err := c.Request(ctx, "tools/call", params)
	if err != nil {
		return err
	}
	if string(wire.Member(raw, "resultType")) != `"complete"` || !strings.Contains(string(raw), name) {
		return fmt.Errorf("no result but %s", raw)
	}
	return nil
}

func modernClient(t testing.TB, url string) *mcptest.HTTPClient {
	t.Helper()
	c := mcptest.NewHTTPClient(t, url)
	c.Declare(`{"elicitation":{"form":{}}}`)
	_, err := c.Discover(within(t))
	expect.OK(t, err)
	return c
}

// Gateways behind one URL: a question is answered through another gateway than the one that asked it. An answer counts
// once, for the same call, and from a trusted node only. A legacy client whose gateway was killed begins again at
// another one.
func TestGateways(t *testing.T) {
	t.Parallel()
	b, gateways, url := balanced(t)
	client := modernClient(t, url)
	for i := range 6 {
		name, server := fmt.Sprint("Ann-", i), []string{"bank", "far-at-d"}[i%2]
		params, err := asked(within(t), client, server, name)
		expect.OK(t, err)
		other := map[string]any{"name": server + "__echo", "arguments": map[string]any{}, "requestState": params["requestState"], "inputResponses": params["inputResponses"]}
		if err := answered(within(t), client, other, name); !isInvalid(err, "not valid for this request") {
			t.Errorf("the state of another call: %v", err)
		}
		expect.OK(t, answered(within(t), client, params, name), "the answer")
		if err := answered(within(t), client, params, name); !isInvalid(err, "not valid for this request") {
			t.Errorf("the answer again: %v", err)
		}
	}

	b.stays.Store(true)
	legacy := mcptest.NewHTTPClient(t, url)
	echoes := func() error {
		_, err := legacy.Call(within(t), "bank__echo", map[string]any{"text": "hello"})
		return err
	}
	begin := func() {
		t.Helper()
		_, err := legacy.Initialize(within(t))
		expect.OK(t, err)
		expect.OK(t, echoes())
	}
	begin()
	gateways[b.next.Load()%3].kill()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections() // one to the killed gateway would still be used
	if failed, ok := errors.AsType[*mcptest.StatusError](echoes()); !ok || failed.Status != http.StatusNotFound {
		t.Errorf("another gateway answered a session that it does not know: %v", failed)
	}
	legacy = mcptest.NewHTTPClient(t, url)
	begin()

	// A node that is trusted no more.
	from, to := gateways[b.next.Load()%3], gateways[(b.next.Load()+1)%3]
	if to.process.Cmd.ProcessState != nil {
		to = gateways[(b.next.Load()+2)%3]
	}
	params, err := asked(within(t), from.asking(), "bank", "Ann")
	expect.OK(t, err)
	from.cluster["trusted"] = []string{}
	from.write()
	client = to.asking()
	mcptest.WaitFor(t, "the end of the trust", func() bool {
		return isInvalid(answered(within(t), client, params, "Ann"), "can't be reached")
	})
}

// asking returns a modern client of the node that answers questions.
func (n *node) asking() *mcptest.HTTPClient { return modernClient(n.t, "http://"+n.address+"/mcp") }

// isInvalid reports whether a request was refused with the text.
func isInvalid(err error, text string) bool {
	e, ok := errors.AsType[*mcptest.Error](err)
	return ok && e.Code == -32602 && strings.Contains(e.Message, text)
}

// A gateway is killed under load. Only requests that it had, and calls that it had suspended, fail, and say so.
func TestGatewayKilled(t *testing.T) {
	t.Parallel()
	_, gateways, url := balanced(t)
	const clients, calls = 8, 30
	var done, lost, cut atomic.Int64
	var running sync.WaitGroup
	for i := range clients {
		client := modernClient(t, url)
		running.Go(func() {
			for j := range calls {
				name := fmt.Sprintf("Ann-%d-%d", i, j)
				params, err := asked(within(t), client, "bank", name)
				if err == nil {
					err = answered(within(t), client, params, name)
				}
				status, isCut := errors.AsType[*mcptest.StatusError](err)
				e, isError := errors.AsType[*mcptest.Error](err)
				switch {
				case err == nil:
				case isInvalid(err, "can't be reached"), isError && strings.Contains(e.Message, "was lost before it answered"):
					lost.Add(1)
				case isCut && status.Status == http.StatusBadGateway, errors.Is(err, io.ErrUnexpectedEOF):
					cut.Add(1)
				default:
					t.Errorf("%s: %v", name, err)
				}
				if done.Add(1) == clients*calls/3 {
					gateways[2].kill()
				}
			}
		})
	}
	running.Wait()
	if lost.Load()+cut.Load() > 2*clients {
		t.Errorf("%d calls were lost and %d requests cut", lost.Load(), cut.Load())
	}
}
