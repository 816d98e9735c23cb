package main

import (
	"io"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Other processes of the user can't read the memory of this program, but with --debug,
// and a bundled server's.
func TestProcessIsHidden(t *testing.T) {
	before, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	expect.OK(t, err)
	defer unix.Prctl(unix.PR_SET_DUMPABLE, uintptr(before), 0, 0, 0)
	for _, tc := range []struct {
		args     []string
		dumpable int
	}{
		{[]string{"version"}, 0},
		{[]string{"--debug", "version"}, 1},
		{[]string{"version", "--debug"}, 1},
		{[]string{"builtin", "no-such-server"}, 1},
	} {
		unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
		execute(t.Context(), console.New(nil, io.Discard, io.Discard), tc.args)
		if got, _ := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); got != tc.dumpable {
			t.Errorf("%v: PR_GET_DUMPABLE is %d, want %d", tc.args, got, tc.dumpable)
		}
	}
}
