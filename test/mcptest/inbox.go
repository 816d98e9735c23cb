package mcptest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"sync"

	"github.com/mcp-metarouter/metarouter/test/internal/protocol"
)

// An inbox receives the messages of a server over stdio: answers for the requests that wait
// for them, notifications, and requests.
type inbox struct {
	notifications chan<- Notification
	reply         func(line string) // sends an answer to a request of the server

	mu        sync.Mutex // guards the fields below
	waiting   map[string]waiting
	onRequest OnRequest
	stray     int
	ended     bool // the server sends nothing more
}

// waiting is a request that has no answer yet.
type waiting struct {
	*Exchange
	answer chan<- protocol.Message
}

// expect registers a request. Its answer comes on the channel, which is closed if the
// server ends first.
func (i *inbox) expect(x *Exchange) (<-chan protocol.Message, error) {
	answer := make(chan protocol.Message, 1)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended {
		return nil, ErrEnded
	}
	i.waiting[x.ID] = waiting{x, answer}
	return answer, nil
}

// forget drops a request: its answer will be a stray line.
func (i *inbox) forget(x *Exchange) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.waiting, x.ID)
}

// read receives lines until the end of out.
func (i *inbox) read(out io.Reader) {
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 && !i.receive(line) {
			i.mu.Lock()
			i.stray++
			i.mu.Unlock()
		}
		if err != nil {
			break
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended = true
	for _, w := range i.waiting {
		close(w.answer)
	}
}

// receive reports whether the line was a message for this client.
func (i *inbox) receive(line []byte) bool {
	var m protocol.Message
	if line[0] != '{' || json.Unmarshal(line, &m) != nil {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case m.Method != "" && m.ID == nil:
		n := Notification{m.Method, m.Params}
		for _, w := range i.waiting {
			w.Before = append(w.Before, n)
		}
		select {
		case i.notifications <- n:
		default:
		}
		return true
	case m.Method != "":
		f := i.onRequest
		go func() { i.reply(response(m, f)) }()
		return true
	}
	w, ok := i.waiting[string(m.ID)]
	if ok {
		delete(i.waiting, string(m.ID))
		w.answer <- m
	}
	return ok
}
