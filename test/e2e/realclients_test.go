//go:build linux

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// aloneVariable is set in the run of TestRealClients that has no network but its own loopback.
const aloneVariable = "METAROUTER_E2E_ALONE"

// The command lines of Claude Code, Codex and Gemini, each with a home folder of its own, use the
// router as they are installed. The test plays their language models. They run in a network
// namespace in which there is nothing but this test.
func TestRealClients(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	modules, node := external.ClientModules(t), external.Node22(t)
	if os.Getenv(aloneVariable) == "" {
		runAlone(t)
		return
	}
	expect.OK(t, raiseLoopback())
	claude := []string{filepath.Join(modules, "@anthropic-ai", "claude-code-linux-"+npmArchitecture(), "claude")}
	gemini := []string{node, filepath.Join(modules, "@google", "gemini-cli", "bundle", "gemini.js")}
	codex, _ := filepath.Glob(filepath.Join(modules, "@openai", "codex-linux-"+npmArchitecture(), "vendor", "*", "bin", "codex"))
	t.Run("codex", func(t *testing.T) { testCodex(t, codex) })
	t.Run("claude", func(t *testing.T) { testClaude(t, claude) })
	t.Run("gemini", func(t *testing.T) { testGemini(t, gemini) })
}

func npmArchitecture() string {
	if runtime.GOARCH == "amd64" {
		return "x64"
	}
	return runtime.GOARCH
}

// runAlone runs the test again in a network namespace of its own.
func runAlone(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	expect.OK(t, err)
	cmd := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=15m")
	cmd.Env = append(os.Environ(), builtVariable+"="+metarouter, aloneVariable+"=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if id := os.Geteuid(); id != 0 { // only root may do this, at least in a user namespace of its own
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	runtime.LockOSThread() // whose end is what Pdeathsig waits for
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		external.Unavailable(t, "the system gives this test no network namespace of its own: "+err.Error())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, out.Bytes())
		return
	}
	t.Logf("%s", out.Bytes())
}

func raiseLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, lo)
}

// A user has a home folder with a configuration of metarouter at its usual place, and a client.
type user struct {
	*setup
	home, work string
	client     []string
	env        []string // of the client, beyond what every program needs
}

// newUser returns the user of a client. The configuration has one server, "work".
func newUser(t *testing.T, client []string, mode string, env ...string) *user {
	t.Helper()
	home, err := os.MkdirTemp("", "home") // short, since a socket's address is
	expect.OK(t, err)
	u := &user{home: home, work: filepath.Join(home, "project"), client: client}
	u.env = append(env, "WORK_TOKEN=none")
	u.setup = &setup{t: t, dir: u.work, config: filepath.Join(home, ".config", "metarouter", "mcp.json")}
	for _, folder := range []string{u.work, filepath.Dir(u.config), filepath.Join(home, "tmp")} {
		expect.OK(t, os.MkdirAll(folder, 0o700))
	}
	work := fake("-tools", "echo,pid")
	work["env"] = map[string]string{"TOKEN": "${WORK_TOKEN}"} // without which it does not start
	u.write(entries{"work": work}, map[string]any{"mode": mode, "listWait": "60s"})
	t.Cleanup(func() {
		u.nothingRuns()
		if crash, _ := os.ReadFile(filepath.Join(home, ".cache", "metarouter", "crashes.log")); len(crash) > 0 {
			t.Errorf("the shared router has crashed:\n%s", crash)
		}
		os.RemoveAll(home)
	})
	return u
}

// run runs a program in the user's project, and returns its output. It must succeed.
func (u *user) run(program ...string) string {
	u.t.Helper()
	cmd := exec.CommandContext(within(u.t), program[0], program[1:]...)
	cmd.Dir = u.work
	cmd.Env = append([]string{
		"HOME=" + u.home, "TMPDIR=" + filepath.Join(u.home, "tmp"), "TERM=xterm-256color",
		"PATH=" + filepath.Dir(metarouter) + string(os.PathListSeparator) + os.Getenv("PATH"),
	}, u.env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		u.t.Fatalf("%q: %v\n%s", program[1:], err, out)
	}
	return string(out)
}

// use runs the client.
func (u *user) use(args ...string) string {
	u.t.Helper()
	return u.run(append(u.client, args...)...)
}

// nothingRuns waits until the client has left no router and no server behind.
func (u *user) nothingRuns() {
	u.t.Helper()
	mcptest.WaitFor(u.t, "the processes of the user to end", func() bool {
		for _, line := range commandLines(u.t) {
			if strings.Contains(line, u.home+"/") {
				return false
			}
		}
		return true
	})
}
