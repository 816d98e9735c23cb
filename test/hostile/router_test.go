//go:build linux

package hostile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
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

const (
	maxMemory = 512 << 20 // bytes that the router may use
	killedAt  = 1 << 30   // and those at which the test kills it, to spare the machine
)

// A router is a running router with its folder: over HTTP, or the one that clients over stdio
// share.
type router struct {
	t       *testing.T
	dir     string
	config  string
	binary  string          // a link to the program in the folder, which tells its processes
	process *mcptest.Client // over HTTP the router, over stdio the honest client's serve
	own     map[string]any  // the router's own keys

	address string // over HTTP
	token   string // over HTTP; "" if it is not needed
	host    int    // over stdio: the process id of the shared router
}

// prepare makes the folder of a router whose only server is honest.
func prepare(t *testing.T, own map[string]any) *router {
	t.Helper()
	dir := t.TempDir()
	r := &router{t: t, dir: dir, config: filepath.Join(dir, "mcp.json"), binary: filepath.Join(dir, "metarouter"), own: own}
	expect.OK(t, os.Link(metarouter, r.binary))
	r.configure(nil)
	return r
}

// start starts a router over HTTP.
func start(t *testing.T, own map[string]any) *router {
	t.Helper()
	r := prepare(t, own)
	r.address = mcptest.FreeAddress(t)
	args := []string{"serve", "--http", r.address, "--config", r.config, "--data", r.data()}
	r.process = mcptest.Start(t, r.binary, args, r.dir, nil)
	r.watch()
	mcptest.Listening(t, r.address)
	return r
}

func (r *router) data() string { return filepath.Join(r.dir, "data") }

// configure writes the configuration: the honest server and the given one, if any.
func (r *router) configure(hostile map[string]any) {
	r.t.Helper()
	_, args := mcptest.Command("-name", "honest", "-tools", "echo,sleep", "-resources", "honest://r", "-pid-file", r.pids())
	servers := map[string]any{"honest": map[string]any{"command": program, "args": args}}
	if hostile != nil {
		servers["hostile"] = hostile
	}
	file := map[string]any{"mcpServers": servers}
	if r.own != nil {
		file["metarouter"] = r.own
	}
	text, err := json.Marshal(file)
	if err == nil {
		err = os.WriteFile(r.config+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(r.config+".new", r.config)
	}
	expect.OK(r.t, err)
}

// pids is the file with the process ids of servers.
func (r *router) pids() string { return filepath.Join(r.dir, "pids") }

func (r *router) url() string { return "http://" + r.address + "/mcp" }

// client returns an initialized client.
func (r *router) client(capabilities string) *mcptest.HTTPClient {
	r.t.Helper()
	c := mcptest.NewHTTPClient(r.t, r.url())
	if r.token != "" {
		c.Header.Set("Authorization", "Bearer "+r.token)
	}
	c.Declare(capabilities)
	_, err := c.Initialize(within(r.t, patience))
	expect.OK(r.t, err, "initialize: %s", r.log())
	return c
}

// within returns a context that ends after the duration, or with the test.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// watch kills the router if it takes far too much memory.
func (r *router) watch() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if used := memory(r.pid(), "VmRSS"); used > killedAt {
				r.t.Errorf("the router uses %d MB: the test kills it", used>>20)
				r.process.Cmd.Process.Kill()
				return
			}
		}
	}()
	r.t.Cleanup(func() {
		cancel()
		<-done
	})
}

// pid is the process id of the router.
func (r *router) pid() int {
	if r.host != 0 {
		return r.host
	}
	return r.process.Cmd.Process.Pid
}

// A process is a process of the router's program.
type process struct {
	pid  int
	args []string
}

// ours returns the processes of the program in the router's folder.
func (r *router) ours() (found []process) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if exe, err := os.Readlink(link); err != nil || exe != r.binary {
			continue
		}
		line, err := os.ReadFile(filepath.Join(filepath.Dir(link), "cmdline"))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err == nil {
			found = append(found, process{pid, strings.Split(string(line), "\x00")})
		}
	}
	return found
}

// memory returns a figure of /proc/PID/status in bytes, 0 if the process has ended.
func memory(pid int, figure string) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(b), figure+":")
	kilobytes, _ := strconv.Atoi(strings.Fields(after + " 0")[0])
	return kilobytes << 10
}

// A usage is what the router holds: what must be the same before and after an attack.
type usage struct{ goroutines, files, children int }

// usage returns the figures after the idle connections of the test have ended.
func (r *router) usage() (u usage) {
	files, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.pid()))
	u.files = len(files)
	u.children = len(children(r.pid()))
	if r.host != 0 { // no metrics
		u.goroutines = 1
		return u
	}
	r.metrics(func(line string) {
		if value, ok := strings.CutPrefix(line, "metarouter_go_goroutines "); ok {
			u.goroutines, _ = strconv.Atoi(value)
		}
	})
	return u
}

