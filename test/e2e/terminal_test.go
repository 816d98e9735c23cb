//go:build linux

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A pty is a terminal whose other side is the test.
type pty struct {
	slave *os.File

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
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &pty{slave: slave, done: make(chan struct{})}
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
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	return cmd
}

const up = "\x1b[2A" // to the first of two live lines

// Where there is little room, what few look at makes room for what all do.
func TestNarrowTerminal(t *testing.T) {
	t.Parallel()
	s := prepare(t, entries{"quick": fake("-tool", "a: A.")}, nil)
	p := openPTY(t, 40, 24)
	if err := s.onTerminal(p, []string{"NO_COLOR=1"}, "servers").Wait(); err != nil {
		t.Fatal(err)
	}
	mcptest.WaitFor(t, "the table", func() bool { return strings.Contains(p.shown(), "quick   ready") })
	if text := p.shown(); !strings.Contains(text, "SERVER  STATE  TOOLS  LAST ERROR") || strings.Contains(text, "PROTOCOL") {
		t.Errorf("shown:\n%s", text)
	}
}

// A person sees how servers start, and at the end the table and nothing else.
func TestTerminal(t *testing.T) {
	t.Parallel()
	s := prepare(t, entries{"late": fake("-start-delay", "1500ms", "-tool", "a: A.")}, nil)
	for name, tc := range map[string]struct {
		env            []string
		live, coloured bool
	}{
		"colours":  {nil, true, true},
		"NO_COLOR": {[]string{"NO_COLOR=1"}, true, false},
		"dumb":     {[]string{"TERM=dumb"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := openPTY(t, 80, 24)
			cmd := s.onTerminal(p, tc.env, "servers")
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			mcptest.WaitFor(t, "the table", func() bool { return strings.Contains(p.shown(), "late") && strings.Contains(p.shown(), "PROTOCOL") })
			text := p.shown()
			if live := strings.Contains(text, up) && strings.Contains(text, "0 of 1 servers ready") && strings.Contains(text, "1 starting"); live != tc.live {
				t.Errorf("it shows how servers start: %v\n%q", live, text)
			}
			if coloured := strings.Contains(text, "\x1b[32mready\x1b[0m"); coloured != tc.coloured {
				t.Errorf("in colours: %v\n%q", coloured, text)
			}
			if _, rest, ok := strings.Cut(text, "SERVER"); !ok || strings.Contains(rest, "\x1b[J") {
				t.Errorf("something is drawn after the table\n%q", text)
			}
			if tc.live && !strings.Contains(text, up+"\r\x1b[J") {
				t.Errorf("what was drawn was not taken away\n%q", text)
			}
		})
	}
}

// serve shows it too, its log above, and leaves the terminal clean when it is interrupted.
func TestTerminalOfServe(t *testing.T) {
	t.Parallel()
	s := prepare(t, entries{"late": fake("-mute"), "quick": fake("-tool", "a: A.")}, nil)
	p := openPTY(t, 80, 24)
	cmd := s.onTerminal(p, nil, "serve", "--http", mcptest.FreeAddress(t))
	mcptest.WaitFor(t, "the live table", func() bool {
		return strings.Contains(p.shown(), "1 of 2 servers ready, 1 tool, 1 starting")
	})
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	const erased = "\x1b[3A\r\x1b[J"
	mcptest.WaitFor(t, "it to be taken away", func() bool {
		_, after, ok := strings.Cut(p.shown(), erased)
		return ok && !strings.Contains(after[strings.LastIndex(after, "\x1b")+1:], "starting")
	})
	if !strings.Contains(p.shown(), "server is ready") {
		t.Errorf("its log is not there\n%q", p.shown())
	}
}
