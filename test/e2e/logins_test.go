//go:build unix

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
)

// logInWith runs the command that logs in at a server. It calls person with each line that the command
// writes to stdout; stdin is that of the command. The error is that of the command, with what it
// wrote to stderr, else that of person.
func (s *setup) logInWith(ctx context.Context, server string, person func(line string, stdin io.Writer) error, flags ...string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, metarouter, s.command(append([]string{"login", server}, flags...)...)...)
	cmd.Dir, cmd.Env = s.dir, s.environment()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var failed error
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if failed == nil {
			if failed = person(lines.Text(), in); failed != nil {
				cancel() // the command would wait for minutes
			}
		}
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		if failed != nil {
			return fmt.Errorf("%w: %s (the person: %v)", err, &stderr, failed)
		}
		return fmt.Errorf("%w: %s", err, &stderr)
	}
	return failed
}
