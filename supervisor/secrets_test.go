//go:build unix

package supervisor

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
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

// The log file of a server hides the same values as its state, and no ordinary ones.
func TestLogFileHidesVariables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := fake("s")
		entry.Env = map[string]string{"API_TOKEN": "tok-value-1", "PASSWORD": "true", "DEBUG": "1", "ROOT": "/home", "LEVEL": "info"}
		f := superviseProgram(t, func(_ []string, _ io.Reader, _, stderr io.Writer) int {
			io.WriteString(stderr, "tok-value-1 1 /home true info\n")
			return 3
		}, entry)
		st := f.await("s", status.Failed)
		log, err := os.ReadFile(filepath.Join(f.data, "logs", "s.log"))
		const want = "${API_TOKEN} 1 /home true info"
		if line, _, _ := strings.Cut(string(log), "\n"); err != nil || line != want || st.Stderr[0] != want {
			t.Errorf("log %q, state %q, %v", log, st.Stderr, err)
		}
	})
}
