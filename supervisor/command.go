package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/mcp-metarouter/metarouter/config"
)

// A command is all that a process is started with.
type command struct {
	path      string
	args, env []string
	dir       string
}

// command returns the entry's command as it is written.
func (s *server) command(ctx context.Context, entry config.Server) (command, error) {
	path, search, err := s.v.finder.find(ctx, entry.Command, entry.Cwd, entry.Env["PATH"])
	if err != nil {
		return command{}, &notFoundError{err}
	}
	if entry.Cwd != "" {
		if info, err := os.Stat(entry.Cwd); err != nil || !info.IsDir() {
			return command{}, &notFoundError{&folderError{entry.Cwd}}
		}
	}
	return command{path, entry.Args, environ(os.Environ(), entry.InheritEnv, search, entry.Env), entry.Cwd}, nil
}

// planned returns what is to be run instead of the entry's command, if anything is
// and is still there.
func (s *server) planned(entry config.Server) (c command, ok bool) {
	s.mu.Lock()
	d := s.direct
	s.mu.Unlock()
	if d == nil || !sameProcess(d.entry, entry) {
		return command{}, false
	}
	_, err := os.Stat(d.command.path)
	return d.command, err == nil
}

// spawn starts a process. All that it starts bears the mark.
func (s *server) spawn(c command) (p *process, mark string, err error) {
	mark = fmt.Sprintf("%s.%d.", s.v.reaper.mark, s.v.spawned.Add(1))
	p, err = s.v.reaper.start(c.path, c.args, c.env, c.dir, mark)
	if err != nil {
		err = &spawnError{c.path, err}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			err = &notFoundError{err}
		}
	}
	return p, mark, err
}

// maxOutput bounds what is kept of a command's stdout.
const maxOutput = 4 << 20

// runToEnd runs a command that is no server, with an empty stdin, until it or ctx
// ends, and returns what it printed on stdout. failure says how it ended, "" if in
// order. Like a server it leaves nothing behind, and its stderr goes where a
// server's goes.
func (s *server) runToEnd(ctx context.Context, c command, stderr *tail) (out []byte, failure string, err error) {
	p, mark, err := s.spawn(c)
	if err != nil {
		return nil, "", err
	}
	p.stdin.Close()
	read, copied := make(chan struct{}), make(chan struct{})
	go func() { defer close(copied); stderr.copy(p.stderr, s.stderr) }()
	go func() {
		defer close(read)
		out, _ = io.ReadAll(io.LimitReader(p.stdout, maxOutput))
		io.Copy(io.Discard, p.stdout)
	}()
	select {
	case <-p.exited:
		within(read, graceOutput)
		within(copied, graceOutput)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.stop(false)
	if !s.v.isEnding() { // the supervisor sweeps once for all at its end
		killMarked(mark)
	}
	p.stdout.Close()
	<-read
	p.stderr.Close()
	<-copied
	if err == nil && !p.state.Success() {
		failure = p.epitaph()
	}
	return out, failure, err
}
