//go:build linux

// Relay is the least that a router over stdio can do, so that comparisons have a limit: it
// reads lines, replaces ids and tool names, and passes everything else as bytes. It restarts
// nothing, watches nothing, and knows one client.
//
//	relay CONFIG     serve the mcpServers of a file; their tools are named SERVER__TOOL
//	relay version    print a line: the cost of a small Go process
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"sync"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: relay CONFIG")
	}
	if os.Args[1] == "version" {
		fmt.Println("relay")
		return
	}
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	var config struct {
		MCPServers map[string]struct {
			Command string
			Args    []string
		}
	}
	if err := json.Unmarshal(text, &config); err != nil {
		log.Fatal(err)
	}
	r := &relay{servers: map[string]*server{}}
	for name, entry := range config.MCPServers {
		if r.servers[name], err = r.start(entry.Command, entry.Args); err != nil {
			log.Fatal(err)
		}
	}
	readLines(os.Stdin, r.receive)
}

// A relay passes the messages of a client on stdin and stdout.
type relay struct {
	servers map[string]*server
	out     sync.Mutex // serializes lines to stdout
	line    []byte     // the line to the client, guarded by out
}

// A server is a process that the relay has started.
type server struct {
	in   *os.File
	line []byte // the line to the server

	mu      sync.Mutex        // guards the fields below
	next    int               // our last id
	waiting map[string][]byte // the client's ids by ours
	own     map[string]chan []byte
}

func (r *relay) start(command string, args []string) (*server, error) {
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdout.Close()
	cmd := exec.Command(command, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{in: in, waiting: map[string][]byte{}, own: map[string]chan []byte{}}
	go readLines(out, func(line []byte) { r.answer(s, line) })
	return s, nil
}

// receive handles a line of the client. One goroutine calls it.
func (r *relay) receive(line []byte) {
	m := envelope(line)
	switch method := string(m.method); {
	case m.id == nil: // a notification, or an answer
	case method == `"tools/call"` && m.params > 0:
		from, to := member(line, m.params, "name")
		name, tool, _ := bytes.Cut(bytes.Trim(line[from:to], `"`), []byte("__"))
		if s := r.servers[string(name)]; s != nil {
			s.forward(line, m, from, to, tool)
			return
		}
		r.send(m.id, `,"error":{"code":-32602,"message":"no such tool"}}`)
	case method == `"initialize"`:
		r.send(m.id, `,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"relay","version":"1"}}}`)
	case method == `"tools/list"`:
		r.send(m.id, `,"result":{"tools":[`, string(r.list()), `]}}`)
	default:
		r.send(m.id, `,"error":{"code":-32601,"message":"method not found"}}`)
	}
}

// send writes an answer of the relay's own.
func (r *relay) send(id []byte, rest ...string) {
	r.out.Lock()
	defer r.out.Unlock()
	r.line = append(append(r.line[:0], `{"jsonrpc":"2.0","id":`...), id...)
	for _, text := range rest {
		r.line = append(r.line, text...)
	}
	os.Stdout.Write(append(r.line, '\n'))
}

// forward sends a call to the server with an id of ours, and with the tool's own name instead
// of line[from:to].
func (s *server) forward(line []byte, m message, from, to int, tool []byte) {
	s.mu.Lock()
	s.next++
	id := fmt.Append(nil, s.next)
	s.waiting[string(id)] = bytes.Clone(m.id)
	s.mu.Unlock()
	first, second := replacement{m.idAt, m.idAt + len(m.id), id}, replacement{from, to, fmt.Appendf(nil, `"%s"`, tool)}
	if second.from < first.from {
		first, second = second, first
	}
	s.line = append(append(s.line[:0], line[:first.from]...), first.by...)
	s.line = append(append(s.line, line[first.to:second.from]...), second.by...)
	s.line = append(s.line, line[second.to:]...)
	s.in.Write(append(s.line, '\n'))
}

type replacement struct {
	from, to int
	by       []byte
}

// answer passes a server's answer to the client, with the client's id. Other messages of the
// server are dropped.
func (r *relay) answer(s *server, line []byte) {
	m := envelope(line)
	s.mu.Lock()
	id, own := s.waiting[string(m.id)], s.own[string(m.id)]
	delete(s.waiting, string(m.id))
	s.mu.Unlock()
	switch {
	case own != nil:
		own <- bytes.Clone(line)
	case id != nil:
		r.out.Lock()
		defer r.out.Unlock()
		r.line = append(append(r.line[:0], line[:m.idAt]...), id...)
		r.line = append(r.line, line[m.idAt+len(m.id):]...)
		os.Stdout.Write(append(r.line, '\n'))
	}
}

// list asks all servers at once for their tools, and returns the elements of the array.
func (r *relay) list() []byte {
	var group sync.WaitGroup
	var mu sync.Mutex // guards all
	var all [][]byte
	for name, s := range r.servers {
		group.Go(func() {
			for _, definition := range s.tools() {
				at, _ := member(definition, 0, "name")
				definition = bytes.Join([][]byte{definition[:at+1], []byte(name + "__"), definition[at+1:]}, nil)
				mu.Lock()
				all = append(all, definition)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return bytes.Join(all, []byte(","))
}

// tools initializes the server and returns its first page of tools.
func (s *server) tools() []json.RawMessage {
	s.ask("i", `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"relay","version":"1"}}}`)
	s.in.WriteString(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")
	var answer struct {
		Result struct{ Tools []json.RawMessage }
	}
	json.Unmarshal(s.ask("l", `{"jsonrpc":"2.0","id":"l","method":"tools/list"}`), &answer)
	return answer.Result.Tools
}

// ask sends a request of the relay's own, and waits for its answer.
func (s *server) ask(id, line string) []byte {
	answer := make(chan []byte, 1)
	s.mu.Lock()
	s.own[`"`+id+`"`] = answer
	s.mu.Unlock()
	s.in.WriteString(line + "\n")
	return <-answer
}
