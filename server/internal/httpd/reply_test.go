package httpd

import "testing"

// A question of a server can't reach a client that has left, and fails at once.
func TestSendToClientThatLeft(t *testing.T) {
	s := newStream("1")
	s.opens(func() bool { return false })
	if err := s.Send([]byte(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}`)); err != errStreamEnded {
		t.Errorf("%v, want %v", err, errStreamEnded)
	}
}
