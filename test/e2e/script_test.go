//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mcp-metarouter/metarouter/test/fakeserver"
)

// The scripts are sessions of the command line. HOME is an empty folder. $FAKE, with flags behind it,
// is a shell's command for the fake server. "await PATTERN PROGRAM
// ARGS" runs a program until what it prints matches.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", filepath.Dir(metarouter)+string(os.PathListSeparator)+os.Getenv("PATH"))
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("SHELL", "/bin/false") // else its login shell's folders come first
			env.Setenv("XDG_CACHE_HOME", filepath.Join(env.WorkDir, "cache"))
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
			fake, args := fakeserver.Command()
			env.Setenv("FAKE", fake+" "+strings.Join(args, " "))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"await": await},
	})
}

func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: await PATTERN PROGRAM ARGS")
	}
	pattern, err := regexp.Compile(args[0])
	ts.Check(err)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(2 * time.Minute); ; {
		_ = ts.Exec(args[1], args[2:]...) // that it fails is not yet the end
		if pattern.MatchString(ts.ReadFile("stdout")) || pattern.MatchString(ts.ReadFile("stderr")) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("nothing matches %s", pattern)
		}
	}
}
