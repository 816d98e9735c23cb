//go:build linux

package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// metarouter is the path of the program under test.
var metarouter string

// long says that the tests take minutes: more faults, and each of them longer.
var long = os.Getenv("METAROUTER_CLUSTER") == "long"

func TestMain(m *testing.M) {
	mcptest.ServeIfAsked()
	layer.Package()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "metarouter-cluster")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	metarouter = filepath.Join(dir, "metarouter")
	build := exec.Command("go", "build", "-o", metarouter, "github.com/mcp-metarouter/metarouter/cmd/metarouter")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the program under test: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
