package supervisor

import (
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
)

// What is read of stderr goes into errors, which clients, logs and terminals show.
func TestTailIsPlain(t *testing.T) {
	entry := config.Server{Env: map[string]string{"API_TOKEN": "/s3cret"}, Args: []string{"--key", "hunter3"}}
	words := tail{conceal: concealer(entry)}
	words.copy(strings.NewReader("\x1b[31mbad\x1b[0m token /s3\x1b[1mcret\x1b[0m\n\x1b]52;c;aGk=\x07key hunter3\ta\u202eb\n"), newLogFile("", "s"))
	if got, want := lastWords(&words), "; its last lines on stderr: bad token ${API_TOKEN} | key … ab"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// An entry that is not to be started is never said to be starting.
func TestStateAtFirst(t *testing.T) {
	v := &Supervisor{log: zap.NewNop()}
	for want, entry := range map[State]config.Server{
		Starting: {}, Disabled: {Disabled: true}, Misconfigured: {Misconfigured: "no"}, Self: {Self: true},
	} {
		if got := newServer(v, entry).status.State; got != want {
			t.Errorf("it is %s, want %s", got, want)
		}
	}
}
