package functions

import (
	"context"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A session of this process refuses all other methods.
func TestBench(t *testing.T) {
	f := provider(t, "f", Options{})
	var s session.Session = f.server
	if _, err := s.Call(t.Context(), session.Request{Method: "prompts/list"}); err == nil {
		t.Error("it lists prompts")
	}
	if _, err := s.Subscribe(t.Context(), "file:///x"); err == nil {
		t.Error("it takes subscriptions")
	}
	if !s.Info().Has("tools") || s.Info().Has("prompts") {
		t.Errorf("%+v", s.Info())
	}
	expect.OK(t, f.Close())
	<-s.Done()
	if _, err := f.server.Session(context.Background(), "f", nil); err == nil {
		t.Error("it has a session after its end")
	}
}
