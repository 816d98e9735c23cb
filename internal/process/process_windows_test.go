package process

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "router" {
		playRouter()
		return
	}
	mcptest.Main(m)
}

// playRouter opens a Starter and closes it, and prints the process id of a process that it then starts.
func playRouter() {
	s := NewStarter([]string{"guard"}, make(chan struct{}), zap.NewNop())
	if err := s.Open(); err != nil {
		fmt.Println(err)
		return
	}
	s.Close()
	command, args := mcptest.Command("-only-sleep", "-lifetime", "1m")
	cmd := exec.Command(command, args...)
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cmd.Process.Pid)
}

// A process that was started after the Starter was closed outlives this process.
func TestCloseLeavesTheJob(t *testing.T) {
	self, err := os.Executable()
	expect.OK(t, err)
	out, err := exec.Command(self, "router").Output()
	expect.OK(t, err)
	pid, err := strconv.Atoi(string(out[:len(out)-1]))
	expect.OK(t, err, "%q", out)
	if !mcptest.Alive(pid) {
		t.Fatal("the process has ended with the router")
	}
	if p, err := os.FindProcess(pid); err == nil {
		p.Kill()
	}
}
