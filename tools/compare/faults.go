//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// compareFaults lets servers and routers fail. It fails only if our own router does not do what it should.
func compareFaults(t *T, o options) {
	ways := slices.DeleteFunc(peerWays(t, o), func(w way) bool { return !w.faults })
	program := built(t, "test/chaos")
	var text strings.Builder
	text.WriteString("| |")
	for _, w := range ways {
		fmt.Fprintf(&text, " %s |", w.name)
	}
	text.WriteString("\n|---|" + strings.Repeat("---|", len(ways)) + "\n")
	for _, fault := range []struct {
		name string
		run  func(t *T, w way, program string) string
	}{
		{"a killed server is back", killedServer},
		{"of 3 servers that ignore the end of their input, alive 3 s after `kill -9` of the router", killedRouter},
		{"an edit of the file is live", editedFile},
		{"one server never answers: the others work", muteServer},
	} {
		fmt.Fprintf(&text, "| %s |", fault.name)
		for _, w := range ways {
			cell := "–"
			t.Run(w.name+"/"+fault.name, func(t *T) { cell = fault.run(t, w, program) })
			fmt.Fprintf(&text, " %s |", cell)
		}
		text.WriteByte('\n')
	}
	fmt.Print(text.String())
}

// plainEcho is a call of a tool that no annotation declares harmless: a call of a harmless one that
// a killed server took along is made again after a pause.
func plainEcho() question {
	const arguments = `{"message":"up"}`
	escaped, err := json.Marshal(arguments)
	if err != nil {
		panic(err)
	}
	return question{"plain", arguments, escaped[1 : len(escaped)-1]}
}

// fleet returns entries s0, s1 … of fake servers with these flags. None of their processes
// outlives t.
func fleet(t *T, program string, n int, flags ...string) entries {
	t.Helper()
	dir, servers := t.TempDir(), entries{}
	for i := range n {
		name := fmt.Sprintf("s%d", i)
		_, args := mcptest.Command(append(flags, "-tools", "plain", "-pid-file", filepath.Join(dir, name))...)
		servers[name] = map[string]any{"command": program, "args": args}
	}
	t.Cleanup(func() { killServers(t, servers) })
	return servers
}

// alive returns the processes of these servers that run.
func alive(t *T, servers entries) (pids []int) {
	t.Helper()
	for _, entry := range servers {
		args := entry["args"].([]string)
		pids = append(pids, mcptest.PIDs(t, args[len(args)-1])...)
	}
	return slices.DeleteFunc(pids, func(pid int) bool { return !mcptest.Alive(pid) })
}

// mustStart starts a way and waits until all servers answer.
func mustStart(t *T, w way, servers entries) route {
	t.Helper()
	r, err := w.start(t, servers)
	if err != nil {
		t.Fatalf("%s: %v", w.name, err)
	}
	for i := range len(servers) {
		mcptest.WaitFor(t, fmt.Sprintf("server %d to answer through %s", i, w.name), func() bool { return plainEcho().ask(r, i) == nil })
	}
	return r
}

// after says when a server answers, if it does. Ours must.
func after(t *T, w way, r route, i int) string {
	t.Helper()
	began := time.Now()
	for {
		err := plainEcho().ask(r, i)
		switch {
		case err == nil:
			return fmt.Sprintf("after %d ms", time.Since(began).Milliseconds())
		case time.Since(began) > patience:
			if w.ours {
				t.Errorf("server %d never answers: %v", i, err)
			}
			return fmt.Sprintf("not within %v", patience)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func killedServer(t *T, w way, program string) string {
	servers := fleet(t, program, 3)
	r := mustStart(t, w, servers)
	killServers(t, entries{"s1": servers["s1"]})
	return after(t, w, r, 1)
}

func killedRouter(t *T, w way, program string) string {
	servers := fleet(t, program, 3, "-ignore-eof")
	r := mustStart(t, w, servers)
	before := len(alive(t, servers))
	r.kill()
	time.Sleep(3 * time.Second)
	left := len(alive(t, servers))
	if before != len(servers) || w.ours && left > 0 {
		t.Errorf("of %d servers %d are left", before, left)
	}
	return fmt.Sprint(left)
}

func editedFile(t *T, w way, program string) string {
	servers := fleet(t, program, 4)
	first := maps.Clone(servers)
	delete(first, "s3")
	r := mustStart(t, w, first)
	if r.write == nil {
		return "–"
	}
	time.Sleep(time.Second) // for watchers that have only just started
	r.write(servers)
	r.servers = len(servers)
	return after(t, w, r, 3)
}

func muteServer(t *T, w way, program string) string {
	servers := fleet(t, program, 2)
	servers["s2"] = fleet(t, program, 3, "-mute")["s2"]
	r, err := w.start(t, servers)
	if err != nil {
		return "no: " + err.Error()
	}
	return after(t, w, r, 0)
}
