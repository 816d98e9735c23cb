package external

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/internal/filelock"
	"github.com/mcp-metarouter/metarouter/test/mcptest"

	"github.com/mcp-metarouter/metarouter/test/layer"
)

// EverythingServer builds the Go SDK's own server for the conformance suite, once into the
// user's cache, and returns its path. Over stdio it speaks both eras; fakeserver.OnlyEra
// restricts it to one. A short test run skips the test.
func EverythingServer(t testing.TB) string {
	t.Helper()
	layer.Integration(t)
	path, unlock := cached(t, "everything-server")
	defer unlock()
	// go build does nothing if the program is up to date.
	build := exec.Command("go", "build", "-o", path, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the everything-server: %v\n%s", err, out)
	}
	return path
}

// cached returns the path of a program in the user's cache, locked against other test
// processes that build it, until unlock is called.
func cached(t testing.TB, name string) (path string, unlock func()) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "metarouter-test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := filelock.Lock(filepath.Join(dir, name+".lock"), true)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name), func() { lock.Close() }
}

// EverythingHTTP starts that server behind streamable HTTP and returns its URL. A stateless
// server speaks the modern era, another one the legacy era.
func EverythingHTTP(t testing.TB, stateless bool) string {
	t.Helper()
	address := mcptest.FreeAddress(t)
	mcptest.Start(t, EverythingServer(t), []string{"-http=" + address, fmt.Sprintf("-stateless=%v", stateless)}, t.TempDir(), nil)
	mcptest.Listening(t, address)
	return "http://" + address + "/mcp"
}
