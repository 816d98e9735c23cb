//go:build unix

package fakedocker

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// An Engine has containers, and serves clients.
type Engine struct {
	Host string // the value of DOCKER_HOST

	mu         sync.Mutex // guards the fields below
	containers []*container
}

// A Container is the engine's record of one.
type Container struct {
	ID, Name string
	Labels   []string
	Running  bool
}

type container struct {
	Container
	cmd   *exec.Cmd
	ended chan struct{}
}

// NewEngine starts an engine, which ends with the test and all of its containers.
func NewEngine(t testing.TB) *Engine {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "docker.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	e := &Engine{Host: "unix://" + socket}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { e.serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		for _, c := range e.all() {
			syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
		}
		serving.Wait()
	})
	return e
}

func (e *Engine) all() []*container {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.containers)
}

// Containers returns the containers that were not removed.
func (e *Engine) Containers() (all []Container) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.containers {
		all = append(all, c.Container)
	}
	return all
}

func (e *Engine) find(id string) *container {
	for _, c := range e.all() {
		if c.ID == id {
			return c
		}
	}
	return nil
}

func (e *Engine) drop(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.containers = slices.DeleteFunc(e.containers, func(c *container) bool { return c.ID == id })
}

// serve answers one client.
func (e *Engine) serve(conn net.Conn) {
	defer conn.Close()
	from := bufio.NewReader(conn)
	line, err := from.ReadBytes('\n')
	var r request
	if err != nil || json.Unmarshal(line, &r) != nil {
		return
	}
	answers := json.NewEncoder(conn)
	if r.Verb == "run" {
		e.run(r, from, answers)
		return
	}
	c := e.find(r.ID)
	switch {
	case c == nil:
		answers.Encode(answer{Error: "No such container: " + r.ID})
		return
	case r.Verb == "kill":
		syscall.Kill(-c.cmd.Process.Pid, r.Signal)
	case r.Verb == "stop":
		syscall.Kill(-c.cmd.Process.Pid, syscall.SIGTERM)
		select {
		case <-c.ended:
		case <-time.After(time.Duration(r.Seconds) * time.Second):
			syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
			<-c.ended
		}
	case r.Verb == "rm":
		if r.Force {
			syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
			<-c.ended
		}
		e.drop(c.ID)
	}
	answers.Encode(answer{Ended: true})
}

// run runs a container. It returns when the container has ended.
func (e *Engine) run(r request, stdin io.Reader, answers *json.Encoder) {
	random := make([]byte, 32)
	rand.Read(random)
	c := &container{Container: Container{ID: hex.EncodeToString(random), Name: r.Name, Labels: r.Labels, Running: true}, ended: make(chan struct{})}
	if i := slices.IndexFunc(e.Containers(), func(other Container) bool { return r.Name != "" && other.Name == r.Name }); i >= 0 {
		answers.Encode(answer{Code: refused, Error: fmt.Sprintf("Conflict. The container name %q is already in use", "/"+r.Name)})
		return
	}
	c.cmd = exec.Command(r.Command[0], r.Command[1:]...)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var mu sync.Mutex // guards answers
	send := func(a answer) {
		mu.Lock()
		defer mu.Unlock()
		answers.Encode(a) // fails if the client is dead, which does not end its container
	}
	c.cmd.Stdout = writerFunc(func(p []byte) { send(answer{Out: p}) })
	c.cmd.Stderr = writerFunc(func(p []byte) { send(answer{Err: p}) })
	in, err := c.cmd.StdinPipe()
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		answers.Encode(answer{Code: refused, Error: err.Error()})
		return
	}
	e.mu.Lock()
	e.containers = append(e.containers, c)
	e.mu.Unlock()
	send(answer{ID: c.ID})
	go func() {
		if r.Stdin {
			io.Copy(in, stdin)
		}
		in.Close()
	}()
	c.cmd.Wait()
	e.mu.Lock()
	c.Running = false
	e.mu.Unlock()
	close(c.ended)
	if r.Remove {
		e.drop(c.ID)
	}
	send(answer{Ended: true, Code: max(c.cmd.ProcessState.ExitCode(), 0)})
}

type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }
