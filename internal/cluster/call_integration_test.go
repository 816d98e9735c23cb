package cluster_test

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
	"go.uber.org/zap/zaptest"

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

// A line is a stream to a server that answers lines.
type line struct {
	clusternode.Stream
	answers *bufio.Reader
}

func (r *router) dial(t testing.TB, server string) *line {
	t.Helper()
	return dialled(t, r.Dial, server)
}

// dialled opens a stream. A machine that is busy for some seconds lets a stream fail, so it tries for a minute.
func dialled(t testing.TB, dial func(context.Context, string) (clusternode.Stream, error), to string) *line {
	t.Helper()
	s, err := dial(t.Context(), to)
	for limit := time.Now().Add(time.Minute); errors.Is(err, session.ErrNotSent) && time.Now().Before(limit); s, err = dial(t.Context(), to) {
		time.Sleep(10 * time.Millisecond)
	}
	expect.OK(t, err)
	t.Cleanup(func() { s.Close() })
	s.SetReadDeadline(time.Now().Add(time.Minute))
	return &line{s, bufio.NewReader(s)}
}

// call returns the answer to a line.
func (l *line) call(text string) (string, error) {
	if _, err := fmt.Fprintln(l, text); err != nil {
		return "", err
	}
	answer, err := l.answers.ReadString('\n')
	return strings.TrimSuffix(answer, "\n"), err
}

// pair returns two running routers that trust each other; box shares a server.
func pair(t *testing.T) (ann, box *router, c config.Cluster) {
	s := natsserver.Start(t)
	fileA, keyA := newKey(t)
	fileB, keyB := newKey(t)
	log := zaptest.NewLogger(t)
	ann, box = newRouter(t, log.Named("ann"), fileA, keyA), newRouter(t, log.Named("box"), fileB, keyB)
	box.offer(1, "gpu")
	ann.run(t, configOf(s, "ann", keyB))
	c = configOf(s, "box", keyA)
	box.run(t, c)
	ann.has(t, "gpu@box: gpu_0")
	return ann, box, c
}

func TestStream(t *testing.T) {
	layer.Integration(t)
	ann, box, c := pair(t)
	one := ann.dial(t, "gpu@box")
	if one.Server != "gpu" || one.Node != "box" || one.Key != box.key || one.Lapsed() {
		t.Errorf("%+v", one)
	}
	if now := time.Now(); one.Local(now).Sub(now).Abs() > time.Second {
		t.Error(one.Local(now), now)
	}
	for _, size := range []int{10, 3 << 20} {
		text := strings.Repeat("x", size)
		if answer, err := one.call(text); err != nil || answer != "gpu for ann: "+text {
			t.Errorf("%.100s, %v", answer, err)
		}
	}
	signature, err := box.Sign([]byte("metarouter result 2\n"))
	public, _ := nkeys.Decode(nkeys.PrefixByteUser, []byte(box.Key()))
	if err != nil || box.Key() != box.key || !ed25519.Verify(public, []byte("metarouter result 2\n"), signature) {
		t.Error(box.Key(), err)
	}

	c.Share = []string{"nothing"} // the stream ends, and no other one opens
	box.configs <- c
	if _, err := one.answers.ReadString('\n'); err == nil {
		t.Error("the stream goes on")
	}
	ann.has(t)
	if _, err := ann.Dial(t.Context(), "gpu@box"); !errors.Is(err, session.ErrNotSent) || !errors.As(err, new(*status.UnavailableError)) {
		t.Error(err)
	}
}

