//go:build unix

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// Each request gets one answer, whole, though its router and its server are killed again and again
// while requests and answers fill the pipes, and a call that may do harm twice is carried out once at
// most.
func TestOneAnswer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ledger, pids := filepath.Join(dir, "ledger"), filepath.Join(dir, "pids")
	s := prepare(t, entries{"s": fake("-tools", "echo,ledger_charge", "-ledger", ledger, "-pid-file", pids)}, map[string]any{"mode": "direct"})
	var stderr bytes.Buffer
	process := exec.Command(metarouter, s.command("serve")...)
	process.Dir, process.Env, process.Stderr = s.dir, s.environment(), &stderr
	in, out := startPiped(t, process)
	t.Cleanup(func() {
		process.Process.Kill()
		process.Wait()
		if t.Failed() {
			t.Log(stderr.String())
		}
	})

	const requests = 600
	answered := make(chan int, requests) // the size of each answer
	count := make(map[string]int)
	go func() {
		defer close(answered)
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			var m struct {
				ID            json.RawMessage
				Result, Error json.RawMessage
				Method        string
			}
			expect.OK(t, json.Unmarshal(line, &m), "%.200s", line)
			if m.Method != "" {
				continue
			}
			count[string(m.ID)]++
			if id, _ := strconv.Atoi(string(m.ID)); m.Error != nil && id%6 != 1 && id%4 != 3 { // not a charge, nor too large to be kept
				t.Errorf("request %d, which may be repeated, got %s", id, m.Error)
			}
			answered <- len(line)
			time.Sleep(time.Millisecond) // so that the answers wait in the pipes
		}
	}()
	send := func(id int, method, params string) {
		if _, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params); err != nil {
			t.Error(err)
		}
	}
	send(0, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}`)
	io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	<-answered
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for id := 1; id < requests; id++ {
			switch id % 6 {
			case 0:
				send(id, "tools/list", `{}`)
			case 1:
				send(id, "tools/call", fmt.Sprintf(`{"name":"s__ledger_charge","arguments":{"id":"%d","ms":5}}`, id))
			default:
				send(id, "tools/call", fmt.Sprintf(`{"name":"s__echo","arguments":{"text":%q}}`, strings.Repeat("x", []int{10, 10, 10_000, 300_000}[id%4])))
			}
		}
	}()
	for range 4 {
		for range requests / 8 { // as many answers as this
			<-answered
		}
		if pid := s.host(); pid != 0 {
			syscall.Kill(pid, syscall.SIGKILL)
		} else {
			for _, pid := range mcptest.PIDs(t, pids) { // the client's process serves it: a server of its
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	<-sent
	in.Close()
	for range answered {
	}
	expect.OK(t, process.Wait())
	for id := range requests {
		expect.Equal(t, count[fmt.Sprint(id)], 1, "… answers to request %d", id)
	}
	charged := make(map[string]int)
	text, _ := os.ReadFile(ledger)
	for line := range bytes.Lines(text) {
		var l struct {
			ID    string
			Ended bool
		}
		if json.Unmarshal(line, &l) == nil && !l.Ended {
			charged[l.ID]++
		}
	}
	for id, n := range charged {
		if n > 1 {
			t.Errorf("the call %s was carried out %d times", id, n)
		}
	}
	if len(charged) == 0 {
		t.Error("nothing was charged")
	}
}
