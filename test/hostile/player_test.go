//go:build linux

package hostile

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// marker, as the first argument, makes this test binary play a hostile server: the kind and
// the file for its process id follow.
const marker = "hostile-server"

// playerLifetime is how long a player, and what it leaves behind, lives at most.
const playerLifetime = 3 * time.Minute

// playIfAsked plays a hostile server and exits if this process was started as one.
func playIfAsked() {
	if len(os.Args) != 4 || os.Args[1] != marker {
		return
	}
	time.AfterFunc(playerLifetime, func() { os.Exit(0) })
	p := newPlayer(os.Args[3])
	p.note(os.Getpid())
	servers()[os.Args[2]].play(p)
	p.serve()
	os.Exit(0)
}

// entry returns the entry of a hostile server over stdio.
func entry(kind, pids string) map[string]any {
	return map[string]any{"command": program, "args": []string{marker, kind, pids}}
}

// A message is a message of the router.
type message struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Name, URI, Cursor string
		Arguments         json.RawMessage
		Meta              struct{ ProgressToken json.RawMessage } `json:"_meta"`
	}
	Result, Error json.RawMessage
}

// A player is an ordinary server of one tool, attack, whose behaviour a kind replaces in part.
type player struct {
	pids string

	capabilities string
	tools        string // the definitions, comma-separated
	more         string // further members of the result of tools/list
	on           map[string]func(message)
	initialized  func() // on a goroutine of its own
	answered     func(message)
	lines        func(line []byte) (skip bool)
	remains      bool // the process lives on after the end of stdin

	out sync.Mutex // serializes lines to stdout
}

const attackTool = `{"name":"attack","description":"Attack the client.","inputSchema":{"type":"object"}}`

func newPlayer(pids string) *player {
	p := &player{
		pids:         pids,
		capabilities: `{"tools":{"listChanged":true},"logging":{}}`,
		tools:        attackTool,
		on:           map[string]func(message){},
	}
	p.on["initialize"] = func(m message) { p.result(m, p.hello("2025-06-18")) }
	p.on["notifications/initialized"] = func(message) {
		if p.initialized != nil {
			go p.initialized()
		}
	}
	p.on["tools/list"] = func(m message) { p.result(m, `{"tools":[`+p.tools+`]`+p.more+`}`) }
	p.on["tools/call"] = func(m message) { p.result(m, text("attacked")) }
	p.on["ping"] = func(m message) { p.result(m, `{}`) }
	p.on["logging/setLevel"] = func(m message) { p.result(m, `{}`) }
	return p
}

func (p *player) hello(version string) string {
	return fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":"hostile","version":"1"}}`, version, p.capabilities)
}

// note notes a process id, so that the test finds the process.
func (p *player) note(pid int) {
	f, err := os.OpenFile(p.pids, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	f.WriteString(strconv.Itoa(pid) + "\n")
}

// serve reads lines until the end of stdin.
func (p *player) serve() {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		var m message
		if json.Unmarshal(line, &m) == nil && (p.lines == nil || !p.lines(line)) {
			p.receive(m)
		}
		if err != nil && p.remains {
			select {}
		}
		if err != nil {
			return
		}
	}
}

func (p *player) receive(m message) {
	if act := p.on[m.Method]; act != nil {
		act(m)
	} else if m.Method != "" && m.ID != nil {
		p.line(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32601,"message":"Method not found"}}`)
	} else if m.Method == "" && p.answered != nil {
		p.answered(m)
	}
}

func (p *player) result(m message, result string) {
	p.line(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + result + `}`)
}

func (p *player) notify(method, params string) {
	p.line(`{"jsonrpc":"2.0","method":"` + method + `","params":` + params + `}`)
}

// line writes one line.
func (p *player) line(s string) {
	p.out.Lock()
	defer p.out.Unlock()
	p.write(s)
	p.write("\n")
}

// write writes bytes; the process ends if its reader has gone.
func (p *player) write(s string) {
	if _, err := io.WriteString(os.Stdout, s); err != nil {
		if errors.Is(err, os.ErrClosed) {
			select {}
		}
		os.Exit(0)
	}
}

// long writes one line that has a text many times.
func (p *player) long(before, part string, times int, after string) {
	p.out.Lock()
	defer p.out.Unlock()
	block := strings.Repeat(part, max(1, min(times, (1<<20)/len(part))))
	p.write(before)
	for left := times * len(part); left > 0; left -= len(block) {
		p.write(block[:min(left, len(block))])
	}
	p.write(after + "\n")
}

// forever calls f until the process is ended.
func forever(f func(i int)) {
	for i := 0; ; i++ {
		f(i)
	}
}

// text returns a CallToolResult.
func text(s string) string {
	return `{"content":[{"type":"text","text":` + quote(s) + `}]}`
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// tool returns the definition of the tool attack with this input schema.
func tool(schema string) string {
	return `{"name":"attack","description":"Attack the client.","inputSchema":` + schema + `}`
}

// nested returns a text nested this deep.
func nested(before string, depth int, inside, after string) string {
	return strings.Repeat(before, depth) + inside + strings.Repeat(after, depth)
}

// onCall sets the server's behaviour at a call of its tool.
func (p *player) onCall(f func(m message)) { p.on["tools/call"] = f }

// A kind is a kind of hostile server.
type kind struct {
	play  func(*player)  // over stdio
	serve func(*site)    // over HTTP
	entry map[string]any // more keys of its entry
	args  func() string  // arguments of the tool's calls, {} by default
	asks  bool           // the calling client answers questions
	slow  bool           // the attack needs a few times as long
	calls int            // the attack makes as many, though it then lasts longer
	check func(*attack)  // a check of its own, when the attack is over
	named []string       // texts of which one must be in the evidence, nil if all is well
}
