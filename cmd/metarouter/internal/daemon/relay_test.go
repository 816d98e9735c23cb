package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A stage is a client and the routers that serve it, one after the other.
type stage struct {
	t       *testing.T
	client  io.WriteCloser
	answers *bufio.Reader
	routers chan *LocalConn
	end     context.CancelFunc
	done    chan error
}

// play runs a Relay.
func play(t *testing.T) *stage {
	in, client := io.Pipe()
	answers, out := io.Pipe()
	ctx, end := context.WithCancel(t.Context())
	s := &stage{t, client, bufio.NewReader(answers), make(chan *LocalConn, 1), end, make(chan error, 1)}
	r := Relay{In: in, Out: out, Connect: func(ctx context.Context, _ bool) (Conn, error) {
		ours, theirs := Local()
		select {
		case s.routers <- theirs:
			return ours, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	go func() {
		err := r.Run(ctx)
		out.Close()
		s.done <- err
	}()
	t.Cleanup(func() {
		end()
		client.Close()
		answers.Close()
	})
	return s
}

func (s *stage) send(lines ...string) {
	s.t.Helper()
	for _, line := range lines {
		_, err := io.WriteString(s.client, line+"\n")
		expect.OK(s.t, err)
	}
}

// receives checks that the next line is this one.
func receives(t *testing.T, r *bufio.Reader, want string) {
	t.Helper()
	if got, err := r.ReadString('\n'); strings.TrimSpace(got) != want {
		t.Fatalf("got %s, %v\nwant %s", got, err, want)
	}
}

const (
	opening = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`
	opened  = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// The next router gets the messages with a lasting effect, then the requests without an answer, marked.
func TestRelayResumes(t *testing.T) {
	s := play(t)
	first := <-s.routers
	got := bufio.NewReader(first)
	exchange := func(request, answer string) {
		t.Helper()
		s.send(request)
		receives(t, got, request)
		if answer != "" {
			io.WriteString(first, answer+"\n")
			receives(t, s.answers, answer)
		}
	}
	exchange(opening, `{"jsonrpc":"2.0","id":0,"result":{}}`)
	exchange(opened, "")
	exchange(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	for i, uri := range []string{"a", "b"} {
		exchange(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":"%s"}}`, 2+i, uri), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, 2+i))
	}
	exchange(`{"jsonrpc":"2.0","id":4,"method":"resources/unsubscribe","params":{"uri":"a"}}`, `{"jsonrpc":"2.0","id":4,"result":{}}`)
	exchange(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"n","_meta":{"k":1}}}`, "")
	exchange(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "")
	exchange(`{"jsonrpc":"2.0","id":6,"method":"tools/list"}`, "")
	exchange(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":6}}`, "")
	exchange(`[{"jsonrpc":"2.0","id":7,"method":"ping"},{"jsonrpc":"2.0","id":8,"method":"ping"}]`, "")
	large := `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"` + strings.Repeat("n", maxSingle) + `"}}`
	exchange(large, "")
	io.WriteString(first, `{"jsonrpc":"2.0","id":"x","resu`) // killed while it writes
	first.Close()

	next := <-s.routers
	got = bufio.NewReader(next)
	ended := string(wire.Marshal(session.ErrEnded))
	for _, id := range []string{"7", "8", "9"} {
		receives(t, s.answers, `{"jsonrpc":"2.0","id":`+id+`,"error":`+ended+`}`)
	}
	for _, want := range []string{
		`{"jsonrpc":"2.0","id":"replay 1.0","method":"initialize","params":{"protocolVersion":"2025-11-25","_meta":{"metarouter/resent":true}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized","params":{"_meta":{"metarouter/resent":true}}}`,
		`{"jsonrpc":"2.0","id":"replay 1.2","method":"logging/setLevel","params":{"level":"info","_meta":{"metarouter/resent":true}}}`,
		`{"jsonrpc":"2.0","id":"replay 1.3","method":"resources/subscribe","params":{"uri":"b","_meta":{"metarouter/resent":true}}}`,
		`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"n","_meta":{"k":1,"metarouter/resent":true}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"metarouter/resent":true}}}`,
	} {
		receives(t, got, want)
	}
	io.WriteString(next, `{"jsonrpc":"2.0","id":"replay 1.0","result":{}}`+"\n"+`{"jsonrpc":"2.0","id":"x","result":{"y":1}}`+"\n")
	receives(t, s.answers, `{"jsonrpc":"2.0","id":"x","result":{"y":1}}`) // the answer to the replay is not the client's
}

