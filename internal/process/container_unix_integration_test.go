//go:build unix

package process

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// Stop returns when the container is stopped, whoever is the parent of its client, and also while all
// servers are being stopped.
func TestContainerEndsWithItsClient(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for name, guard := range map[string][]string{"a guard": guardCommand(), "a killed guard": guardCommand(), "no guard": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, ending := t.TempDir(), make(chan struct{})
			engine, file := filepath.Join(dir, "docker"), filepath.Join(dir, "id")
			script := `case $1 in
run) echo ` + id + ` >id; cat;;
*) echo "$HOST $*" >>said;;
esac
`
			expect.OK(t, os.WriteFile(engine, []byte(script), 0o600)) // for sh: a file that was just written is busy while another test forks
			s := NewStarter(guard, ending, zap.NewNop())
			expect.OK(t, s.Open())
			defer s.Close()
			env := append(os.Environ(), "HOST=here")
			p, err := s.Start(Command{Path: "/bin/sh", Args: []string{engine, "run"}, Dir: dir, Env: env, Container: &Container{
				File: file, Remove: []string{file}, Path: "/bin/sh", Dir: dir, Env: env, Commands: [][]string{{engine, "stop"}, {engine, "rm"}},
			}})
			expect.OK(t, err)
			mcptest.WaitFor(t, "the container", func() bool { b, _ := os.ReadFile(file); return len(b) > len(id) })
			if name == "a killed guard" {
				syscall.Kill(s.GuardPID(), syscall.SIGKILL)
				mcptest.WaitFor(t, "the loss of the guard", p.tree.(*tree).lost.Load)
			}
			close(ending)
			p.Stop(true)
			p.Stdout.Close()
			p.Stderr.Close()
			said, _ := os.ReadFile(filepath.Join(dir, "said"))
			expect.Equal(t, string(said), "here stop "+id+"\nhere rm "+id+"\n", "the engine was asked")
			if _, err := os.Stat(file); err == nil {
				t.Error("the file is left")
			}
		})
	}
}

// The files of a container are removed if its client can't be started.
func TestContainerOfNoClient(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	s := NewStarter(nil, make(chan struct{}), zap.NewNop())
	expect.OK(t, s.Open())
	defer s.Close()
	folder := filepath.Join(t.TempDir(), "ids")
	expect.OK(t, os.Mkdir(folder, 0o700))
	_, err := s.Start(Command{Path: "/no/such/docker", Container: &Container{Remove: []string{folder}}})
	if _, ok := errors.AsType[*StartError](err); !ok {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Stat(folder); err == nil {
		t.Error("the folder is left")
	}
}
