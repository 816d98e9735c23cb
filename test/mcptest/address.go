package mcptest

import (
	"net"
	"testing"
)

// FreeAddress returns an address of this machine on which no program listened just now.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Listening waits until a program listens on the address.
func Listening(t testing.TB, address string) {
	t.Helper()
	WaitFor(t, "a listener on "+address, func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}
