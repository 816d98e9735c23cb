//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// A pipe is a link over stdin and stdout to the client's own serve process.
type pipe struct {
	cmd    *exec.Cmd
	modern bool
	ledger *ledger
	gone   chan struct{} // closed at the end of stdout
	ended  error         // error of the process, valid after gone

	write sync.Mutex // serializes lines to in
	in    io.WriteCloser

	mu      sync.Mutex // guards the fields below
	pending map[int]chan message
}

// openPipe starts cmd and does the handshake.
func openPipe(ctx context.Context, cmd *exec.Cmd, modern bool, l *ledger, slow *slowness) (*pipe, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// Not StdoutPipe, which Wait closes before everything is read.
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = stdout
	err = cmd.Start()
	stdout.Close()
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	p := &pipe{cmd: cmd, modern: modern, ledger: l, gone: make(chan struct{}), in: in, pending: map[int]chan message{}}
	go func() {
		defer close(p.gone)
		p.read(slow.reader(out))
		out.Close()
		p.ended = cmd.Wait()
	}()
	const hello = -1 // not an id of the ledger
	if modern {
		_, err = p.request(ctx, hello, "server/discover", `{"_meta":`+modernMeta+`}`)
	} else if _, err = p.request(ctx, hello, "initialize", initialize); err == nil {
		p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	if err != nil {
		cmd.Process.Kill()
		return nil, errors.Join(fmt.Errorf("handshake: %w", err), p.close())
	}
	return p, nil
}

func (p *pipe) rest() {}

func (p *pipe) call(ctx context.Context, c call) (answer, error) {
	m, err := p.request(ctx, c.id, "tools/call", c.params(p.modern))
	return m.answer(), err
}

func (p *pipe) request(ctx context.Context, id int, method, params string) (message, error) {
	came := make(chan message, 1)
	p.mu.Lock()
	p.pending[id] = came
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.pending, id)
		p.mu.Unlock()
	}()
	go p.send(request(id, method, params)) // it may wait long; the deadline is for the whole call
	select {
	case m := <-came:
		return m, nil
	case <-ctx.Done():
		return message{}, ctx.Err()
	case <-p.gone:
	}
	select {
	case m := <-came: // the answer came just before the end
		return m, nil
	default:
		return message{}, errGone
	}
}

// send writes a line. If that fails, stdout ends too.
func (p *pipe) send(line string) {
	p.write.Lock()
	defer p.write.Unlock()
	io.WriteString(p.in, line+"\n")
}

func (p *pipe) read(out io.Reader) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(line, &m) != nil {
			p.ledger.garbled(line)
			continue
		}
		id, ok := m.number()
		if !ok {
			if m.Method == "ping" {
				go p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID))
			}
			continue
		}
		p.ledger.came(id)
		p.mu.Lock()
		if came := p.pending[id]; came != nil {
			select {
			case came <- m:
			default: // a second answer, which the ledger has counted
			}
		}
		p.mu.Unlock()
	}
}

// patience is the longest time that a router may take to end.
const patience = time.Minute

// close closes the router's stdin and waits for it to end.
func (p *pipe) close() error {
	p.in.Close()
	if !within(p.gone, patience) {
		p.cmd.Process.Signal(syscall.SIGQUIT) // prints its goroutines to stderr
		if !within(p.gone, time.Second) {
			p.cmd.Process.Kill()
			<-p.gone
		}
		return fmt.Errorf("the router still ran %v after the end of its stdin", patience)
	}
	return p.ended
}

// within reports whether done is closed in time.
func within(done <-chan struct{}, d time.Duration) bool {
	select {
	case <-done:
		return true
	case <-time.After(d):
		return false
	}
}