// metrics calls f with each line of the metrics.
func (r *router) metrics(f func(line string)) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.address+"/metrics", nil)
	if err != nil {
		panic(err)
	}
	req.Close = true
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		f(lines.Text())
	}
}

// children returns the process ids of the children of a process.
func children(pid int) (found []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		b, _ := os.ReadFile(task)
		for field := range strings.FieldsSeq(string(b)) {
			if n, err := strconv.Atoi(field); err == nil {
				found = append(found, n)
			}
		}
	}
	return found
}

// slack is what the figures may differ by: idle connections, and threads' descriptors.
const slack = 4

// settle waits until the figures are steady, and returns them.
func (r *router) settle() usage {
	last := r.usage()
	for range 50 {
		time.Sleep(40 * time.Millisecond)
		now := r.usage()
		if now == last {
			break
		}
		last = now
	}
	return last
}

// compare waits until the figures are as before.
func (r *router) compare(before usage) {
	r.t.Helper()
	var now usage
	for until := time.Now().Add(settling); ; time.Sleep(50 * time.Millisecond) {
		now = r.usage()
		if now.goroutines > 0 && now.goroutines <= before.goroutines+slack && now.files <= before.files+slack && now.children <= before.children {
			return
		}
		if time.Now().After(until) {
			break
		}
	}
	r.t.Errorf("%d goroutines, %d files and %d children %v after the attack; before there were %d, %d and %d",
		now.goroutines, now.files, now.children, settling, before.goroutines, before.files, before.children)
	if os.Getenv("METAROUTER_HOSTILE_STACKS") != "" {
		r.process.Cmd.Process.Signal(syscall.SIGQUIT)
		<-r.process.Done
		r.t.Log(r.log())
	}
}

// patience is the longest wait for an answer of the router itself, settling that for its
// figures: calls under way may last 30 s when their server is removed.
const (
	patience = 2 * time.Minute
	settling = 2 * time.Minute
)

// log returns the end of the router's output.
func (r *router) log() string {
	text := r.process.Stderr()
	if len(text) > 20_000 {
		text = text[:4000] + "\n…\n" + text[len(text)-16_000:]
	}
	return text
}

// command runs a subcommand with the configuration of the router to its end.
func (r *router) command(args ...string) (output string, code int) {
	cmd := exec.CommandContext(within(r.t, patience), r.binary, append(args, "--config", r.config, "--data", r.data())...)
	cmd.Dir = r.dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); cmd.ProcessState == nil {
		r.t.Error(err)
		return "", -1
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// end checks what the router has used, stops it, and checks that nothing is left.
func (r *router) end() {
	r.t.Helper()
	select {
	case <-r.process.Done:
		r.t.Errorf("the router has ended: %v\n%s", r.process.Cmd.ProcessState, r.log())
		return
	default:
	}
	if peak := memory(r.pid(), "VmHWM"); peak > maxMemory {
		r.t.Errorf("the router used %d MB, more than %d MB", peak>>20, maxMemory>>20)
	}
	if r.host != 0 {
		r.process.CloseInput()
	} else {
		r.process.Cmd.Process.Signal(syscall.SIGTERM)
	}
	select {
	case <-r.process.Done:
		if !r.process.Cmd.ProcessState.Success() {
			r.t.Errorf("the router ended with %v\n%s", r.process.Cmd.ProcessState, r.log())
		}
	case <-time.After(patience):
		r.t.Errorf("the router still runs %v after its end was asked for", patience)
		syscall.Kill(r.pid(), syscall.SIGQUIT)
		<-r.process.Done
		r.t.Log(r.log())
	}
	crashes, _ := os.ReadFile(filepath.Join(r.data(), "crashes.log"))
	text := r.process.Stderr() + string(crashes)
	for _, words := range []string{"DATA RACE", "panic: ", "fatal error: ", "panicked"} {
		expect.Equal(r.t, strings.Contains(text, words), false, "the router's log has %q:\n%s", words, r.log())
	}
	r.gone()
}

// gone checks that no process of a server is left, and ends those that are.
func (r *router) gone() {
	r.t.Helper()
	var left []int
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		left = nil
		for _, p := range r.ours() {
			left = append(left, p.pid)
		}
		for _, pid := range mcptest.PIDs(r.t, r.pids()) {
			if mcptest.Alive(pid) {
				left = append(left, pid)
			}
		}
		if len(left) == 0 {
			return
		}
	}
	r.t.Errorf("processes are left: %v", left)
	for _, pid := range left {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}
