//go:build linux

package hostile

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// metarouter is the path of the program under test, program the path of this one, without the race
// detector, which plays the servers.
var metarouter, program string

// builtVariable is the environment variable with the path of a program that was built before.
const builtVariable = "METAROUTER_HOSTILE_BUILT"

func TestMain(m *testing.M) {
	playIfAsked()
	mcptest.ServeIfAsked()
	layer.Package()
	flag.Set("test.parallel", strconv.Itoa(lanes()))
	os.Exit(run(m))
}

// lanes is the number of cases at a time. Most of a case is waiting.
func lanes() int { return 3 * max(runtime.NumCPU(), 2) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "metarouter-hostile")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if metarouter = os.Getenv(builtVariable); metarouter == "" {
		metarouter = filepath.Join(dir, "metarouter")
		build("build", "-race=false", "-o", metarouter, "github.com/mcp-metarouter/metarouter/cmd/metarouter")
	}
	if program, err = os.Executable(); err != nil {
		panic(err)
	}
	if isRace() {
		program = filepath.Join(dir, "program")
		build("test", "-race=false", "-c", "-o", program, ".")
	}
	return m.Run()
}

// build runs the go command. What it builds has no race detector, which would cost more memory
// and time than the router may use.
func build(args ...string) {
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go %s: %v\n%s", args, err, out)
		os.Exit(1)
	}
}

// isRace reports whether this program has the race detector.
func isRace() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
