package httpd

import (
	"context"
	"net/http"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A question of a server can't reach a client that has left, and fails at once.
func TestSendToClientThatLeft(t *testing.T) {
	ctx, leave := context.WithCancel(context.WithValue(t.Context(), requestKey{}, new(request)))
	leave()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "/mcp", nil)
	expect.OK(t, err)
	s := newStream("1")
	s.opens(&reply{r: r})
	expect.Equal(t, s.Send([]byte(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}`)), errStreamEnded)
}
