package port

import (
	"net"
	"os"
	"slices"
	"testing"
)

func TestListening(t *testing.T) {
	table := []byte(`  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2253 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 111 1 0
   1: 00000000:2253 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 222 1 0
   2: 0100007F:2253 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1000        0 333 1 0
   3: 0200007F:2253 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 444 1 0
   4: 0100007F:2254 00000000:0000 0A
`)
	if got := listening(table, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8787}); !slices.Equal(got, []string{"111", "222"}) {
		t.Errorf("inodes %q", got)
	}
	if got := addressOf("00000000000000000000000001000000"); !got.Equal(net.IPv6loopback) {
		t.Errorf("address %v", got)
	}
	if got := describe(t.Context(), os.Getpid()); got.PID != os.Getpid() || got.Path == "" {
		t.Errorf("this process is %+v", got)
	}
}
