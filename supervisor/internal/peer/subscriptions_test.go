package peer

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Several subscriptions to one resource are one towards the server.
func TestSubscribe(t *testing.T) {
	p, s := pair(t)
	var cancels []func()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 2 {
			cancel, err := p.Subscribe(t.Context(), "a:b")
			if err != nil {
				t.Error(err)
			}
			cancels = append(cancels, cancel)
		}
	}()
	m := s.read()
	if m.Method != "resources/subscribe" || string(m.Params) != `{"uri":"a:b"}` {
		t.Errorf("the server was sent %s %s", m.Method, m.Params)
	}
	s.write(`{"id":%s,"result":{}}`, m.ID)
	<-done
	cancels[0]()
	cancels[0]()
	cancels[1]()
	if m = s.read(); m.Method != "resources/unsubscribe" {
		t.Errorf("the server was sent %s", m.Method)
	}
	s.write(`{"id":%s,"result":{}}`, m.ID)
	p.Wait()
}

// Subscriptions to a modern server are one request for all, replaced when what is
// wanted changes and renewed when the server ends it.
func TestListenToModernServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := pair(t)
		p.agreed.meta = json.RawMessage(`{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`)
		p.agreed.info.Capabilities = json.RawMessage(`{"tools":{"listChanged":true},"prompts":{}}`)
		p.Subscriptions.Follow(zap.NewNop())
		first := s.read()
		if got := string(wire.Member(first.Params, "notifications")); first.Method != listen || got != `{"toolsListChanged":true}` {
			t.Errorf("subscribed to %s", got)
		}
		cancel, err := p.Subscribe(t.Context(), "a:b")
		expect.OK(t, err)
		second := s.read()
		expect.Equal(t, string(wire.Member(second.Params, "notifications")), `{"toolsListChanged":true,"resourceSubscriptions":["a:b"]}`, "then subscribed to")
		if m := s.read(); m.Method != Cancelled || string(wire.Member(m.Params, "requestId")) != string(first.ID) {
			t.Errorf("then sent %s %s, want the end of the first subscription", m.Method, m.Params)
		}
		s.write(`{"id":%s,"result":{}}`, second.ID)
		if third := s.read(); third.Method != Cancelled && third.Method != listen {
			t.Errorf("after the server ended it: %s", third.Method)
		}
		cancel()
		s.out.Close()
		<-p.Done()
		p.Wait()
	})
}

// One subscription that the server does not answer does not delay another beyond its
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
	expect.List(t, p.Subscriptions.Wanted(), nil, "wanted")
	s.write(`{"id":%s,"result":{}}`, m.ID)
	expect.OK(t, <-first)
}
