package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// launch starts the entry's process and what reads from it.
func (s *server) launch(ctx context.Context, entry config.Server) (*instance, error) {
	path, search, err := s.v.finder.find(ctx, entry.Command, entry.Cwd, entry.Env["PATH"])
	if err != nil {
		return nil, &notFoundError{err}
	}
	mark := fmt.Sprintf("%s.%d.", s.v.reaper.mark, s.v.spawned.Add(1))
	env := environ(os.Environ(), entry.InheritEnv, search, entry.Env)
	p, err := s.v.reaper.start(path, entry.Args, env, entry.Cwd, mark)
	if err != nil {
		return nil, &notFoundError{fmt.Errorf("start %s: %w", path, err)}
	}
	in := &instance{
		process:     p,
		entry:       entry,
		mark:        mark,
		done:        make(chan struct{}),
		listChanged: make(chan struct{}, 1),
	}
	in.peer = newPeer(p.stdin, s.stray)
	s.own.Go(func() { s.live(in) })
	return in, nil
}

// stray notes a line on stdout that is no message.
func (s *server) stray(line []byte, why error) {
	if len(line) > 200 {
		line = line[:200]
	}
	s.log.Debug("skipped a line on the server's stdout", zap.ByteString("line", line), zap.Error(why))
}

// A notFoundError is a command that can't be started at all: trying again at
// once is of no use.
type notFoundError struct{ error }

func (e *notFoundError) Unwrap() error { return e.error }

// An instance is one process of a server with its session.
type instance struct {
	*peer
	process     *process
	entry       config.Server
	mark        string
	listChanged chan struct{} // holds at most one signal
	done        chan struct{} // closed when the session has ended and the process is gone
	err         error         // why; valid after done
}

func (in *instance) ended() bool { return isClosed(in.done) }

// stop ends the instance and waits until nothing of it is left. Calls under way
// fail with the cause.
func (in *instance) stop(cause error) {
	in.close(cause)
	<-in.done
}

// subscribe asks a modern server to say when its tools change, as legacy ones
// do unasked.
func (in *instance) subscribe(ctx context.Context) {
	if in.meta == nil || string(wire.Member(wire.Member(in.info.Capabilities, "tools"), "listChanged")) != "true" {
		return
	}
	params := in.stamp(json.RawMessage(`{"notifications":{"toolsListChanged":true}}`))
	// Nobody waits for the answer: it comes when the subscription ends.
	in.out.write(ctx, wire.AppendRequest(nil, in.nextID.Add(1), "subscriptions/listen", params))
}

// live reads from the instance's process until it ends or is to end, and clears
// away what it leaves.
func (s *server) live(in *instance) {
	defer close(in.done)
	p := in.process
	eof, copied := make(chan struct{}), make(chan struct{})
	go func() { defer close(copied); s.tail.copy(p.stderr) }()
	go func() { defer close(eof); in.serve(p.stdout) }()
	select {
	case <-p.exited: // what it printed last may still be under way
		within(eof, graceOutput)
	case <-eof:
		within(p.exited, graceOutput) // to learn how it ended, if it did
	case <-in.closed:
	}
	if p.hasExited() {
		within(copied, graceOutput)
	}
	in.close(&exitError{p.epitaph() + s.lastWords()})
	in.err = in.cause
	p.stop()
	if !s.v.isEnding() { // the supervisor sweeps once for all at its end
		killMarked(in.mark)
	}
	p.stdout.Close()
	<-eof
	within(copied, graceOutput)
	p.stderr.Close()
	<-copied
}

// An exitError says how a process ended and what it printed last.
type exitError struct{ what string }

func (e *exitError) Error() string { return e.what }
