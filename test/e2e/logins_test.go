//go:build unix

package e2e

import (
	"bufio"
	"bytes"
	"io"
	"os/exec"
	"testing"
)

// A command is one that runs.
type command struct {
	t      *testing.T
	stdin  io.WriteCloser
	lines  chan string // of stdout
	stderr *bytes.Buffer
	cmd    *exec.Cmd
}

// begin starts a subcommand.
func (s *setup) begin(args ...string) *command {
	s.t.Helper()
	c := &command{t: s.t, lines: make(chan string, 100), stderr: new(bytes.Buffer), cmd: exec.CommandContext(within(s.t), metarouter, s.command(args...)...)}
	c.cmd.Dir, c.cmd.Env, c.cmd.Stderr = s.dir, s.environment(), c.stderr
	stdin, stdout := startPiped(s.t, c.cmd)
	c.stdin = stdin
	go func() {
		defer close(c.lines)
		for text := bufio.NewScanner(stdout); text.Scan(); {
			c.lines <- text.Text()
		}
	}()
	return c
}

// line returns the next line of stdout.
func (c *command) line() string {
	c.t.Helper()
	line, ok := <-c.lines
	if !ok {
		c.t.Fatalf("the command has ended: %v\n%s", c.cmd.Wait(), c.stderr)
	}
	return line
}

// end waits for the end, and returns stderr and the exit code. There must be no further line on
// stdout.
func (c *command) end() (stderr string, code int) {
	c.t.Helper()
	for line := range c.lines {
		c.t.Errorf("a further line on stdout: %s", line)
	}
	_ = c.cmd.Wait() // the code says it
	return c.stderr.String(), c.cmd.ProcessState.ExitCode()
}

// succeed waits for the end, which must be a good one, and returns stderr.
func (c *command) succeed() (stderr string) {
	c.t.Helper()
	stderr, code := c.end()
	if code != 0 {
		c.t.Fatalf("exit code %d: %s", code, stderr)
	}
	return stderr
}