// Wherever a router is killed while it writes answers, each request is answered once.
func TestRelayAnswersOnce(t *testing.T) {
	answers := `{"jsonrpc":"2.0","id":1,"result":{"x":"{}"}}` + "\n" + `[{"jsonrpc":"2.0","id":2,"result":{}},{"jsonrpc":"2.0","id":3,"result":{}}]` + "\n" + `{"jsonrpc":"2.0","id":4,"error":{"code":1,"message":"m"}}` + "\n"
	for cut := range len(answers) + 1 {
		s := play(t)
		first := <-s.routers
		lines := bufio.NewReader(first)
		for _, line := range []string{opening, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `[{"jsonrpc":"2.0","id":2,"method":"ping"},{"jsonrpc":"2.0","id":3,"method":"ping"}]`, `{"jsonrpc":"2.0","id":4,"method":"ping"}`} {
			s.send(line)
			receives(t, lines, line)
		}
		count := make(map[string]int)
		go func() {
			io.WriteString(first, answers[:cut])
			first.Close()
			next := <-s.routers
			defer next.Close()
			for lines := wire.NewReader(next, wire.MaxLine); ; {
				line, err := lines.Next()
				if err != nil {
					return
				}
				fmt.Fprintf(next, `{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", wire.Member(line, "id"))
			}
		}()
		for count["0"]+count["1"]+count["2"]+count["3"]+count["4"] < 5 {
			line, err := s.answers.ReadBytes('\n')
			expect.OK(t, err, "cut at %d: answers %v", cut, count)
			var all []struct{ ID json.RawMessage }
			if json.Unmarshal(line, &all) != nil {
				all = make([]struct{ ID json.RawMessage }, 1)
				expect.OK(t, json.Unmarshal(line, &all[0]), "cut at %d: %s", cut, line)
			}
			for _, one := range all {
				count[string(one.ID)]++
			}
		}
		for id, n := range count {
			expect.Equal(t, n, 1, "cut at %d: … answers to %s", cut, id)
		}
		s.end()
		<-s.done
	}
}

// Requests above the router's bound are sent again too: the router that died had not refused them yet.
func TestRelayResumesMany(t *testing.T) {
	s := play(t)
	first := <-s.routers
	lines := bufio.NewReader(first)
	for id := range 1500 {
		s.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, id))
		lines.ReadSlice('\n')
	}
	first.Close()
	lines = bufio.NewReader(<-s.routers)
	for id := range 1500 {
		receives(t, lines, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping","params":{"_meta":{"metarouter/resent":true}}}`, id))
	}
}

// A client that ends its input gets its answers, also if the router is killed meanwhile.
func TestRelayEnds(t *testing.T) {
	s := play(t)
	first := <-s.routers
	lines := bufio.NewReader(first)
	const request = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	s.send(request)
	receives(t, lines, request)
	s.client.Close()
	if _, err := lines.ReadByte(); err != io.EOF {
		t.Fatalf("after the end of the input: %v", err)
	}
	first.Close()
	next := <-s.routers
	lines = bufio.NewReader(next)
	receives(t, lines, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"metarouter/resent":true}}}`)
	if _, err := lines.ReadByte(); err != io.EOF {
		t.Fatalf("after the end of the input: %v", err)
	}
	const answer = `{"jsonrpc":"2.0","id":1,"result":{}}`
	io.WriteString(next, answer+"\n")
	receives(t, s.answers, answer)
	next.Close()
	expect.OK(t, <-s.done)
}

// When the process has to end, the router cancels the calls under way, and answers them.
func TestRelayLeaves(t *testing.T) {
	s := play(t)
	router := <-s.routers
	lines := bufio.NewReader(router)
	const request = `{"jsonrpc":"2.0","id":"a","method":"tools/call"}`
	s.send(request)
	receives(t, lines, request)
	s.end()
	receives(t, lines, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}`)
	if _, err := lines.ReadByte(); err != io.EOF {
		t.Fatalf("after the end: %v", err)
	}
	router.Close()
	expect.OK(t, <-s.done)
}

