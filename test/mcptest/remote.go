package mcptest

import (
	"os"
	"path/filepath"
	"testing"
)

// Remote starts the fake server with these flags behind a transport, "http" for streamable
// HTTP or "sse" for HTTP with SSE as of 2024-11-05, and returns its URL. The server ends with
// the test. TestMain must call [Main] or [ServeIfAsked].
func Remote(t testing.TB, transport string, flags ...string) (url string, process *Client) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "url")
	command, args := Command(append([]string{"-" + transport, file}, flags...)...)
	process = Start(t, command, args, t.TempDir(), nil)
	WaitFor(t, "the fake server to listen", func() bool {
		b, err := os.ReadFile(file)
		url = string(b)
		return err == nil
	})
	return url, process
}
