//go:build unix

package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/mcptest"
	"github.com/mcp-metarouter/metarouter/internal/sse"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

// A server may use the id of a request again that it has withdrawn.
func TestAskWithTheSameID(t *testing.T) {
	p, s := pair(t)
	patient, prompt := clientOf("patient"), clientOf("prompt")
	patient.asked = make(chan struct{})
	owners := make(chan session.Client, 2)
	owners <- patient
	owners <- prompt
	p.host.owner = func(context.Context) session.Client { return <-owners }
	s.write(`{"id":1,"method":"sampling/createMessage","params":{}}`)
	<-patient.asked
	s.write(`{"method":"notifications/cancelled","params":{"requestId":1}}
{"id":1,"method":"elicitation/create","params":{}}`)
	if m := s.read(); string(m.ID) != "1" || !strings.Contains(string(m.Result), `"to":"elicitation/create"`) {
		t.Errorf("answered with %s %s", m.Result, m.Error)
	}
	p.owned.Wait()
}

// One subscription that the server does not answer holds up no other beyond its
// deadline.
func TestSubscribeInVain(t *testing.T) {
	p, s := pair(t)
	first := make(chan error, 1)
	go func() {
		_, err := p.Subscribe(t.Context(), "a:b")
		first <- err
	}()
	m := s.read()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := p.Subscribe(ctx, "a:c"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second: %v", err)
	}
	if got := p.subscriptions.wanted(); len(got) > 0 {
		t.Errorf("wanted: %v", got)
	}
	s.write(`{"id":%s,"result":{}}`, m.ID)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

func TestBatchIsBounded(t *testing.T) {
	p, _ := pair(t)
	taken := 0
	p.each([]byte("["+strings.Repeat("1,", 1<<20)+"1]"), func(wire.Message) error { taken++; return nil })
	if strays := p.strays.Load(); taken > 0 || strays != maxBatch+1 {
		t.Errorf("took %d and skipped %d", taken, strays)
	}
	p.each([]byte(`[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]`), func(wire.Message) error { taken++; return nil })
	if taken != 2 {
		t.Errorf("took %d of a batch of two", taken)
	}
}

// What a server says of retrying is kept within bounds, and backed off from.
func TestReconnectPause(t *testing.T) {
	var at position
	at.note(sse.Event{Retry: time.Millisecond})
	for _, want := range []time.Duration{1, 2, 4, 8} {
		if got := at.wait(); got != want*leastRetry {
			t.Errorf("waits %v, want %v", got, want*leastRetry)
		}
	}
	at.note(sse.Event{})
	if got := at.wait(); got != leastRetry {
		t.Errorf("waits %v after an event", got)
	}
	at.note(sse.Event{Retry: 24 * time.Hour})
	if got := at.wait(); got != mostRetry {
		t.Errorf("waits %v at most", got)
	}
}

// lending returns a legacy server that asks its clients, and keeps sessions.
func lending(t *testing.T, answer func(w http.ResponseWriter, v visit) bool) (*far, *fixture) {
	srv := newFar(t, func(f *far) { f.id, f.answer = "s", answer })
	entry := at(srv.URL, config.StreamableHTTP)
	f := supervise(t, entry)
	f.await("r", Ready)
	f.traits.edit(entry, func(t *traits) { t.Asks = true })
	return srv, f
}

func visitor(name string) *client {
	return &client{name: name, modern: true, capabilities: `{"elicitation":{},"roots":{}}`}
}

func (f *fixture) callAs(ctx context.Context, from session.Client) error {
	s, err := f.Session(ctx, "r", from)
	if err == nil {
		_, err = s.Call(ctx, session.Request{Method: "tools/call", Params: json.RawMessage(`{"name":"echo"}`), From: from})
	}
	return err
}

// The session of a call that was given up is not lent again: its server may still
// ask on that client's behalf.
func TestLentAfterCancel(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{}, 1)
	hang <- struct{}{}
	srv, f := lending(t, func(_ http.ResponseWriter, v visit) bool {
		if v.m.Method != "tools/call" {
			return false
		}
		select {
		case <-hang:
			<-v.Context().Done()
			return true
		default:
			return false
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := f.callAs(ctx, visitor("a")); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the first call: %v", err)
	}
	for range 2 { // the second of these has the session of the first
		if err := f.callAs(t.Context(), visitor("b")); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(srv.seen(by("POST", initialize))); n != 3 {
		t.Errorf("%d sessions, want the shared one and two that were lent", n)
	}
}

// A lent session ends when the server's life does, whatever is under way.
func TestLentEnds(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	_, f := lending(t, func(_ http.ResponseWriter, v visit) bool {
		if v.m.Method != "tools/call" {
			return false
		}
		close(begun)
		<-v.Context().Done()
		return true
	})
	ended := make(chan error, 1)
	go func() { ended <- f.callAs(context.Background(), visitor("a")) }()
	<-begun
	f.stop()
	if err := <-ended; !errors.Is(err, session.ErrClosed) {
		t.Errorf("the call: %v", err)
	}
}

// Lists that differ because of what one client can do are not shown to others.
func TestListsOfAWeakerClient(t *testing.T) {
	t.Parallel()
	var weak atomic.Bool
	srv, f := lending(t, func(w http.ResponseWriter, v visit) bool {
		switch {
		case v.m.Method == "ping":
			weak.Store(true)
			say(w, `data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			say(w, `data: {"jsonrpc":"2.0","id":%s,"result":{}}`, v.m.ID)
		case v.m.Method == "tools/list" && weak.Load():
			result(w, v.m, `{"tools":[]}`)
		default:
			return false
		}
		return true
	})
	if err := f.callAs(t.Context(), visitor("a")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * relistSoon)
	if n, tools := f.listings("r"); n != 1 || !strings.Contains(tools, "echo") {
		t.Errorf("listed %d times: %s (%v)", n, tools, methods(srv.seen(func(visit) bool { return true })))
	}
}

// What one request may not do is no reason to end the session.
func TestForbiddenRequest(t *testing.T) {
	t.Parallel()
	begun, finish := make(chan struct{}), make(chan struct{})
	srv := newFar(t, func(f *far) {
		f.answer = func(w http.ResponseWriter, v visit) bool {
			switch {
			case v.m.Method == "prompts/get":
				w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope"`)
				w.WriteHeader(http.StatusForbidden)
				return true
			case v.m.Method == "tools/call":
				close(begun)
				<-finish
			}
			return false
		}
	})
	f := supervise(t, at(srv.URL, config.StreamableHTTP))
	f.await("r", Ready)
	called := make(chan error, 1)
	go func() {
		_, err := f.call("r", "echo", "{}")
		called <- err
	}()
	<-begun
	s, err := f.Session(t.Context(), "r", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Call(t.Context(), session.Request{Method: "prompts/get", Params: json.RawMessage("{}")}); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("what is forbidden: %v", err)
	}
	close(finish)
	if err := <-called; err != nil {
		t.Errorf("another call: %v", err)
	}
	if st := f.state("r"); st.State != Ready {
		t.Errorf("the server is %s", st.State)
	}
}

// A POST that the server does not end does not outlive its call.
func TestSSEPostEnds(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	srv := newFarSSE(t, "/messages", func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		close(ended)
	})
	f := supervise(t, at(srv.URL, config.SSE))
	f.await("r", Ready)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := f.callAs(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the call: %v", err)
	}
	mcptest.WaitFor(t, "the POST to end", func() bool { return isClosed(ended) })
}
