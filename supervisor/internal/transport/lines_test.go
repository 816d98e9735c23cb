package transport

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A script is the server's side of a peer under test.
type script struct {
	t   *testing.T
	in  *bufio.Reader // what the peer writes
	out *io.PipeWriter
}

// waits is a writer that can write nothing without waiting.
type waits struct{ io.Writer }

func (waits) SetWriteDeadline(time.Time) error { return nil }

// pair returns a peer and the server's side of it. The peer ends with the test.
func pair(t *testing.T) (*peer.Peer, *script) { return pairHearing(t, nil) }

// pairHearing is pair, whose peer reports text so.
func pairHearing(t *testing.T, text func(first string)) (*peer.Peer, *script) {
	fromPeer, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	var link *Lines
	p := peer.New(peer.Host{
		Server: "s",
		Stray:  func(line []byte, why error) { t.Logf("stray: %.40q %v", line, why) },
		Asked:  func(string) {},
		Text:   text,
		Owner:  func() session.Client { return nil },
	}, func(c *peer.Conn) peer.Link {
		link = NewLines(waits{toServer}, time.Minute, c)
		return link
	})
	var serving sync.WaitGroup
	serving.Go(func() {
		link.Write()
		p.Close(errors.New("nothing can be written"))
	})
	serving.Go(func() {
		link.Read(fromServer)
		p.Close(errors.New("it ended"))
	})
	t.Cleanup(func() {
		out.Close()
		fromPeer.Close()
		serving.Wait()
	})
	return p, &script{t, bufio.NewReader(fromPeer), out}
}

func (s *script) read() wire.Message {
	s.t.Helper()
	line, err := s.in.ReadBytes('\n')
	if err != nil {
		s.t.Errorf("the server's side: %v", err)
		return wire.Message{}
	}
	m, err := wire.Parse(line)
	expect.OK(s.t, err, "the peer wrote %q", line)
	return m
}

// A call ends with its context though its message is stuck half-way, and the
// message is finished once the server reads again.
func TestCallEndsWhileWriting(t *testing.T) {
	p, s := pair(t)
	ctx, cancel := context.WithCancel(t.Context())
	large := json.RawMessage(`{"x":"` + strings.Repeat("y", 3*writeChunk) + `"}`)
	go func() {
		s.in.Peek(1) // the message has begun
		cancel()
	}()
	if _, err := p.Call(ctx, session.Request{Method: "large", Params: large}); !errors.Is(err, context.Canceled) {
		t.Errorf("the call: %v", err)
	}
	// Another waits for its turn, and was not sent when its time is up.
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.Call(ctx, session.Request{Method: "m"}); !errors.Is(err, session.ErrNotSent) {
		t.Errorf("a call whose turn did not come: %v, want ErrNotSent", err)
	}
	if m := s.read(); m.Method != "large" || string(m.Params) != string(large) {
		t.Errorf("the large message arrived torn: %s, %d bytes", m.Method, len(m.Params))
	}
	if m := s.read(); m.Method != "notifications/cancelled" {
		t.Errorf("then came %s, want the cancellation", m.Method)
	}
}

// A line that is too long is skipped, and fails the call that it answers at once, wherever its id
// is. Another call goes on.
func TestAnswerTooLong(t *testing.T) {
	if testing.Short() {
		t.Skip("writes lines of 64 MiB")
	}
	p, s := pair(t)
	padding := strings.Repeat("x", 1<<20)
	pad := func() {
		for range wire.MaxLine>>20 + 1 {
			io.WriteString(s.out, padding)
		}
	}
	for name, write := range map[string]func(id json.RawMessage){
		"first": func(id json.RawMessage) {
			fmt.Fprintf(s.out, `{"jsonrpc":"2.0","id":%s,"result":"`, id)
			pad()
			io.WriteString(s.out, `"}`+"\n")
		},
		"last": func(id json.RawMessage) {
			io.WriteString(s.out, `{"result":"`)
			pad()
			fmt.Fprintf(s.out, `","jsonrpc":"2.0","id":%s}`+"\n", id)
		},
	} {
		go func() { write(s.read().ID) }()
		_, err := p.Call(t.Context(), session.Request{Method: "tools/call"})
		if bad, ok := errors.AsType[*peer.AnswerError](err); !ok || bad.Server != "s" || !errors.Is(err, wire.ErrTooLong) {
			t.Errorf("id %s: %v", name, err)
		}
	}
	go func() {
		io.WriteString(s.out, `"`)
		pad()
		fmt.Fprintf(s.out, "\"\n"+`{"id":%s,"result":{}}`+"\n", s.read().ID)
	}()
	_, err := p.Call(t.Context(), session.Request{Method: "tools/call"})
	expect.OK(t, err)
	if got := reported(p).Unusable; got.Count != 2 || !strings.HasPrefix(got.Last, "with more than 64 MiB") || reported(p).StrayLines != 1 {
		t.Errorf("counted %+v and %d strays", got, reported(p).StrayLines)
	}
}

// reported returns the violations of the peer's server.
func reported(p *peer.Peer) (st status.Status) { p.Budget.Report(&st); return st }
