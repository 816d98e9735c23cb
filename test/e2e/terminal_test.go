//go:build linux

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A pty is a terminal whose other side is the test.
type pty struct {
	master, slave *os.File

	mu   sync.Mutex
	text bytes.Buffer
	done chan struct{}
}

func openPTY(t *testing.T, columns, rows uint16) *pty {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	}
	expect.OK(t, err)
	slave, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	expect.OK(t, err)
	p := &pty{master: master, slave: slave, done: make(chan struct{})}
	go func() { // ends when the last process has closed the other side
		defer close(p.done)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			p.mu.Lock()
			p.text.Write(buf[:n])
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { slave.Close(); <-p.done; master.Close() })
	return p
}

func (p *pty) shown() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// onTerminal starts a subcommand whose stdout and stderr are the terminal.
func (s *setup) onTerminal(p *pty, env []string, args ...string) *exec.Cmd {
	s.t.Helper()
	cmd := exec.CommandContext(within(s.t), metarouter, s.command(args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, p.slave, p.slave
	cmd.Stdin = io.LimitReader(nil, 0)
	cmd.Env = append(append(os.Environ(), "TERM=xterm", "NO_COLOR="), env...)
	expect.OK(s.t, cmd.Start())
	return cmd
}

// A person sees how servers start, and then the table.
func TestTerminal(t *testing.T) {
	t.Parallel()
	row := regexp.MustCompile(`SERVER.*PROTOCOL.*\n.*late.*ready.*\n`)
	command, args := mcptest.Command("-tool", "a: A.")
	for name, tc := range map[string]struct {
		env      []string
		coloured bool
	}{
		"colours":  {nil, true},
		"NO_COLOR": {[]string{"NO_COLOR=1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			gate := filepath.Join(t.TempDir(), "gate") // the server starts once it is there
			s := prepare(t, entries{"late": {"command": "sh", "args": append([]string{"-c", `while ! test -e "$0"; do sleep 0.1; done; exec "$@"`, gate, command}, args...)}}, nil)
			p := openPTY(t, 80, 24)
			cmd := s.onTerminal(p, tc.env, "servers")
			mcptest.WaitFor(t, "a line", func() bool {
				return regexp.MustCompile(`0 of 1 server ready, 0 tools, 1 starting, \d s: late \d s`).MatchString(p.shown())
			})
			expect.OK(t, writeFile(gate, ""))
			expect.OK(t, cmd.Wait())
			mcptest.WaitFor(t, "the table", func() bool { return row.MatchString(p.shown()) })
			text := p.shown()
			expect.Equal(t, strings.Contains(text, "\x1b[32mready\x1b[0m"), tc.coloured, "in colours: %q", text)
		})
	}
}

// serve shows it too, between the lines of its log.
func TestTerminalOfServe(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	s := prepare(t, entries{"late": fake("-mute"), "quick": fake("-tool", "a: A.")}, nil)
	p := openPTY(t, 80, 24)
	cmd := s.onTerminal(p, nil, "serve", "--http", mcptest.FreeAddress(t))
	mcptest.WaitFor(t, "a line", func() bool {
		return strings.Contains(p.shown(), "1 of 2 servers ready, 1 tool, 1 starting")
	})
	cmd.Process.Signal(os.Interrupt)
	expect.OK(t, cmd.Wait())
	expect.Contains(t, p.shown(), "server is ready", "its log is not there")
}

// servers --watch follows a running router, survives its end, and is interrupted.
func TestWatch(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	s := prepare(t, entries{"quick": fake("-tool", "a: A.")}, nil)
	_, router := s.serveHTTP()
	mcptest.WaitFor(t, "the router to take commands", func() bool {
		_, stderr, _ := s.run("restart", "quick")
		return !strings.Contains(stderr, "no router runs")
	})
	p := openPTY(t, 80, 24)
	cmd := s.onTerminal(p, []string{"NO_COLOR=1"}, "servers", "--watch")
	sees := func(text string) {
		t.Helper()
		mcptest.WaitFor(t, text, func() bool {
			return strings.Contains(p.shown()[max(0, strings.LastIndex(p.shown(), "waiting for the next one")):], text)
		})
	}
	sees("quick: ready, 1 tool")
	s.write(entries{"quick": fake("-tool", "a: A."), "new": fake("-tool", "b: B.")}, nil)
	sees("new: ready, 1 tool")
	router.Cmd.Process.Signal(os.Interrupt)
	<-router.Done
	sees("waiting for the next one")
	s.serveHTTP()
	sees("new: ready, 1 tool")
	cmd.Process.Signal(os.Interrupt)
	expect.OK(t, cmd.Wait())
}
