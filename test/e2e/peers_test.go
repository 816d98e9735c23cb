//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/fakeserver"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

const (
	peerServers = 10
	peerTurns   = 10               // in each turn every router is measured once
	patience    = 40 * time.Second // with what may never happen
)

// TestPeers measures the router beside others, as far as public registries have
// them (see peerWays), in front of the same fake servers. The ways take turns, so that
// whatever else the machine does slows all of them. It prints a table, and fails only
// if an answer is wrong or our own router does not do what it should.
func TestPeers(t *testing.T) {
	if os.Getenv("METAROUTER_PEERS") == "" {
		t.Skip("it measures for some minutes, if METAROUTER_PEERS is set")
	}
	ways, program := peerWays(t), lightServer(t)
	table := [][]string{{fmt.Sprintf("%d servers", peerServers)}}
	for _, w := range ways {
		table[0] = append(table[0], w.name)
	}
	t.Run("calls", func(t *testing.T) { table = append(table, measureCalls(t, ways, program)...) })
	for _, fault := range []struct {
		name string
		run  func(t *testing.T, w way, program string) string
	}{
		{"a killed server is back", killedServer},
		{"of 3 servers that ignore the end of their input, alive 3 s after `kill -9` of the router", killedRouter},
		{"an edit of the file is live", editedFile},
		{"one server never answers: the others work", muteServer},
	} {
		row := []string{fault.name}
		for _, w := range ways {
			cell := "–"
			if w.faults {
				t.Run(w.name+"/"+fault.name, func(t *testing.T) { cell = fault.run(t, w, program) })
			}
			row = append(row, cell)
		}
		table = append(table, row)
	}
	var text strings.Builder
	for i, row := range table {
		fmt.Fprintf(&text, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			text.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	t.Logf("Calls are multiples of direct; memory is that of the router's own process.\n%s", text.String())
}

// measureCalls returns the rows of calls and of memory.
func measureCalls(t *testing.T, ways []way, program string) [][]string {
	var routes []route
	for _, w := range ways {
		routes = append(routes, mustStart(t, w, fleet(t, program, peerServers)))
	}
	time.Sleep(2 * time.Second) // for what follows a start
	memory := []string{"memory when idle, MB"}
	for _, r := range routes {
		cell := "–"
		if r.pid != nil {
			cell = fmt.Sprint(resident(t, r.pid()) / 1000)
		}
		memory = append(memory, cell)
	}
	var table [][]string
	for _, row := range []struct {
		name string
		turn func(r route) ([]float64, error)
	}{
		{"a call of 100 bytes, ms", inTurn(100, say(fakeserver.Prose(100)))},
		{"calls per second, 64 at once", atOnce(64, say(fakeserver.Prose(100)))},
		{"an answer of 1 MiB, ms", inTurn(5, question{"prose", fmt.Sprintf(`{"bytes":%d}`, 1<<20), fakeserver.Prose(1 << 20)})},
	} {
		samples := make([][]float64, len(ways))
		for turn := range peerTurns {
			for k := range ways {
				i := (turn + k) % len(ways)
				more, err := row.turn(routes[i])
				if err != nil {
					t.Errorf("%s: %s: %v", ways[i].name, row.name, err)
				}
				samples[i] = append(samples[i], more...)
			}
		}
		direct := median(samples[0])
		cells := []string{row.name, fmt.Sprintf("1 (%.3g)", direct)}
		for _, s := range samples[1:] {
			cells = append(cells, fmt.Sprintf("%.3g", median(s)/direct))
		}
		table = append(table, cells)
	}
	return append(table, memory)
}

// inTurn makes calls, one at a time and one server after the other, and returns how
// many milliseconds each took.
func inTurn(calls int, q question) func(route) ([]float64, error) {
	return func(r route) (took []float64, _ error) {
		for i := range calls {
			d, err := q.ask(r, i%peerServers)
			if err != nil {
				return took, err
			}
			took = append(took, d.Seconds()*1000)
		}
		return took, nil
	}
}

// atOnce keeps so many calls under way for a second, and returns how many were
// answered in that time.
func atOnce(callers int, q question) func(route) ([]float64, error) {
	return func(r route) ([]float64, error) {
		var group sync.WaitGroup
		made, failed := make([]int, callers), make([]error, callers)
		began := time.Now()
		for c := range callers {
			group.Go(func() {
				for time.Since(began) < time.Second && failed[c] == nil {
					_, failed[c] = q.ask(r, (c+made[c])%peerServers)
					made[c]++
				}
			})
		}
		group.Wait()
		all := 0.0
		for _, n := range made {
			all += float64(n)
		}
		return []float64{all / time.Since(began).Seconds()}, errors.Join(failed...)
	}
}

// A question is a call of any server, and the text of the only right answer.
type question struct{ tool, arguments, want string }

// say is an echo that no annotation declares harmless, as else a call that a killed
// server took along is made again after a pause.
func say(message string) question {
	arguments := fmt.Sprintf(`{"message":%q}`, message)
	return question{"say", arguments, arguments}
}

// ask asks server i, and says how long the answer took.
func (q question) ask(r route, i int) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	began := time.Now()
	raw, err := r.Call(ctx, fmt.Sprintf("s%d__%s", i, q.tool), json.RawMessage(q.arguments))
	took = time.Since(began)
	if err != nil {
		return took, err
	}
	var said result
	if err := json.Unmarshal(raw, &said); err != nil {
		return took, err
	}
	if text := said.text(); said.IsError || text != q.want {
		return took, fmt.Errorf("server %d answered %s with %d bytes for %d: %.200s", i, q.tool, len(text), len(q.want), text)
	}
	return took, nil
}

func median(of []float64) float64 {
	if len(of) == 0 {
		return math.NaN()
	}
	return slices.Sorted(slices.Values(of))[len(of)/2]
}

// resident is the memory in kB that the system counts as the process's own.
func resident(t testing.TB, pid int) (kB int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmRSS:")
	fmt.Sscan(after, &kB)
	return kB
}

// fleet returns entries s0, s1 … of servers with these flags. None of their processes
// outlives t.
func fleet(t *testing.T, program string, n int, flags ...string) entries {
	t.Helper()
	dir, servers := t.TempDir(), entries{}
	for i := range n {
		name := fmt.Sprintf("s%d", i)
		_, args := mcptest.Command(append(flags, "-tools", "say,prose", "-pid-file", filepath.Join(dir, name))...)
		servers[name] = map[string]any{"command": program, "args": args}
	}
	t.Cleanup(func() { kill(t, servers) })
	return servers
}

// alive are the processes of these servers that run.
func alive(t *testing.T, servers entries) (pids []int) {
	t.Helper()
	for _, entry := range servers {
		args := entry["args"].([]string)
		pids = append(pids, mcptest.PIDs(t, args[len(args)-1])...)
	}
	return slices.DeleteFunc(pids, func(pid int) bool { return !mcptest.Alive(pid) })
}

func kill(t *testing.T, servers entries) {
	t.Helper()
	for _, pid := range alive(t, servers) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// mustStart starts a way and waits until all servers answer.
func mustStart(t *testing.T, w way, servers entries) route {
	t.Helper()
	r, err := w.start(t, servers)
	if err != nil {
		t.Fatalf("%s: %v", w.name, err)
	}
	for i := range len(servers) {
		mcptest.WaitFor(t, fmt.Sprintf("server %d to answer through %s", i, w.name), func() bool {
			_, err := say("up").ask(r, i)
			return err == nil
		})
	}
	return r
}

// after says when a server answers, if it does. Ours must.
func after(t *testing.T, w way, r route, i int) string {
	t.Helper()
	began := time.Now()
	for {
		_, err := say("up").ask(r, i)
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

func killedServer(t *testing.T, w way, program string) string {
	servers := fleet(t, program, 3)
	r := mustStart(t, w, servers)
	kill(t, entries{"s1": servers["s1"]})
	return after(t, w, r, 1)
}

func killedRouter(t *testing.T, w way, program string) string {
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

func editedFile(t *testing.T, w way, program string) string {
	servers := fleet(t, program, 4)
	first := maps.Clone(servers)
	delete(first, "s3")
	r := mustStart(t, w, first)
	time.Sleep(time.Second) // for watchers that have only just started
	r.write(servers)
	return after(t, w, r, 3)
}

func muteServer(t *testing.T, w way, program string) string {
	servers := fleet(t, program, 2)
	servers["s2"] = fleet(t, program, 3, "-mute")["s2"]
	r, err := w.start(t, servers)
	if err != nil {
		return "no: " + err.Error()
	}
	return after(t, w, r, 0)
}
