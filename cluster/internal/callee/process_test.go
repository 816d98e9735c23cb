//go:build unix

package callee

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/cluster/internal/caller"
	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/link"
	"github.com/mcp-metarouter/metarouter/cluster/internal/transfer"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/nodeidentity"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// patience is how long the tests wait for other processes.
const patience = time.Minute

// nodeVariable has the URL of NATS in the environment of a process that is a node, and the file of
// its key.
const nodeVariable = "METAROUTER_TEST_CALLEE"

func TestMain(m *testing.M) {
	if at := os.Getenv(nodeVariable); at != "" {
		if err := runNode(at); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// openLink connects to NATS with a new key.
func openLink(ctx context.Context, url, dir string) (*link.Link, error) {
	key, err := nodeidentity.Open(filepath.Join(dir, "node.nk"))
	if err != nil {
		return nil, err
	}
	return link.Open(ctx, link.Options{Config: config.Cluster{URLs: []string{url}, Name: "test"}, Identity: key})
}

// A call with waits in its _meta waits for its server for waitTime.
const (
	waits    = "waits"
	waitTime = 500 * time.Millisecond
)

// runNode is a node with calls that take a moment. It says on its output where it is, and which calls
// it runs, until its input ends.
func runNode(at string) error {
	url, dir, _ := strings.Cut(at, " ")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	wire, err := openLink(ctx, url, dir)
	if err != nil {
		return err
	}
	defer wire.Close()
	ledger := json.NewEncoder(os.Stdout)
	var mu sync.Mutex // guards ledger
	h := &host{ran: make(map[string]int), execute: func(_ context.Context, in clusternode.Incoming) (json.RawMessage, error) {
		if bytes.Contains(in.Request.Meta, []byte(waits)) {
			time.Sleep(waitTime)
		}
		if err := session.GaveUp(in.Request.From); err != nil {
			return nil, err
		}
		mu.Lock()
		ledger.Encode(in.Request.Meta)
		mu.Unlock()
		time.Sleep(20 * time.Millisecond)
		return json.RawMessage(`{"ok":true}`), nil
	}}
	node := New(Options{
		Wire: wire, Host: h, Budget: transfer.NewBudget(transfer.MaxReceived), Log: zap.NewNop(),
		Trusted: func(string) bool { return true }, Shared: func(string) bool { return true }, Name: func(string) string { return "gate" },
		Lost: func(frame.Address) <-chan struct{} { return nil }, Age: func(*frame.Header) time.Duration { return 0 },
	})
	wire.Receive(node.Receive)
	for !wire.State().Connected {
		time.Sleep(10 * time.Millisecond)
	}
	mu.Lock()
	ledger.Encode(wire.Self())
	mu.Unlock()
	go func() {
		bufio.NewReader(os.Stdin).ReadByte()
		cancel()
	}()
	return node.Run(ctx)
}

// A process is a node that runs in one of its own.
type process struct {
	t    *testing.T
	self frame.Address
	cmd  *exec.Cmd

	mu  sync.Mutex // guards ran
	ran map[string]int
}

// startNode starts a node.
func startNode(t *testing.T, url string) *process {
	p := &process{t: t, ran: make(map[string]int)}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), nodeVariable+"="+url+" "+t.TempDir())
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		lines := json.NewDecoder(out)
		if lines.Decode(&p.self) != nil {
			return
		}
		close(ready)
		for {
			var meta json.RawMessage // of the call that runs
			if lines.Decode(&meta) != nil {
				return
			}
			p.mu.Lock()
			p.ran[string(meta)]++
			p.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		p.signal(syscall.SIGCONT)
		in.Close()
		<-over
		p.cmd.Wait()
	})
	select {
	case <-ready:
	case <-over:
		t.Fatal("the node has not started")
	case <-time.After(patience):
		t.Fatal("the node does not say where it is")
	}
	return p
}

func (p *process) signal(s syscall.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Error(err)
	}
	if s == syscall.SIGSTOP { // its threads may run on for a moment
		var state syscall.WaitStatus
		if _, err := syscall.Wait4(p.cmd.Process.Pid, &state, syscall.WUNTRACED, nil); err != nil || !state.Stopped() {
			p.t.Errorf("the process is not stopped: %v, %v", state, err)
		}
	}
}

// gateTo connects a gateway to NATS. The frames for it come from the channel.
func gateTo(t *testing.T, url string) (*link.Link, chan *frame.Frame) {
	wire, err := openLink(t.Context(), url, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(wire.Close)
	came := make(chan *frame.Frame, 1000)
	wire.Receive(func(f *frame.Frame) { came <- f })
	for end := time.Now().Add(patience); !wire.State().Connected; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no connection to NATS")
		}
	}
	return wire, came
}

