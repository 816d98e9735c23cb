//go:build unix

package process

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// The test binary plays the process guard.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "guard" {
		if len(os.Args) > 2 {
			fmt.Fprintln(os.Stderr, ExecShim(os.Args[3:]))
			os.Exit(1)
		}
		RunGuard(os.Stdin)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func guardCommand() []string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return []string{self, "guard"}
}

// ignoresTerm reports whether the process ignores SIGTERM; where the system does
// not say, it leaves it some time.
func ignoresTerm(t *testing.T, pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		time.Sleep(3 * time.Second)
		return true
	}
	_, rest, _ := strings.Cut(string(status), "SigIgn:")
	var mask uint64
	if _, err := fmt.Sscanf(rest, "%x", &mask); err != nil {
		t.Fatal(err)
	}
	return mask&(1<<(syscall.SIGTERM-1)) != 0
}

// Behind the exec shim nothing executes before its group is registered, nor if the
// router dies before that.
func TestExecShim(t *testing.T) {
	t.Parallel()
	for _, opened := range []bool{true, false} {
		cmd := exec.Command("echo", "through")
		g := &guard{command: guardCommand()}
		open, shut, err := behindShim(cmd, g)
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if opened {
			open()
		} else {
			shut()
		}
		said, _ := io.ReadAll(out)
		cmd.Wait()
		if want := map[bool]string{true: "through\n", false: ""}[opened]; string(said) != want {
			t.Errorf("opened %v: the command said %q", opened, said)
		}
	}
}

// The guard ignores the signals that end a router. When its pipe closes, it kills a
// group that is registered, and not one that was struck off.
func TestGuardKillsWhatIsRegistered(t *testing.T) {
	t.Parallel()
	start := func() *exec.Cmd {
		cmd := exec.Command("sleep", "600")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	registered, struckOff := start(), start()
	defer struckOff.Process.Kill()
	guard := exec.Command(guardCommand()[0], "guard")
	pipe, err := guard.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := guard.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(pipe, "mark of-this-test\n+ %d\n+ %d\n- %d\nnonsense\n+ 1\n", registered.Process.Pid, struckOff.Process.Pid, struckOff.Process.Pid)
	mcptest.WaitFor(t, "the guard to ignore signals", func() bool { return ignoresTerm(t, guard.Process.Pid) })
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		guard.Process.Signal(sig)
	}
	if !mcptest.Alive(registered.Process.Pid) || !mcptest.Alive(guard.Process.Pid) {
		t.Error("the guard acted on a signal")
	}
	pipe.Close()
	registered.Wait()
	if err := guard.Wait(); err != nil {
		t.Errorf("the guard: %v", err)
	}
	if !mcptest.Alive(struckOff.Process.Pid) {
		t.Error("a group that was struck off was killed")
	}
	struckOff.Process.Kill()
	struckOff.Wait()
}
