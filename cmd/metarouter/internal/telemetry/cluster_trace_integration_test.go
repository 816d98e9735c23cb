package telemetry

import (
	"context"
	"encoding/json"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/nodeidentity"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// twoNodes runs two routers of a cluster: "desk", which uses the server "s" of "box".
func twoNodes(t *testing.T, desk, box adapter.Options) (atDesk, atBox *adapter.Router) {
	t.Helper()
	nats := natsserver.Start(t)
	keys := make([]string, 2)
	for i, o := range []*adapter.Options{&desk, &box} {
		o.NodeKey = filepath.Join(t.TempDir(), "node.nk")
		var err error
		if keys[i], err = nodeidentity.Public(o.NodeKey); err != nil {
			t.Fatal(err)
		}
	}
	join := func(node string, c config.Cluster) config.Config {
		c.URLs, c.Name, c.Node, c.Trusted = []string{nats.URL()}, "test", node, keys
		return config.Config{Router: config.Router{Cluster: &c}}
	}
	command, args := mcptest.Command("-tools", "echo")
	var servers *server.Servers
	box.ServeNode = func(ctx context.Context, v *adapter.NodeView, conn net.Conn) { servers.ServeNode(ctx, v, conn) }
	has := join("box", config.Cluster{Share: []string{"s"}})
	has.Servers = []config.Server{{Name: "s", Transport: config.Stdio, Command: command, Args: args, StartTimeout: time.Minute}}
	atBox = adapter.New(has, box)
	servers = server.NewServers(server.Profiles{
		Open:  func(server.View, []string) (server.Router, server.Options) { return atBox.Parts(), server.Options{} },
		Whole: atBox.Parts(),
	})
	atDesk = adapter.New(join("desk", config.Cluster{Use: []string{"*@box"}}), desk)
	for _, r := range []*adapter.Router{atBox, atDesk} {
		go r.Run(context.Background(), nil)
		t.Cleanup(func() { r.Close() })
	}
	return atDesk, atBox
}

// toolOf waits until a router has the tool.
func toolOf(t *testing.T, r *adapter.Router, id string) *registry.NormalizedTool {
	t.Helper()
	for end := time.After(time.Minute); ; {
		changed := r.Changed()
		if tool, ok := adapter.Tool(r, id); ok {
			return tool
		}
		select {
		case <-changed:
		case <-end:
			t.Fatalf("no tool %s came", id)
		}
	}
}

// A call by way of another node is one trace: the client's span, then for each of both routers the span
// of the call and the span of its attempt, each below the one before.
func TestOneTraceAcrossNodes(t *testing.T) {
	layer.Integration(t)
	collected := newCollector(t)
	traces, _ := openTraces(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+collected.URL)
	log := zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel))
	o := adapter.Options{Tracer: traces.Tracer(), Log: log}
	desk, box := twoNodes(t, o, o)
	tool := toolOf(t, desk, "s@box:echo")
	result, err := desk.Execute(t.Context(), selector.Call{
		Tool: tool, Arguments: json.RawMessage(`{"message":"hi"}`),
		Meta: json.RawMessage(`{"traceparent":"00-0102030405060708090a0b0c0d0e0f10-1112131415161718-01"}`),
	})
	if err != nil || result.IsError {
		t.Fatalf("%s, %v", result.JSON, err)
	}
	desk.Close()
	box.Close()
	traces.Close(t.Context())

	collected.mu.Lock()
	defer collected.mu.Unlock()
	var ours []*tracepb.Span
	for _, s := range collected.spans {
		if slices.Equal(s.TraceId, []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}) {
			ours = append(ours, s)
		}
	}
	parent := []byte{0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18} // the client's span
	for _, want := range []struct {
		name string
		kind tracepb.Span_SpanKind
	}{
		{"tools/call s@box:echo", tracepb.Span_SPAN_KIND_SERVER},
		{"tools/call echo", tracepb.Span_SPAN_KIND_CLIENT},
		{"tools/call s:echo", tracepb.Span_SPAN_KIND_SERVER},
		{"tools/call echo", tracepb.Span_SPAN_KIND_CLIENT},
	} {
		i := slices.IndexFunc(ours, func(s *tracepb.Span) bool { return slices.Equal(s.ParentSpanId, parent) })
		if i < 0 || ours[i].Name != want.name || ours[i].Kind != want.kind {
			t.Fatalf("below %x there is no %s %q; the spans are %v", parent, want.kind, want.name, ours)
		}
		parent = ours[i].SpanId
		ours = slices.Delete(ours, i, i+1)
	}
	if len(ours) > 0 {
		t.Errorf("further spans of the trace: %v", ours)
	}
}
