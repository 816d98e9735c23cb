package process

import (
	"context"
	"io"

	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// maxOutput bounds the kept bytes of a command's stdout.
const maxOutput = 4 << 20

// Run runs a command that is no server, with an empty stdin, until it or ctx ends,
// and returns its stdout. Its stderr goes to tail and file. failure says how the
// command ended, "" if it succeeded. Like a server it leaves no process behind.
func (s *Starter) Run(ctx context.Context, c Command, stderr *Tail, file *LogFile) (out []byte, failure string, err error) {
	p, err := s.start(c)
	if err != nil {
		return nil, "", err
	}
	p.Stdin.Close()
	read, copied := make(chan struct{}), make(chan struct{})
	go func() { defer close(copied); stderr.Copy(p.Stderr, file) }()
	go func() {
		defer close(read)
		out, _ = io.ReadAll(io.LimitReader(p.Stdout, maxOutput))
		io.Copy(io.Discard, p.Stdout)
	}()
	select {
	case <-p.Exited:
		signal.Within(read, GraceOutput)
		signal.Within(copied, GraceOutput)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.Stop(false)
	p.Stdout.Close()
	<-read
	p.Stderr.Close()
	<-copied
	if err == nil && p.end != (exit{}) {
		failure = p.ExitReason()
	}
	return out, failure, err
}
