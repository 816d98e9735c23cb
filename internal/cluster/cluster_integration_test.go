package cluster_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/nats-io/nkeys"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/cluster"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A router is a node with a fake host and a fake handler.
type router struct {
	*cluster.Node
	key     string
	keyFile string
	configs chan config.Cluster
	stop    func() // ends it gracefully

	mu      sync.Mutex
	offers  map[string]clusternode.Offer
	changed chan struct{}
	learned map[string][]string // names of tools by server
	entries map[string]config.Server
	calls   int // that were served
	running int
	finish  chan struct{} // ends calls that wait

	patience  time.Duration // how long until waits; at least a minute
	onlyCount bool          // the names of learned tools are not kept
	counts    map[string]int
}

// known returns how many servers, and how many of their tools, the router has learned.
func (r *router) known() (servers, tools int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for server := range r.learned {
		tools += r.counts[server]
	}
	return len(r.learned), tools
}

// newKey makes a key file.
func newKey(t testing.TB) (file, public string) {
	pair, err := nkeys.CreateUser()
	expect.OK(t, err)
	seed, _ := pair.Seed()
	public, _ = pair.PublicKey()
	file = filepath.Join(t.TempDir(), "node.nk")
	expect.OK(t, os.WriteFile(file, seed, 0o600))
	return file, public
}

// newRouter returns a router that does not run.
func newRouter(t testing.TB, log *zap.Logger, file, key string) *router {
	r := &router{
		key: key, keyFile: file, configs: make(chan config.Cluster),
		offers: map[string]clusternode.Offer{}, changed: make(chan struct{}), learned: map[string][]string{}, entries: map[string]config.Server{}, counts: map[string]int{},
		finish: make(chan struct{}),
	}
	r.Node = cluster.New(cluster.Options{
		KeyFile: file, Version: "1.2.3", Host: r, Handler: r, Log: log,
	})
	return r
}

// twoRouters returns two routers with keys of their own, which are called ann and box in logs.
func twoRouters(t testing.TB) (ann, box *router) {
	fileA, keyA := newKey(t)
	fileB, keyB := newKey(t)
	log := zaptest.NewLogger(t)
	return newRouter(t, log.Named("ann"), fileA, keyA), newRouter(t, log.Named("box"), fileB, keyB)
}

// run runs a router with a configuration until stop, or the end of the test.
func (r *router) run(t testing.TB, c config.Cluster) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { r.Run(ctx, r.configs); close(done) }()
	r.stop = func() { cancel(); <-done }
	t.Cleanup(r.stop)
	r.configs <- c
}

// offer replaces the servers of the router.
func (r *router) offer(tools int, servers ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offers = map[string]clusternode.Offer{}
	for _, name := range servers {
		o := clusternode.Offer{
			Info:  session.Info{Name: name, Version: "1", ProtocolVersion: session.LatestLegacy, Capabilities: json.RawMessage(`{"tools":{}}`)},
			Terms: clusternode.Terms{Timeout: time.Minute, MaxConcurrent: 8, Validate: "on", Retry: "hints"},
		}
		for i := range tools {
			o.Tools = append(o.Tools, json.RawMessage(fmt.Sprintf(`{"name":"%s_%d","description":"Does what number %d of %s is for.","inputSchema":{"type":"object"}}`, name, i, i, name)))
		}
		r.offers[name] = o
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *router) Offers() (map[string]clusternode.Offer, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.offers, r.changed
}

func (r *router) State(server string) (status.State, int, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return status.Ready, r.running, 0
}

// Serve answers each line with the names of the server and the other node, and the line. The line
// "wait" is answered when the channel of the router is closed.
func (r *router) Serve(ctx context.Context, s clusternode.Stream) {
	defer context.AfterFunc(ctx, func() { s.Close() })()
	lines := bufio.NewScanner(s)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		r.mu.Lock()
		r.running++
		r.calls++
		r.mu.Unlock()
		if lines.Text() == "wait" {
			select {
			case <-r.finish:
			case <-ctx.Done():
			}
		}
		_, err := fmt.Fprintf(s, "%s for %s: %s\n", s.Server, s.Node, lines.Text())
		r.mu.Lock()
		r.running--
		r.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (r *router) Learn(ctx context.Context, entry config.Server, s session.Session) error {
	result, err := s.Call(ctx, session.Request{Method: "tools/list"})
	if err != nil {
		return err
	}
	var list struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(result, &list); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	r.counts[entry.Name], r.entries[entry.Name] = len(names), entry
	if r.onlyCount {
		names = nil
	}
	r.learned[entry.Name] = names
	return nil
}

func (r *router) Forget(server string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.learned, server)
}

// tools returns the tools that the router has learned, as "server: tools", sorted.
func (r *router) tools() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for server, names := range r.learned {
		all = append(all, fmt.Sprintf("%s: %s", server, strings.Join(names, " ")))
	}
	slices.Sort(all)
	return all
}