// A process that was stopped between acceptance and start runs nothing when it goes on: the start
// lay in its socket meanwhile.
func TestStoppedProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	url := natsserver.Start(t).URL()
	node := startNode(t, url)
	wire, came := gateTo(t, url)
	next := func(call string) frame.Header { return nextOf(t, came, call) }
	say := func(h frame.Header) {
		t.Helper()
		if err := wire.Send(node.self, h, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, frozen := range []time.Duration{0, startTime + 500*time.Millisecond} {
		call := frozen.String()
		h := offer(call, false)
		h.Offer.Meta = json.RawMessage(`{"n":"` + call + `"}`)
		say(h)
		accept := next(call)
		if accept.Kind != frame.Accept {
			t.Fatalf("got %s", accept.Kind)
		}
		if frozen > 0 {
			node.signal(syscall.SIGSTOP)
		}
		say(frame.Header{Kind: frame.Start, Call: call, Nonce: accept.Nonce})
		time.Sleep(frozen)
		node.signal(syscall.SIGCONT)
		say(frame.Header{Kind: frame.Poll, Call: call})
		got := next(call)
		for got.Kind == frame.State && got.Running {
			say(frame.Header{Kind: frame.Poll, Call: call})
			got = next(call)
		}
		if ran := got.Kind == frame.Result; ran != (frozen == 0) || got.Error != nil && got.Error.Sent {
			t.Errorf("stopped for %s: got %s %+v", frozen, got.Kind, got.Error)
		}
		say(frame.Header{Kind: frame.Done, Call: call})
	}
	node.mu.Lock()
	defer node.mu.Unlock()
	if len(node.ran) != 1 || node.ran[`{"n":"0s"}`] != 1 {
		t.Errorf("calls ran: %v", node.ran)
	}
}

// A process that was stopped while a call waited for its server does not begin the call afterwards.
func TestWaitingInStoppedProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	url := natsserver.Start(t).URL()
	node := startNode(t, url)
	wire, came := gateTo(t, url)
	for _, frozen := range []time.Duration{0, startTime + time.Second} {
		h := offer(frozen.String(), true)
		h.Offer.Meta = json.RawMessage(`{"n":"` + waits + frozen.String() + `"}`)
		poll := frame.Header{Kind: frame.Poll, Call: h.Call}
		for _, h := range []frame.Header{h, poll} {
			if err := wire.Send(node.self, h, nil); err != nil {
				t.Fatal(err)
			}
		}
		if state := nextOf(t, came, h.Call); state.Kind != frame.State || !state.Running {
			t.Fatalf("got %s", state.Kind)
		}
		if frozen > 0 {
			node.signal(syscall.SIGSTOP)
			time.Sleep(frozen)
			node.signal(syscall.SIGCONT)
		}
		got := nextOf(t, came, h.Call)
		if got.Kind != frame.Result || (got.Error == nil) != (frozen == 0) || got.Error != nil && got.Error.Sent {
			t.Errorf("stopped for %s: got %s %+v", frozen, got.Kind, got.Error)
		}
	}
	node.mu.Lock()
	defer node.mu.Unlock()
	if len(node.ran) != 1 || node.ran[`{"n":"`+waits+`0s"}`] != 1 {
		t.Errorf("calls ran: %v", node.ran)
	}
}

// nextOf returns the header of the next frame of a call.
func nextOf(t *testing.T, came <-chan *frame.Frame, call string) frame.Header {
	t.Helper()
	for {
		select {
		case f := <-came:
			if err := f.Verify(); err != nil {
				t.Fatal(err)
			}
			if f.Header.Call == call {
				return f.Header
			}
		case <-time.After(patience):
			t.Fatal("nothing comes")
		}
	}
}

// While a process is stopped again and again, each call of a real gateway ends; no call runs twice,
// and no call ran that has an error which says that it was not sent.
func TestCallsOfStoppedProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	url := natsserver.Start(t).URL()
	node := startNode(t, url)
	wire, _ := gateTo(t, url)
	c := caller.New(caller.Options{
		Wire: wire, Budget: transfer.NewBudget(transfer.MaxReceived), Log: zap.NewNop(),
		Lost: func(frame.Address) <-chan struct{} { return nil }, OnMessage: func(string, session.Client, session.Message) {},
	})
	wire.Receive(c.Receive)
	ctx, cancel := context.WithCancel(t.Context())
	var running, calling sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	defer running.Wait()
	defer cancel()
	s := c.Session(caller.Target{To: node.self, Node: "box", Name: "files@box", Server: "files"}, nil)
	stop := make(chan struct{})
	var mu sync.Mutex // guards outcomes
	outcomes := make(map[string]int)
	for worker := range 20 {
		calling.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				meta := fmt.Sprintf(`{"n":"%d.%d"}`, worker, i)
				result, err := s.Call(t.Context(), session.Request{Method: "tools/call", Params: json.RawMessage(`{"name":"read"}`), Meta: json.RawMessage(meta)})
				outcome := "ok"
				switch {
				case err == nil && string(result) != `{"ok":true}`:
					t.Errorf("got %s", result)
				case err == nil:
				case errors.Is(err, session.ErrNotSent):
					outcome = "not sent"
				case errors.Is(err, session.ErrClosed):
					outcome = "unknown"
				default:
					t.Error(err)
				}
				mu.Lock()
				outcomes[outcome]++
				outcomes[meta+outcome] = 1
				mu.Unlock()
			}
		})
	}
	for _, frozen := range []time.Duration{300 * time.Millisecond, 1100 * time.Millisecond, 2500 * time.Millisecond} {
		time.Sleep(300 * time.Millisecond)
		node.signal(syscall.SIGSTOP)
		time.Sleep(frozen)
		node.signal(syscall.SIGCONT)
	}
	time.Sleep(300 * time.Millisecond)
	close(stop)
	calling.Wait()
	time.Sleep(300 * time.Millisecond) // for the ledger
	node.mu.Lock()
	defer node.mu.Unlock()
	for meta, n := range node.ran {
		if n > 1 || outcomes[meta+"not sent"] > 0 {
			t.Errorf("%s ran %d times", meta, n)
		}
	}
	t.Logf("%d ok, %d not sent, %d unknown; %d ran", outcomes["ok"], outcomes["not sent"], outcomes["unknown"], len(node.ran))
	if outcomes["ok"] == 0 || outcomes["ok"] > len(node.ran) {
		t.Error("too few calls ran")
	}
}
