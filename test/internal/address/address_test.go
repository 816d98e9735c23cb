package address

import (
	"net"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Each address is another one, also when nothing listens there any more, and a program can listen there.
func TestFree(t *testing.T) {
	seen := map[string]bool{}
	for range 500 { // of 20,000: if they could repeat, about 6 would
		a, err := Free()
		expect.OK(t, err)
		if seen[a] {
			t.Fatalf("%s came twice", a)
		}
		seen[a] = true
	}
	a, err := Free()
	expect.OK(t, err)
	l, err := net.Listen("tcp", a)
	expect.OK(t, err)
	l.Close()
}
