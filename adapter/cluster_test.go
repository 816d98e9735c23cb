package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A pairNode is the node of a router that uses the servers of one other router, over pipes. The zero value uses nothing.
type pairNode struct {
	*farNode // that it dials
	name     string
	other    *clusterHost // nil without one
	handler  *services
	running  chan struct{} // closed while it runs
	streams  atomic.Int32  // that were dialled to a host

	mu      sync.Mutex // guards the fields below
	known   map[string]clusternode.Offer
	changed chan struct{}
}

func (n *pairNode) Run(ctx context.Context, configs <-chan config.Cluster) error {
	<-configs
	close(n.running)
	<-ctx.Done()
	return nil
}

// learn has the router learn the offers of the other one.
func (n *pairNode) learn(t *testing.T) {
	t.Helper()
	offers, _ := n.other.Offers()
	n.mu.Lock()
	before := n.known
	n.known = make(map[string]clusternode.Offer)
	for server, o := range offers {
		n.known[server+"@box"] = o
	}
	n.mu.Unlock()
	for name := range before {
		if !n.has(name) {
			n.handler.Forget(name)
		}
	}
	for name, o := range n.known {
		expect.OK(t, n.handler.Learn(t.Context(), config.Server{Name: name}, &pairSession{offer: o}))
	}
}

// lose has the router lose the other one.
func (n *pairNode) lose() {
	n.mu.Lock()
	before := n.known
	n.known = nil
	n.mu.Unlock()
	for name := range before {
		n.handler.Forget(name)
	}
}

func (n *pairNode) has(server string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, ok := n.known[server]
	return ok
}

func (n *pairNode) State(server string) status.State {
	if n.has(server) {
		return status.Ready
	}
	return ""
}

func (n *pairNode) Terms(server string) (clusternode.Terms, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	o, ok := n.known[server]
	return o.Terms, ok
}

func (n *pairNode) Status() (all []status.Status) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name := range n.known {
		all = append(all, status.Status{Name: name, State: status.Ready})
	}
	return all
}

func (n *pairNode) Changed() <-chan struct{}                     { return n.changed }
func (n *pairNode) Name() string                                 { return n.name }
func (n *pairNode) Nodes() []clusternode.Info                    { return []clusternode.Info{{Node: n.name, Self: true}} }
func (n *pairNode) Report() clusternode.Report                   { return clusternode.Report{} }
func (n *pairNode) Settled(ctx context.Context) error            { return nil }
func (n *pairNode) Load(string) (calls, limit int, heard uint64) { return 0, 0, 0 }

// A slowNode is a node that takes a while to know the servers of the others.
type slowNode struct {
	pairNode
	takes time.Duration
}

func (n *slowNode) Settled(ctx context.Context) error {
	select {
	case <-time.After(n.takes):
		return nil
	case <-ctx.Done():
		return errors.New("not known yet")
	}
}

// A router waits for a slow node, and no longer than some seconds after it has joined.
func TestAwaitNodes(t *testing.T) {
	for takes, known := range map[time.Duration]bool{0: true, 5 * time.Second: true, time.Hour: false} {
		synctest.Test(t, func(t *testing.T) {
			r := &Router{options: Options{onNode: func(*Router, *services) clusterNode { return &slowNode{takes: takes} }}}
			r.members = &membership{router: r}
			f := administration{r}
			expect.OK(t, f.AwaitNodes(t.Context()), "in no cluster")
			r.members.join()
			began := time.Now()
			if err := f.AwaitNodes(t.Context()); (err == nil) != known || time.Since(began) > clusterWait {
				t.Errorf("a node that takes %s: %v after %s", takes, err, time.Since(began))
			}
		})
	}
}

// A pairSession lists an offer.
type pairSession struct {
	session.Session
	offer clusternode.Offer
}

func (s *pairSession) Info() session.Info    { return s.offer.Info }
func (s *pairSession) Done() <-chan struct{} { return nil }

func (s *pairSession) Call(ctx context.Context, r session.Request) (json.RawMessage, error) {
	lists := map[string][]json.RawMessage{"tools": s.offer.Tools, "prompts": s.offer.Prompts, "resources": s.offer.Resources, "resourceTemplates": s.offer.Templates}
	switch r.Method {
	case "tools/list", "prompts/list", "resources/list":
		kind := strings.TrimSuffix(r.Method, "/list")
		return wire.Marshal(map[string]any{kind: append([]json.RawMessage{}, lists[kind]...)}), nil
	case "resources/templates/list":
		return wire.Marshal(map[string]any{"resourceTemplates": append([]json.RawMessage{}, s.offer.Templates...)}), nil
	}
	return nil, session.ErrNotSent
}

