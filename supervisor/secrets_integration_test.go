//go:build unix

package supervisor

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/reference"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// A token that has expired is replaced in the middle of a session: its command runs again,
// once, and the call is answered.
func TestExpiredTokenOfACommand(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	folder := t.TempDir()
	token, runs := filepath.Join(folder, "token"), filepath.Join(folder, "runs")
	write := func(text string) {
		expect.OK(t, os.WriteFile(token, []byte(text+"\n"), 0o600))
	}
	write("one")
	var valid atomic.Value
	valid.Store("one")
	server := newFar(t, func(f *far) {
		f.id = "s"
		f.early = func(w http.ResponseWriter, v visit) bool {
			if v.Header.Get("Authorization") == "Bearer "+valid.Load().(string) {
				return false
			}
			http.Error(w, "bad token "+v.Header.Get("Authorization"), http.StatusUnauthorized)
			return true
		}
	})
	entry := at(server.URL, config.StreamableHTTP)
	body := "cat token; echo run >> runs"
	entry.Headers = map[string]string{"Authorization": "Bearer ${cmd:" + body + "}"}
	entry.References = []reference.Reference{{Text: "${cmd:" + body + "}", Kind: reference.Command, Body: body, Dir: folder}}
	f := superviseProcesses(t, t.TempDir(), entry)
	f.await("r", status.Ready)
	ran := func() int {
		data, _ := os.ReadFile(runs)
		return strings.Count(string(data), "run")
	}
	expect.Equal(t, ran(), 1, "the command ran … times for the start")
	write("two")
	valid.Store("two")
	expect.Contains(t, f.mustCall("r", "echo", "{}"), "called", "answer")
	expect.Equal(t, ran(), 2, "the command ran … times")
}
