package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
)

// The process guard is the beginning of the program's initialisation, not the whole program.
// If this test fails, look which import of package keeper or early is new.
func TestGuardIsEarly(t *testing.T) {
	if len(os.Args) == 2 && os.Args[1] == "guard" { // this process was to be the guard, and would start another
		os.Exit(exit.Failed)
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	router, stdin := os.NewFile(uintptr(fds[0]), "router"), os.NewFile(uintptr(fds[1]), "stdin")
	syscall.CloseOnExec(fds[0])
	var said bytes.Buffer
	guard := exec.Command(self, "guard")
	guard.Stdin, guard.Stderr, guard.Env = stdin, &said, []string{"GODEBUG=inittrace=1"}
	err = guard.Start()
	stdin.Close()
	router.Close() // at which the guard ends
	if err != nil {
		t.Fatal(err)
	}
	if err := guard.Wait(); err != nil {
		t.Fatal(err)
	}
	initialised := regexp.MustCompile(`(?m)^init (\S+) .* (\d+) bytes`).FindAllStringSubmatch(said.String(), -1)
	heap := 0
	for _, p := range initialised {
		if strings.HasPrefix(p[1], "crypto/") && !strings.Contains(p[1], "fips140deps") || p[1] == "encoding/json" || p[1] == "net" || p[1] == "strings" {
			t.Errorf("%s is initialised before the guard", p[1])
		}
		n, _ := strconv.Atoi(p[2])
		heap += n
	}
	if len(initialised) < 10 || heap > 100<<10 {
		t.Errorf("%d packages allocate %d bytes before the guard:\n%s", len(initialised), heap, said.String())
	}
}
