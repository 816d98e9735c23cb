package identity

import (
	"net/http"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A client learns from the header, the text and the data alike when it may try again.
func TestBusy(t *testing.T) {
	for wait, want := range map[time.Duration]string{time.Millisecond: "1", 1500 * time.Millisecond: "2", time.Minute: "60"} {
		d, h := Busy(http.StatusTooManyRequests, wait, "too many"), make(http.Header)
		d.Write(h)
		e := conversation.AsError(d.Err)
		if h.Get("Retry-After") != want || e.Message != "too many; try again in "+want+" s" || string(e.Data) != `{"retry_after":`+want+`}` {
			t.Errorf("%v: %v %+v", wait, h, e)
		}
	}
}

func TestNetwork(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1", "[2001:db8:1:2:3::4]:80": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:80": "fe80::/64", "[::1]:80": "::/64", "pipe": "pipe", "name:80": "name",
	} {
		expect.Equal(t, Network(remote), want, "%s", remote)
	}
}
