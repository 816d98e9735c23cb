package linktest_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/link"
	"github.com/mcp-metarouter/metarouter/cluster/internal/linktest"
)

// An inbox collects the frames of a node.
type inbox struct {
	mu     sync.Mutex // guards frames
	frames []*frame.Frame
}

func (i *inbox) receive(f *frame.Frame) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.frames = append(i.frames, f)
}

// calls returns the frames' Call members once all goroutines wait.
func (i *inbox) calls() (calls []string) {
	synctest.Wait()
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, f := range i.frames {
		calls = append(calls, f.Header.Call)
	}
	return calls
}

func (i *inbox) expect(t *testing.T, want ...string) {
	t.Helper()
	if got := i.calls(); !slices.Equal(got, want) {
		t.Errorf("the frames are %q, want %q", got, want)
	}
}

// two is a network with two nodes; frames to b are in the inbox.
func two(t *testing.T) (n *linktest.Network, a, b *linktest.Node, in *inbox) {
	n, in = linktest.New(t), new(inbox)
	a, b = n.Join(linktest.NewKey()), n.Join(linktest.NewKey())
	b.Receive(in.receive)
	return n, a, b, in
}

func send(t *testing.T, from, to *linktest.Node, call string) {
	t.Helper()
	if err := from.Send(to.Self(), frame.Header{Kind: frame.Ping, Call: call}, nil); err != nil {
		t.Fatal(err)
	}
}

func TestFramesAreSignedAndOrdered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b, in := two(t)
		send(t, a, b, "1")
		if err := a.Send(frame.Address{}, frame.Header{Kind: frame.Beat, Call: "2"}, nil); err != nil {
			t.Fatal(err)
		}
		send(t, a, b, "3")
		send(t, b, a, "other")
		in.expect(t, "1", "2", "3")
		if f := in.frames[0]; f.Verify() != nil || f.Header.From != a.Self() || f.Header.To != b.Self() || f.Header.Time != time.Now().UnixMilli() {
			t.Errorf("the frame is %+v", f.Header)
		}
	})
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b, in := two(t)
		n.Delay(20 * time.Millisecond)
		send(t, a, b, "1")
		time.Sleep(19 * time.Millisecond)
		in.expect(t)
		time.Sleep(time.Millisecond)
		in.expect(t, "1")
	})
}

func TestDropAndSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a, b, in := two(t)
		n.Drop(func(_, _ *linktest.Node, f *frame.Frame) bool { return f.Header.Call == "lost" })
		send(t, a, b, "lost")
		send(t, a, b, "1")
		n.Split(b)
		send(t, a, b, "lost")
		send(t, b, b, "2")
		n.Drop(nil)
		send(t, a, b, "3")
		in.expect(t, "1", "2", "3")
	})
}

func TestFreeze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b, in := two(t)
		b.Freeze()
		send(t, a, b, "1")
		send(t, b, b, "2")
		in.expect(t)
		time.Sleep(time.Minute)
		b.Thaw()
		in.expect(t, "1", "2")
	})
}

func TestDisconnectAndLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b, in := two(t)
		b.Disconnect()
		send(t, a, b, "lost")
		if err := b.Send(a.Self(), frame.Header{Kind: frame.Ping}, nil); !errors.Is(err, link.ErrDisconnected) {
			t.Errorf("the error is %v", err)
		}
		b.Connect()
		send(t, a, b, "1")
		in.expect(t, "1")
		b.Leave()
		send(t, a, b, "lost")
		in.expect(t, "1")
	})
}
