//go:build linux && !race

package telemetry

import (
	"encoding/binary"
	"os"
	"strconv"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// instructionsVariable makes TestInstructionsOfACall run.
const instructionsVariable = "METAROUTER_INSTRUCTIONS"

// maxInstructions bounds the instructions of a call of 100 bytes over stdio. It is an estimate, since the machines on which it
// was written have no counters: where one counts, write the measured figure here.
const maxInstructions = 400_000

// TestInstructionsOfACall counts the instructions of this process in user mode, which other work of
// the machine does not change. It needs a CPU with counters that the kernel can read: most
// virtual machines lack them.
func TestInstructionsOfACall(t *testing.T) {
	if os.Getenv(instructionsVariable) == "" {
		t.Skip(instructionsVariable + " is not set")
	}
	const calls = 5000
	p := newPath(t)
	line := echoCall(100)
	for range calls { // until all threads run
		p.ask(t, line)
	}
	counters := countInstructions(t)
	for range calls {
		p.ask(t, line)
	}
	var sum uint64
	for _, counter := range counters {
		sum += counter()
	}
	if sum == 0 {
		t.Skip("this machine counts no instructions")
	}
	t.Logf("%d instructions for each call", sum/calls)
	if sum/calls > maxInstructions {
		t.Errorf("a call takes %d instructions, want at most %d", sum/calls, maxInstructions)
	}
}

// countInstructions starts a counter for each thread of this process, and returns the function that reads them. It skips
// the test where the kernel refuses.
func countInstructions(t *testing.T) (counters []func() uint64) {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	expect.OK(t, err)
	attributes := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_INSTRUCTIONS,
		Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		expect.OK(t, err)
		counter, err := unix.PerfEventOpen(&attributes, id, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			t.Skipf("the kernel counts no instructions here: perf_event_open: %v", err)
		}
		t.Cleanup(func() { unix.Close(counter) })
		counters = append(counters, func() uint64 {
			var count [8]byte
			_, err := unix.Read(counter, count[:])
			expect.OK(t, err, "read a counter of instructions")
			return binary.NativeEndian.Uint64(count[:])
		})
	}
	return counters
}