// Dial opens a stream: to the host of the other router, if that serves nodes.
func (n *pairNode) Dial(ctx context.Context, server string) (clusternode.Stream, error) {
	if n.handle != nil {
		return n.farNode.Dial(ctx, server)
	}
	here, there := net.Pipe()
	name, _, _ := strings.Cut(server, "@")
	n.streams.Add(1)
	go n.other.Serve(context.Background(), clusternode.Stream{ // it ends with the pipe
		Conn: there, Server: name, Key: n.Key(), Node: n.name, Lapsed: func() bool { return false }, Local: func(t time.Time) time.Time { return t },
	})
	return clusternode.Stream{Conn: here, Server: name, Key: n.Key(), Node: "box"}, nil
}

// use has the router use the servers of the other one, over pipes.
func (n *pairNode) use(other *Router, its *pairNode) {
	n.other, n.farNode = newClusterHost(other), its.farNode
	n.handle = func(r farRequest) (json.RawMessage, error) {
		v := &NodeView{nodeStream{n.other, clusternode.Stream{Server: r.server, Key: n.Key(), Node: n.name, Lapsed: func() bool { return false }, Local: func(t time.Time) time.Time { return t }}}}
		admitted, err := v.Admit(r.Method, wire.DeleteMember(r.Params, "_meta"), r.meta)
		if err != nil {
			return nil, err
		}
		result, err := admitted.Do(context.Background(), session.Request{From: new(sink)})
		if err != nil {
			return nil, err
		}
		return admitted.Answer(result), nil
	}
}

// pair runs two routers: box, which has the servers of the entries, and laptop, which uses those that
// the configuration of box shares.
func pair(t *testing.T, box, laptop config.Config) (r *Router, node *pairNode, boxes *Router, edits chan<- config.Config) {
	t.Helper()
	return pairServed(t, func(string, *Options) {}, box, laptop)
}

// pairServed is pair. edit edits the options of each router, by its name.
func pairServed(t *testing.T, edit func(name string, o *Options), box, laptop config.Config) (r *Router, node *pairNode, boxes *Router, edits chan<- config.Config) {
	t.Helper()
	build := func(name string, c config.Config) (*Router, *pairNode, chan<- config.Config) {
		n := &pairNode{name: name, running: make(chan struct{}), changed: make(chan struct{}), farNode: newFarNode(t)}
		o := Options{ServeNode: serveNothing, onNode: func(r *Router, h *services) clusterNode {
			n.handler = h
			return n
		}}
		edit(name, &o)
		r, edits := runningWith(t, c, o)
		return r, n, edits
	}
	boxes, its, _ := build("box", box)
	settled(t, boxes)
	r, node, edits = build("laptop", laptop)
	node.use(boxes, its)
	<-node.running
	settled(t, r)
	node.learn(t)
	return r, node, boxes, edits
}

func inCluster(c config.Config, share ...string) config.Config {
	c.Router.Cluster = &config.Cluster{Name: "test", Share: share, Use: []string{"*"}, Trusted: []string{"UA", "UB"}}
	return c
}

func idsOf(r *Router) string {
	var all []string
	for _, t := range r.Tools() {
		all = append(all, t.ID)
	}
	return strings.Join(all, " ")
}

