package identity

import (
	"net/http"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
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