// until waits for a change after which done reports true.
func (r *router) until(t testing.TB, what string, done func() bool) {
	t.Helper()
	limit := time.After(cmp.Or(r.patience, time.Minute))
	for {
		changed := r.Changed()
		if done() {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Errorf("no %s: tools %.1000q, nodes %+v, %+v", what, r.tools(), r.Nodes(), r.Report())
			return
		}
	}
}

// has waits until the router has learned exactly this.
func (r *router) has(t testing.TB, want ...string) {
	t.Helper()
	r.until(t, fmt.Sprintf("%q", want), func() bool { return slices.Equal(r.tools(), want) })
}

func configOf(s *natsserver.Server, node string, trusted ...string) config.Cluster {
	return config.Cluster{
		URLs: []string{s.URL()}, Name: "metarouter", Node: node, Share: []string{"*"}, Use: []string{"*"}, Trusted: trusted,
	}
}

// Without NATS, a node says so, and does not wait until the caller's time is over.
func TestSettledWithoutNATS(t *testing.T) {
	layer.Integration(t)
	file, key := newKey(t)
	ann := newRouter(t, zaptest.NewLogger(t), file, key)
	ann.run(t, config.Cluster{URLs: []string{"nats://" + mcptest.FreeAddress(t)}, Name: "metarouter", Node: "ann", Use: []string{"*"}})
	expect.Error(t, ann.Settled(t.Context()), "there is no connection to NATS: ", "it says")
}

func TestTwoNodes(t *testing.T) {
	layer.Integration(t)
	s := natsserver.Start(t)
	ann, box := twoRouters(t)
	box.offer(2, "gpu", "secret")
	c := configOf(s, "box", ann.key)
	c.Share = []string{"gpu", "disk"}
	ann.run(t, configOf(s, "ann", box.key))
	box.run(t, c)
	ann.has(t, "gpu@box: gpu_0 gpu_1")
	expect.OK(t, ann.Settled(t.Context()))
	if s := ann.Status(); len(s) != 1 || s[0].Name != "gpu@box" || s[0].State != status.Ready || s[0].Transport != "cluster" || s[0].Era != "legacy" {
		t.Errorf("%+v", s)
	}
	if terms, ok := ann.Terms("gpu@box"); !ok || terms.MaxConcurrent != 8 || terms.Timeout != time.Minute {
		t.Errorf("%+v, %v", terms, ok)
	}
	if terms, ok := ann.Terms("secret@box"); ok {
		t.Errorf("a server that is not shared has %+v", terms)
	}

	box.offer(1, "gpu", "disk") // the offers change
	ann.has(t, "disk@box: disk_0", "gpu@box: gpu_0")

	use := configOf(s, "ann", box.key) // so do the servers in use
	use.Use = []string{"*@elsewhere", "disk@box"}
	ann.configs <- use
	ann.has(t, "disk@box: disk_0")

	use.Trusted = nil // and who is trusted
	ann.configs <- use
	ann.has(t)
	ann.until(t, "untrusted node", func() bool {
		return slices.ContainsFunc(ann.Nodes(), func(n clusternode.Info) bool { return n.Key == box.key && !n.Trusted && len(n.Servers) == 0 })
	})
	ann.configs <- configOf(s, "ann", box.key)
	ann.has(t, "disk@box: disk_0", "gpu@box: gpu_0")

	c.Share = nil // nothing is shared any more
	box.configs <- c
	ann.has(t)
	c.Share, c.Node = []string{"*"}, "tower" // a node gets another name, for which it joins again
	box.configs <- c
	ann.has(t, "disk@tower: disk_0", "gpu@tower: gpu_0")

	box.stop() // and goes
	ann.has(t)
	if _, err := ann.Dial(t.Context(), "gpu@tower"); !errors.Is(err, session.ErrNotSent) {
		t.Error(err)
	}
}