// A server on another node is in the catalog next to an own one of its name, and calls of it say
// where they ran. Other servers are not there.
func TestServersOfOtherNodes(t *testing.T) {
	box := inCluster(config.Config{Servers: []config.Server{
		fake("gpu", "-tools", "echo", "-prompts", "greet", "-resources", "doc://a,doc://b", "-templates", "doc://t/{x}"), fake("private", "-tools", "echo"),
	}}, "gpu")
	r, node, _, _ := pair(t, box, inCluster(config.Config{Servers: []config.Server{fake("gpu", "-tools", "echo", "-resources", "doc://a")}}))
	if got := idsOf(r); got != "gpu:echo gpu@box:echo" {
		t.Fatalf("the catalog has %s", got)
	}
	snapshot := r.Snapshot()
	if got := itemsOf(snapshot); !strings.Contains(got, "gpu@box:greet") || !strings.Contains(got, "doc://b") || !strings.Contains(got, "doc://t/{") {
		t.Errorf("the catalog has %s", got)
	}
	expect.Equal(t, snapshot.Claims()["doc://a"].Server, "gpu", "doc://a belongs to")
	for id, want := range map[string][2]string{"gpu:echo": {`"laptop"`, `["local"]`}, "gpu@box:echo": {`"box"`, `["laptop","box"]`}} {
		tool, _ := snapshot.Tool(id)
		result, err := r.Execute(t.Context(), selector.Call{Tool: tool, Arguments: json.RawMessage(`{"text":"hello"}`)})
		if err != nil || result.IsError || !strings.Contains(result.Text(), "hello") {
			t.Fatalf("%s: %s, %v", id, result.JSON, err)
		}
		node, path := wire.Member(result.Meta(), "node_id"), wire.Member(result.Meta(), "execution_path")
		expect.Equal(t, [2]string{string(node), string(path)}, want, "%s: node_id and execution_path", id)
	}
	scope := r.View
	for method, params := range map[string]string{"prompts/get": `{"name":"greet"}`, "resources/read": `{"uri":"doc://b"}`} {
		_, err := scope.Relay(t.Context(), "gpu@box", session.Request{Method: method, Params: json.RawMessage(params)})
		expect.OK(t, err, "%s", method)
	}
	infos := r.Servers()
	if i := slices.IndexFunc(infos, func(i status.Server) bool { return i.Name == "gpu@box" }); i < 0 || infos[i].Node() != "box" || infos[i].Tools != 1 {
		t.Errorf("the servers are %+v", infos)
	}
	for what, err := range map[string]error{"restart": r.Restart(t.Context(), "gpu@box"), "turn": r.Turn(t.Context(), "gpu@box", false)} {
		expect.Error(t, err, "on its node only", "%s", what)
	}
	expect.OK(t, r.Await(t.Context(), "gpu@box"))
	node.lose()
	expect.Equal(t, idsOf(r), "gpu:echo", "without the node, the catalog")
	if err := r.Await(t.Context(), "gpu@box"); !errors.Is(err, ErrNotSent) {
		t.Errorf("a server that is gone: %v", err)
	}
}

// The definition before a change is known while the router runs, even if the node was away.
func TestChangeWhileNodeWasAway(t *testing.T) {
	first := inCluster(config.Config{Servers: []config.Server{fake("gpu", "-tool", "run: Run a job")}}, "*")
	r, node, boxes, _ := pair(t, first, inCluster(config.Config{}))
	node.lose()
	offer, _ := boxes.Snapshot().Tool("gpu:run")
	changed := *offer
	changed.Definition = json.RawMessage(`{"name":"run","description":"Run a job and send the result away","inputSchema":{"type":"object"}}`)
	_, err := boxes.registry.Replace("gpu", registry.Offer{Tools: []registry.NormalizedTool{changed}, Capabilities: json.RawMessage(`{"tools":{}}`)})
	expect.OK(t, err)
	node.learn(t)
	seen := r.Snapshot().Offer("gpu@box").LastSeen
	expect.Contains(t, string(seen["run"]), "Run a job", "last seen: %s", seen)
	expect.OK(t, r.Seen("gpu@box"))
	if seen := r.Snapshot().Offer("gpu@box").LastSeen; seen != nil {
		t.Errorf("a person has seen the change, and last seen is %s", seen)
	}
}

// A leavingSession is of a server whose node leaves once all is listed.
type leavingSession struct {
	*pairSession
	leave func()
}

func (s leavingSession) Call(ctx context.Context, r session.Request) (json.RawMessage, error) {
	if r.Method == "resources/templates/list" {
		s.leave()
	}
	return s.pairSession.Call(ctx, r)
}

// A replica that is forgotten while it is learned is no replica.
func TestReplicaLeavesWhileItIsLearned(t *testing.T) {
	r, node, _, _ := pair(t, inCluster(config.Config{}), inCluster(config.Config{}))
	ctx, cancel := context.WithCancel(t.Context())
	leaving := leavingSession{&pairSession{offer: clusternode.Offer{Tools: []json.RawMessage{[]byte(`{"name":"run","inputSchema":{"type":"object"}}`)}}}, func() {
		cancel()
		node.handler.Forget("gpu@box")
	}}
	err := node.handler.Learn(ctx, config.Server{Name: "gpu@box", Service: "render"}, leaving)
	if replicas := node.handler.grouping().services; !errors.Is(err, context.Canceled) || len(replicas) > 0 || idsOf(r) != "" {
		t.Errorf("learned with %v, the services are %v", err, replicas)
	}
}

