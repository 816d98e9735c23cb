package external

import (
	"os/exec"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/layer"
)

// MCPGo builds testdata/mcpgo, a client made with mcp-go, once into the user's cache, and
// returns its path. Where its modules can't be downloaded the test is skipped, or fails if CI is
// set in the environment. A short test run skips it too.
func MCPGo(t testing.TB) string {
	t.Helper()
	layer.Integration(t)
	source, err := inModule("testdata/mcpgo")
	if err != nil {
		t.Fatal(err)
	}
	path, unlock := cached(t, "mcpgo")
	defer unlock()
	get := exec.Command("go", "mod", "download")
	get.Dir = source
	if out, err := get.CombinedOutput(); err != nil {
		Unavailable(t, "mcp-go can't be downloaded: "+string(out))
	}
	build := exec.Command("go", "build", "-race=false", "-o", path, ".") // does nothing if the program is up to date
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the client made with mcp-go: %v\n%s", err, out)
	}
	return path
}
