package mcptest

import (
	"net"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/internal/address"
)

// FreeAddress returns an address of this machine on which no program listened just now, another one
// with each call.
func FreeAddress(t testing.TB) string {
	t.Helper()
	free, err := address.Free()
	if err != nil {
		t.Fatal(err)
	}
	return free
}

// Listening waits until a program listens at an address.
func Listening(t testing.TB, at string) {
	t.Helper()
	WaitFor(t, "a listener on "+at, func() bool {
		c, err := net.Dial("tcp", at)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}