// A router leaves its cluster when an edit says so, and joins it again. An own server hides one of
// the same name.
func TestClusterFollowsEdits(t *testing.T) {
	box := inCluster(config.Config{Servers: []config.Server{fake("gpu", "-tools", "echo")}}, "*")
	r, node, _, edits := pair(t, box, inCluster(config.Config{}))
	if got := idsOf(r); got != "gpu@box:echo" {
		t.Fatalf("the catalog has %s", got)
	}
	own := config.Config{Servers: []config.Server{fake("gpu@box", "-tools", "own")}}
	edits <- inCluster(own)
	mcptest.WaitFor(t, "the own server", func() bool { return idsOf(r) == "gpu@box:own" })
	node.lose()
	expect.Equal(t, idsOf(r), "gpu@box:own", "when the node is lost, the catalog")
	edits <- config.Config{}
	mcptest.WaitFor(t, "the router to leave", func() bool { return r.Nodes() == nil })
	mcptest.WaitFor(t, "an empty catalog", func() bool { return idsOf(r) == "" })
	node.running = make(chan struct{})
	edits <- inCluster(own)
	<-node.running
	node.learn(t)
	mcptest.WaitFor(t, "the own server", func() bool { return idsOf(r) == "gpu@box:own" })
	tool, _ := r.Tool("gpu@box:own")
	result, err := r.Execute(t.Context(), selector.Call{Tool: tool})
	if err != nil || string(wire.Member(result.Meta(), "execution_path")) != `["local"]` {
		t.Errorf("the own server: %s, %v", result.JSON, err)
	}
	node.lose()
	expect.Equal(t, idsOf(r), "gpu@box:own", "when the node is lost, the catalog")
}

var _ execute.Sessions = sessions{}

// One trace crosses the nodes, and the node that runs a call notes the client's node as its client.
func TestTraceCrossesNodes(t *testing.T) {
	var seen executions
	spans := map[string]*tracetest.SpanRecorder{"box": tracetest.NewSpanRecorder(), "laptop": tracetest.NewSpanRecorder()}
	tracer := func(name string) trace.Tracer {
		return sdk.NewTracerProvider(sdk.WithSpanProcessor(spans[name])).Tracer("test")
	}
	box := inCluster(config.Config{Servers: []config.Server{fake("gpu", "-tools", "echo")}}, "*")
	r, _, _, _ := pairServed(t, func(name string, o *Options) {
		if o.Tracer = tracer(name); name == "box" {
			o.Observer = &seen
		}
	}, box, inCluster(config.Config{}))
	tool, _ := r.Tool("gpu@box:echo")
	if result, err := r.Execute(t.Context(), selector.Call{Tool: tool, Principal: "p", PrincipalName: "ann"}); err != nil || result.IsError {
		t.Fatalf("%s, %v", result.JSON, err)
	}
	last := func(name string) sdk.ReadOnlySpan { ended := spans[name].Ended(); return ended[len(ended)-1] }
	attempt := spans["laptop"].Ended()[0]
	if there := last("box"); there.Parent().SpanID() != attempt.SpanContext().SpanID() || there.SpanContext().TraceID() != last("laptop").SpanContext().TraceID() {
		t.Errorf("the span of box is %s in %s, below %s; that of laptop's attempt is %s", there.SpanContext().SpanID(), there.SpanContext().TraceID(), there.Parent().SpanID(), attempt.SpanContext().SpanID())
	}
	if e := seen.all(); len(e) != 1 || e[0].Client != "laptop" || e[0].Principal != "ann@laptop" {
		t.Errorf("box noted %+v", e)
	}
}

// executions are those that an observer was notified of.
type executions struct {
	mu   sync.Mutex // guards the fields below
	list []selector.Execution
}

func (e *executions) Executed(x selector.Execution) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, x)
}

func (*executions) Searched(selector.Search) {}

func (e *executions) all() []selector.Execution {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.list)
}
