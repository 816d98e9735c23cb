//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/mcp-metarouter/metarouter/test/internal/address"
)

// serverName is the name of the copy of this program that plays the servers.
const serverName = "server"

// A run is a run of this program.
type run struct {
	options
	dir  string // contains the folders below
	bin  string // the executables
	data string // the routers' data
	temp string // TMPDIR

	smallDisk bool // data is a separate disk, which may be filled
	ledger    *ledger
	config    *configuration
	web       *web
	all       []*client
	meter     *meter
	faulter   *faulter

	mu       sync.Mutex // guards the fields below
	problems []string   // broken promises
	seen     map[string]bool
}

// do does the whole run. ok is false if a check failed.
func do(ctx context.Context, o options) (ok bool, err error) {
	dir, err := os.MkdirTemp("", "chaos")
	if err != nil {
		return false, err
	}
	r := &run{options: o, dir: dir, bin: filepath.Join(dir, "bin"), data: filepath.Join(dir, "data"), temp: filepath.Join(dir, "tmp"),
		seen: map[string]bool{}}
	r.ledger = newLedger(r.killsRouters())
	if err := r.prepare(ctx); err != nil {
		return false, err
	}
	began := time.Now()
	r.steps(ctx)
	if ctx.Err() != nil {
		r.problem("interrupted")
	}
	if err := r.write(time.Since(began)); err != nil {
		return false, err
	}
	ok = len(r.problems) == 0 && r.ledger.sum().sound()
	if ok && !o.keep {
		if r.smallDisk {
			unmountDisk(r.data)
		}
		return true, os.RemoveAll(dir)
	}
	fmt.Fprintln(os.Stderr, "chaos: kept", dir)
	return ok, nil
}

// steps does the steps of the run, from the first call to the end of the last process.
func (r *run) steps(ctx context.Context) {
	say("starting %d clients of %d servers, seed %d", r.clients, r.servers, r.seed)
	r.everyServerAnswers(ctx, "at the start")
	r.load(ctx, max(3*time.Second, r.lasts/10)) // so that routers have everything that they make at first use
	before := r.settled(ctx)

	say("%v of load, with these faults: %v", r.lasts, r.options.faults)
	sampling := r.meter.start(ctx)
	r.load(ctx, r.lasts, r.faulter.rampage)
	sampling()
	if err := r.config.restore(); err != nil {
		r.problem("restore the configuration: %v", err)
	}
	say("all faults are over; is everything as it was?")
	r.everyServerAnswers(ctx, "after the faults")
	r.compare(ctx, before)
	r.stop()
}

// prepare creates the folders, the configuration and the clients.
func (r *run) prepare(ctx context.Context) error {
	for _, dir := range []string{r.bin, r.data, r.temp} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	r.smallDisk = mountDisk(r.data)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := copyFile(filepath.Join(r.bin, serverName), self); err != nil {
		return err
	}
	router := filepath.Join(r.bin, "metarouter")
	if r.router != "" {
		err = copyFile(router, r.router)
	} else {
		build := exec.CommandContext(ctx, "go", "build", "-o", router, "github.com/mcp-metarouter/metarouter/cmd/metarouter")
		build.Stderr = os.Stderr
		err = build.Run()
	}
	if err != nil {
		return fmt.Errorf("get the router: %w", err)
	}
	r.config = newConfiguration(filepath.Join(r.dir, "mcp.json"), filepath.Join(r.bin, serverName), r.servers)
	if err := r.config.restore(); err != nil {
		return err
	}
	r.meter = &meter{run: r}
	r.faulter = &faulter{run: r, random: rand.New(rand.NewPCG(r.seed, 0)), count: map[string]int{}, busy: map[string]bool{}}
	if r.web, err = newWeb(r); err != nil {
		return err
	}
	for i := range r.clients {
		r.all = append(r.all, r.client(i))
	}
	return nil
}

// client makes the i-th client. Transports and eras alternate.
func (r *run) client(i int) *client {
	overHTTP, modern := i%2 == 1, i%4 > 1
	c := &client{ledger: r.ledger, config: r.config, pause: r.pause, mayEnd: r.killsRouters(), report: func(what string) { r.problem("%s", what) }}
	if overHTTP {
		c.name = fmt.Sprintf("client %d over HTTP", i)
		c.open = func(ctx context.Context, slow *slowness) (link, error) {
			return openSession(ctx, r.web.url, modern, r.ledger, slow)
		}
	} else {
		c.name = fmt.Sprintf("client %d over stdio", i)
		c.open = func(ctx context.Context, slow *slowness) (link, error) {
			return openPipe(ctx, r.serve(fmt.Sprintf("router-%d.log", i)), modern, r.ledger, slow)
		}
	}
	return c
}

func (o options) killsRouters() bool { return slices.Contains(o.faults, "router") }

