package status

import (
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestSeveral(t *testing.T) {
	own := Session{7, "ann alone", "the server asks for roots"}
	for _, tc := range []struct {
		s    Status
		want string
	}{
		{Status{State: Ready, PID: 1}, ""},
		{Status{State: Restarting, Sessions: []Session{own}}, ""},
		{Status{State: Ready, PID: 1, Sessions: []Session{own}}, "2 processes: PID 1 is shared; PID 7 is for ann alone, since the server asks for roots"},
		{Status{State: Ready, Sessions: []Session{own}}, "2 sessions: one is shared; one is for ann alone, since the server asks for roots"},
		{Status{State: Ready, Unshared: true, Sessions: []Session{own}}, "sessions: 1, none is shared; one is for ann alone, since the server asks for roots"},
	} {
		expect.Equal(t, tc.s.Several(), tc.want, "%v", tc.s)
	}
	many := Status{State: Ready, PID: 1}
	for range 100 {
		many.Sessions = append(many.Sessions, own)
	}
	if got := many.Several(); !strings.HasPrefix(got, "101 processes: ") || !strings.HasSuffix(got, "; and 96 more") {
		t.Error(got)
	}
}
