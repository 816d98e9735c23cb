//go:build unix

package process

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/keeper"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// The test binary plays the process guard, a router, servers and what they start.
func TestMain(m *testing.M) {
	Open(os.Args)
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "guard":
			RunGuard(os.Stdin)
			os.Exit(0)
		case "play":
			play(os.Args[2:])
			os.Exit(0)
		}
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

// The guard does not end by the signals that end a router. When its socket closes, it
// kills a group that is registered, and not one that was struck off.
func TestGuardKillsWhatIsRegistered(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	start := func() *exec.Cmd {
		cmd := exec.Command("sleep", "600")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		expect.OK(t, cmd.Start())
		return cmd
	}
	registered, struckOff := start(), start()
	defer struckOff.Process.Kill()
	g, err := startGuard(guardCommand(), "of-this-test", nil, zap.NewNop())
	expect.OK(t, err)
	g.add(registered.Process.Pid, nil)
	g.add(struckOff.Process.Pid, nil)
	g.remove(struckOff.Process.Pid)
	// A server that has started shows that the orders before it were carried out.
	null, _ := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	defer null.Close()
	server, l, err := g.start(keeper.Start{Path: "/bin/sleep", Args: []string{"sleep", "600"}, Dir: "/", Number: 1}, null, null, null)
	expect.OK(t, err)
	defer l.conn.Close()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		g.process.Signal(sig)
	}
	if _, _, err := g.start(keeper.Start{Path: "/no/such/file", Args: []string{"x"}, Dir: "/", Number: 2}, null, null, null); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("start of a program that does not exist: %v", err)
	}
	if !mcptest.Alive(registered.Process.Pid) || !mcptest.Alive(g.pid()) || !mcptest.Alive(server) {
		t.Error("the guard acted on a signal")
	}
	guard := g.pid()
	g.mu.Lock()
	g.closing = true
	g.conn.Close() // as a router's death does
	g.mu.Unlock()
	registered.Wait()
	g.watched.Wait()
	if mcptest.Alive(guard) || mcptest.Alive(server) {
		t.Error("the guard or its server runs")
	}
	if !mcptest.Alive(struckOff.Process.Pid) {
		t.Error("a group that was struck off was killed")
	}
	struckOff.Process.Kill()
	struckOff.Wait()
}

// When a guard process is killed, another one is started.
func TestGuardIsStartedAgain(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	g, err := startGuard(guardCommand(), "of-this-test", nil, zap.NewNop())
	expect.OK(t, err)
	first := g.pid()
	syscall.Kill(first, syscall.SIGKILL)
	mcptest.WaitFor(t, "another guard process", func() bool {
		if !g.mu.TryLock() { // held as long as the start takes
			return false
		}
		defer g.mu.Unlock()
		return g.process.Pid != first
	})
	g.close()
}