// A movingConn is a connection with a router that hands its clients over.
type movingConn struct {
	*LocalConn
	released chan struct{}
}

func (c movingConn) Released() <-chan struct{} { return c.released }
func (c movingConn) Leave()                    { c.Close() }

// When its router hands the client over, the Relay leaves it once the client awaits no answer, and loses no message. A
// stream that the client listens to is opened again.
func TestRelayIsHandedOver(t *testing.T) {
	in, client := io.Pipe()
	answers, out := io.Pipe()
	defer answers.Close()
	routers, releases := make(chan *LocalConn, 2), make(chan chan struct{}, 2)
	r := Relay{In: in, Out: out, Connect: func(context.Context, bool) (Conn, error) {
		ours, theirs := Local()
		released := make(chan struct{})
		routers <- theirs
		releases <- released
		return movingConn{ours, released}, nil
	}}
	done := make(chan error, 1)
	go func() { done <- r.Run(t.Context()) }()
	s := &stage{t: t, client: client, answers: bufio.NewReader(answers)}
	old := <-routers
	lines := bufio.NewReader(old)
	const (
		listen = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}`
		long   = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a"}}`
		short  = `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"b"}}`
	)
	for _, line := range []string{opened, listen, long} {
		s.send(line)
		receives(t, lines, line)
	}
	close(<-releases)
	s.send(short) // the client still awaits an answer
	receives(t, lines, short)
	for _, answer := range []string{`{"jsonrpc":"2.0","id":3,"result":{}}`, `{"jsonrpc":"2.0","id":2,"result":{}}`} {
		go io.WriteString(old, answer+"\n")
		receives(t, s.answers, answer)
	}
	if line, err := lines.ReadString('\n'); err == nil {
		t.Errorf("the router that was left got %s", line)
	}
	next := <-routers
	lines = bufio.NewReader(next)
	go io.WriteString(client, `{"jsonrpc":"2.0","id":4,"method":"tools/list"}`+"\n")
	receives(t, lines, `{"jsonrpc":"2.0","method":"notifications/initialized","params":{"_meta":{"metarouter/resent":true}}}`)
	receives(t, lines, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{"metarouter/resent":true}}}`)
	receives(t, lines, `{"jsonrpc":"2.0","id":4,"method":"tools/list"}`)
	go io.WriteString(next, `{"jsonrpc":"2.0","id":4,"result":{}}`+"\n")
	receives(t, s.answers, `{"jsonrpc":"2.0","id":4,"result":{}}`)
	client.Close()
	if line, err := lines.ReadString('\n'); err != io.EOF {
		t.Errorf("after the end of the client's input: %s, %v", line, err)
	}
	go io.WriteString(next, `{"jsonrpc":"2.0","id":1,"result":{}}`+"\n")
	receives(t, s.answers, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	next.Close()
	expect.OK(t, <-done)
}

// A build takes over from an older one at the same path, or from one with a lower version.
func TestNewerBuild(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"devel /a b/x 5 200", "devel /a b/x 9 100", true},
		{"devel /a b/x 5 100", "devel /a b/x 9 200", false},
		{"devel /x 5 100", "devel /x 5 100", false},
		{"devel /x 5 200", "devel /y 5 100", false}, // which of them is newer is not known
		{"v1.10.0 /x 5 100", "v1.9.0 /y 5 200", true},
		{"v1.9.0 /x 5 200", "v1.10.0 /y 5 100", false},
		{"v1.10.0", "devel /y 5 200", false},
	} {
		expect.Equal(t, isNewer(tt.a, tt.b), tt.want, "isNewer(%q, %q)", tt.a, tt.b)
	}
}

// What is wrong with finding a router ends the Relay, and a message that is too long ends nothing.
func TestRelayFails(t *testing.T) {
	broken := errors.New("broken")
	r := Relay{In: strings.NewReader(""), Out: io.Discard, Connect: func(context.Context, bool) (Conn, error) { return nil, broken }}
	expect.Equal(t, r.Run(t.Context()), broken, "Run")
	if testing.Short() {
		return
	}
	s := play(t)
	router := <-s.routers
	go io.WriteString(s.client, strings.Repeat("x", wire.MaxLine+1)+"\n"+opened+"\n")
	receives(t, s.answers, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"message longer than 64 MiB"}}`)
	receives(t, bufio.NewReader(router), opened)
}