// serve returns the command of a router, not started. Its log is appended to a file.
func (r *run) serve(log string, flags ...string) *exec.Cmd {
	args := append([]string{"serve", "--debug", "--config", r.config.path, "--data", r.data, "--mode", "direct"}, flags...)
	if r.standalone {
		args = append(args, "--standalone")
	}
	cmd := exec.Command(filepath.Join(r.bin, "metarouter"), args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "TMPDIR="+r.temp)
	// A file, so that a router never waits for this process. If it cannot be opened, the
	// router has no log.
	cmd.Stderr, _ = os.OpenFile(filepath.Join(r.dir, log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return cmd
}

// load lets all clients make calls for a while, and runs meanwhile at the same time.
func (r *run) load(ctx context.Context, d time.Duration, meanwhile ...func(context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var all sync.WaitGroup
	for i, c := range r.all {
		for j := range r.workers {
			random := rand.New(rand.NewPCG(r.seed, uint64(1+i*1000+j)))
			all.Go(func() { c.work(ctx, random) })
		}
	}
	for _, f := range meanwhile {
		all.Go(func() { f(ctx) })
	}
	all.Wait()
}

// recovery is the longest time until a server answers after the last fault: calls in flight may
// take 8 s, and a server that failed too often gets no calls for 15 s.
const recovery = 3 * time.Minute

// everyServerAnswers lets every client call every server until it answers.
func (r *run) everyServerAnswers(ctx context.Context, when string) {
	until := time.Now().Add(recovery)
	var all sync.WaitGroup
	for _, c := range r.all {
		all.Go(func() {
			for _, server := range r.config.base {
				for ctx.Err() == nil {
					right, err := c.make(ctx, echoCall(r.ledger.next(), server, "echo", 10))
					if right {
						break
					}
					if time.Now().After(until) {
						r.problem("%s %s: server %q does not answer: %v", c.name, when, server, err)
						return
					}
					time.Sleep(300 * time.Millisecond)
				}
			}
		})
	}
	all.Wait()
}

// stop ends all clients and looks for remains.
func (r *run) stop() {
	var all sync.WaitGroup
	for _, c := range r.all {
		all.Go(func() {
			if err := c.leave(); err != nil {
				r.problem("%v", err)
			}
		})
	}
	all.Wait()
	if err := r.web.stop(); err != nil {
		r.problem("the router over HTTP: %v", err)
	}
	r.lookForRemains()
}

// problem reports a broken promise, once.
func (r *run) problem(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.seen[text] && len(r.problems) < 50 {
		r.seen[text] = true
		r.problems = append(r.problems, text)
		fmt.Fprintln(os.Stderr, "chaos: problem:", text)
	}
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "chaos: "+format+"\n", args...)
}

// A web is the router that all clients over HTTP share. It is started again when it is killed.
type web struct {
	url     string
	run     *run
	address string

	stopping chan struct{}
	stopped  chan struct{}

	mu  sync.Mutex // guards the fields below
	cmd *exec.Cmd
	err error // of its regular end
}

func newWeb(r *run) (*web, error) {
	free, err := address.Free()
	if err != nil {
		return nil, err
	}
	w := &web{url: "http://" + free + "/mcp", run: r, address: free, stopping: make(chan struct{}), stopped: make(chan struct{})}
	started := make(chan error, 1)
	go w.keep(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return w, w.listening()
}

// keep starts the router, and starts it again when it ends, until stop is called.
func (w *web) keep(started chan<- error) {
	defer close(w.stopped)
	runtime.LockOSThread() // the death signal belongs to the thread
	for {
		cmd := w.run.serve("router-http.log", "--http", w.address)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
		err := cmd.Start()
		w.mu.Lock()
		w.cmd = cmd
		w.mu.Unlock()
		select {
		case started <- err:
		default:
		}
		if err != nil {
			return
		}
		err = cmd.Wait()
		select {
		case <-w.stopping:
			w.err = err
			return
		default:
		}
		if !w.run.killsRouters() {
			w.run.problem("the router over HTTP ended by itself (%v)", err)
		}
	}
}

// listening waits until the router accepts connections.
func (w *web) listening() error {
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if c, err := net.Dial("tcp", w.address); err == nil {
			return c.Close()
		}
	}
	return errors.New("the router does not listen on " + w.address)
}

func (w *web) stop() error {
	close(w.stopping)
	w.mu.Lock()
	w.cmd.Process.Signal(syscall.SIGTERM)
	w.mu.Unlock()
	if !within(w.stopped, patience) {
		w.mu.Lock()
		w.cmd.Process.Signal(syscall.SIGQUIT)
		w.mu.Unlock()
		return fmt.Errorf("it still ran %v after SIGTERM", patience)
	}
	return w.err
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
