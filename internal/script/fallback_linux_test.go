package script

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"golang.org/x/sys/unix"
)

// TestNoExecutableMemory runs a script where no memory can be made executable, as systemd's MemoryDenyWriteExecute
// has it: the interpreter is interpreted.
func TestNoExecutableMemory(t *testing.T) {
	const inside = "METAROUTER_SCRIPT_NO_EXECUTABLE_MEMORY"
	if os.Getenv(inside) == "" {
		command := exec.Command(os.Args[0], "-test.run=^TestNoExecutableMemory$", "-test.v")
		command.Env = append(os.Environ(), inside+"=1")
		out, err := command.CombinedOutput()
		expect.OK(t, err, "%s", out)
		t.Logf("%s", out)
		return
	}
	if err := unix.Prctl(unix.PR_SET_MDWE, unix.PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0); err != nil {
		t.Skip("the kernel can't refuse executable memory:", err)
	}
	if _, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_ANON|unix.MAP_PRIVATE); err == nil {
		t.Fatal("memory can be made executable")
	}
	if o := run1(t, "return (await call('s:t', {x: 3})).x"); o.Err != nil || string(o.Value) != "3" {
		t.Error(o.Err)
	}
	o := engine.Run(t.Context(), Script{Code: "for (;;);"}, fakeHost{}, Options{Limits: Limits{CPU: time.Second}})
	if o.Err == nil || o.Err.Name != "LimitError" {
		t.Error(o.Err)
	}
}
