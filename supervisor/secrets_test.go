//go:build unix

package supervisor

import (
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/reference"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// A server whose secret is missing fails at once, and the reason names the command.
func TestMissingSecret(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	f := supervise(t, config.Server{
		Name: "s", Transport: config.Stdio, Command: "sh", StartTimeout: 20 * time.Second, Env: map[string]string{"T": "${keyring:GH}"},
		References: []reference.Reference{{Text: "${keyring:GH}", Kind: reference.Keyring, Body: "GH"}},
	})
	st := f.await("s", status.Failed)
	if want := "the secret GH is not set; run: metarouter secret set GH"; st.LastError != want || st.Fault.Kind != status.NoSecret {
		t.Errorf("%q, %+v; want %q", st.LastError, st.Fault, want)
	}
}
