package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

// An instance is one process of a server with its session.
type instance struct {
	*peer
	process     *process
	entry       config.Server
	mark        string
	stderr      tail
	listChanged chan struct{} // holds at most one signal
	done        chan struct{} // closed when the session has ended and the process is gone
	err         error         // why; valid after done
}

// defaultStall is how long a server may leave its stdin unread if its entry sets
// no time-out: one that works on a long call may well not read meanwhile.
const defaultStall = 5 * time.Minute

// launch starts the entry's process and what reads from it and writes to it.
func (s *server) launch(ctx context.Context, entry config.Server) (*instance, error) {
	path, search, err := s.v.finder.find(ctx, entry.Command, entry.Cwd, entry.Env["PATH"])
	if err != nil {
		return nil, &notFoundError{err}
	}
	if entry.Cwd != "" {
		if info, err := os.Stat(entry.Cwd); err != nil || !info.IsDir() {
			return nil, &notFoundError{fmt.Errorf("its working directory %s is no folder", entry.Cwd)}
		}
	}
	mark := fmt.Sprintf("%s.%d.", s.v.reaper.mark, s.v.spawned.Add(1))
	env := environ(os.Environ(), entry.InheritEnv, search, entry.Env)
	p, err := s.v.reaper.start(path, entry.Args, env, entry.Cwd, mark)
	if err != nil {
		err = fmt.Errorf("start %s: %w", path, err)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil, &notFoundError{err}
		}
		return nil, err
	}
	stall := entry.Timeout
	if stall == 0 {
		stall = defaultStall
	}
	in := &instance{
		peer:        newPeer(p.stdin, stall, s.stray),
		process:     p,
		entry:       entry,
		mark:        mark,
		listChanged: make(chan struct{}, 1),
		done:        make(chan struct{}),
	}
	s.mu.Lock()
	s.latest = in
	s.mu.Unlock()
	s.own.Go(func() { s.live(in) })
	return in, nil
}

// stray notes a line on stdout that is no message. What looks like one may hold
// a result, so it is not shown.
func (s *server) stray(line []byte, why error) {
	shown := "{…}"
	if len(line) > 0 && line[0] != '{' && line[0] != '[' {
		shown = string(line[:min(len(line), 200)])
	}
	s.log.Debug("skipped a line on the server's stdout", zap.String("line", shown), zap.Int("bytes", len(line)), zap.Error(why))
}

// A notFoundError is a command that can't be started at all: trying again at
// once is of no use.
type notFoundError struct{ error }

func (e *notFoundError) Unwrap() error { return e.error }

// An exitError says how a process ended and what it printed last.
type exitError struct{ what string }

func (e *exitError) Error() string { return e.what }

// SelfCode and the member "metarouter": "self" in an error's data are how a
// router that was started by a router says so.
const SelfCode = -32000

func isSelf(err error) bool {
	e, ok := errors.AsType[*session.Error](err)
	return ok && e.Code == SelfCode && string(wire.Member(e.Data, "metarouter")) == `"self"`
}

// explain adds the process's last words to the reason why it does not serve.
func (in *instance) explain(err error) error {
	if _, ok := errors.AsType[*exitError](err); ok {
		return err // has them
	}
	return fmt.Errorf("%w%s", err, in.lastWords())
}

// lastWords returns the end of the process's stderr as part of a sentence, "" if
// it printed nothing.
func (in *instance) lastWords() string {
	lines := in.stderr.last(5)
	if len(lines) == 0 {
		return ""
	}
	words := strings.Join(lines, " | ")
	if len(words) > 1000 {
		words = "…" + strings.ToValidUTF8(words[len(words)-1000:], "")
	}
	return "; its last lines on stderr: " + words
}

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
	in.send(ctx, wire.AppendRequest(nil, in.nextID.Add(1), "subscriptions/listen", params))
}

// live reads from the instance's process until it ends or is to end, and clears
// away what it leaves.
func (s *server) live(in *instance) {
	defer close(in.done)
	p := in.process
	eof, copied, written := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() { defer close(copied); in.stderr.copy(p.stderr, s.stderr) }()
	go func() { defer close(written); in.write() }()
	go func() { defer close(eof); in.read(p.stdout) }()
	select {
	case <-p.exited: // what it printed last may still be under way
		within(eof, graceOutput)
	case <-eof:
		within(p.exited, graceOutput) // to learn how it ended, if it did
	case <-in.broken:
		if !within(p.exited, graceOutput) {
			in.close(in.torn)
		}
	case <-in.closed:
	}
	if p.hasExited() {
		within(copied, graceOutput)
	}
	in.close(&exitError{p.epitaph() + in.lastWords()})
	in.err = in.cause
	p.stop(in.spoke.Load())
	if !s.v.isEnding() { // the supervisor sweeps once for all at its end
		killMarked(in.mark)
	}
	p.stdout.Close()
	<-eof
	<-written
	within(copied, graceOutput)
	p.stderr.Close()
	<-copied
}
