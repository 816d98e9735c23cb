package status

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// The error says once that a server needs a token.
func TestUnavailable(t *testing.T) {
	for want, e := range map[string]*UnavailableError{
		`server "a" needs a token: its one is refused`: {Server: "a", State: NeedsAuth, Reason: "needs a token: its one is refused"},
		`server "a" needs a login: nobody has logged in to it yet; run: metarouter login a`: {
			Server: "a", State: NeedsAuth, Reason: "nobody has logged in to it yet; run: metarouter login a", Login: NeverLoggedIn},
		`server "a" failed: it ended`: {Server: "a", State: Failed, Reason: "it ended"},
		`server "a" is idle`:          {Server: "a", State: Idle},
	} {
		expect.Equal(t, e.Error(), want)
	}
}