// Loss of trust ends streams at once, whichever end loses it.
func TestStreamsEndWithTrust(t *testing.T) {
	layer.Integration(t)
	ann, box, c := pair(t)
	one := ann.dial(t, "gpu@box")
	trusted := c.Trusted
	c.Trusted = nil
	box.configs <- c
	if answer, err := one.answers.ReadString('\n'); err == nil {
		t.Error(answer)
	}
	if _, err := ann.Dial(t.Context(), "gpu@box"); !errors.Is(err, session.ErrNotSent) {
		t.Error(err)
	}
	mcptest.WaitFor(t, "the problem of box", func() bool {
		if s, err := ann.Dial(t.Context(), "gpu@box"); err == nil { // one that box does not answer in time says nothing of trust
			s.Close()
		}
		nodes := ann.Nodes()
		return len(nodes) == 2 && strings.HasPrefix(nodes[1].Problem, "it does not trust this node; ")
	})
	c.Trusted = trusted
	box.configs <- c
	one = ann.dial(t, "gpu@box") // once box has adopted its configuration
	use := c
	use.Node, use.Trusted = "ann", nil
	ann.configs <- use
	if answer, err := one.answers.ReadString('\n'); err == nil {
		t.Error(answer)
	}
	ann.has(t)
}

// A router that has begun to end takes no stream, and waits for calls under way.
func TestLeave(t *testing.T) {
	layer.Integration(t)
	cluster.SetLeaveWait(t, time.Minute)
	ann, box, _ := pair(t)
	one := ann.dial(t, "gpu@box")
	answered := make(chan error, 1)
	go func() {
		answer, err := one.call("wait")
		if err == nil && answer != "gpu for ann: wait" {
			err = errors.New(answer)
		}
		answered <- err
	}()
	for limit := time.After(time.Minute); ; {
		if _, running, _ := box.State("gpu"); running > 0 {
			break
		}
		select {
		case <-limit:
			t.Fatal("no call")
		case <-time.After(10 * time.Millisecond):
		}
	}
	go box.stop()
	ann.has(t)
	if _, err := ann.Dial(t.Context(), "gpu@box"); !errors.Is(err, session.ErrNotSent) {
		t.Error(err)
	}
	close(box.finish)
	expect.OK(t, <-answered)
	if _, err := one.answers.ReadString('\n'); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Error("the stream goes on", err, io.EOF)
	}
	box.stop()
}

// After a restart of NATS, the nodes find and call each other again.
func TestNATSRestarts(t *testing.T) {
	layer.Integration(t)
	s := natsserver.Start(t)
	ann, box := twoRouters(t)
	box.offer(1, "gpu")
	ann.run(t, configOf(s, "ann", box.key))
	box.run(t, configOf(s, "box", ann.key))
	ann.has(t, "gpu@box: gpu_0")
	one := ann.dial(t, "gpu@box")
	s.Kill()
	if answer, err := one.call("x"); err == nil {
		t.Error(answer)
	}
	ann.has(t)
	if _, err := ann.Dial(t.Context(), "gpu@box"); !errors.Is(err, session.ErrNotSent) {
		t.Error(err)
	}
	s.Restart()
	ann.has(t, "gpu@box: gpu_0")
	if answer, err := ann.dial(t, "gpu@box").call("x"); err != nil || answer != "gpu for ann: x" {
		t.Error(answer, err)
	}
}

// A router is reached by its address, whatever it shares, as long as both nodes trust each other. Clients can forge
// addresses, which reach nothing.
func TestDialRouter(t *testing.T) {
	layer.Integration(t)
	ann, box, c := pair(t)
	c.Share = nil
	box.configs <- c
	ann.has(t)
	one := dialled(t, ann.DialRouter, box.Address())
	if answer, err := one.call("hello"); err != nil || answer != " for ann: hello" || one.Server != "" || one.Key != box.key {
		t.Errorf("%s, %v", answer, err)
	}
	_, stranger := newKey(t)
	_, router, _ := strings.Cut(box.Address(), ".")
	for _, address := range []string{"", ".", "gpu@box", box.key, box.key + ".>", box.key + "." + strings.Repeat("A", len(router)), stranger + "." + router, ann.Address(), ann.key + "." + router} {
		if _, err := ann.DialRouter(t.Context(), address); !errors.Is(err, session.ErrNotSent) {
			t.Errorf("%q: %v", address, err)
		}
	}
	c.Trusted = nil
	box.configs <- c
	if answer, err := one.answers.ReadString('\n'); err == nil {
		t.Error(answer)
	}
	if _, err := ann.DialRouter(t.Context(), box.Address()); !errors.Is(err, session.ErrNotSent) || !errors.Is(err, session.ErrForbidden) {
		t.Error(err)
	}
}
