//go:build unix

package process

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// shim makes sure that the guard knows of the command before it executes: open
// must be called once the process group is registered, shut if the command did not
// start.
//
// On Linux there is nothing to do: a forked child holds a copy of the router's
// end of the guard's pipe until it executes, so the guard sees the pipe close
// only after that, and then the child's environment carries the mark that the
// guard looks for.
func shim(cmd *exec.Cmd, g *guard) (open, shut func(), err error) {
	if g == nil || runtime.GOOS == "linux" {
		return func() {}, func() {}, nil
	}
	return behindShim(cmd, g)
}

// behindShim changes cmd into the guard's program, which waits for a line on
// descriptor 3 and then becomes the command: outside Linux the environment of
// programs that the system protects can't be read for the mark. If the router dies
// in between, the end of file ends the shim.
func behindShim(cmd *exec.Cmd, g *guard) (open, shut func(), err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	cmd.ExtraFiles = []*os.File{r}
	args := append([]string{}, g.command...)
	args = append(args, "--", cmd.Path)
	cmd.Path, cmd.Args = g.command[0], append(args, cmd.Args[1:]...)
	shut = func() {
		r.Close()
		w.Close()
	}
	return func() { w.WriteString("\n"); shut() }, shut, nil
}

// ExecShim is the whole of the exec shim: it becomes the command once its process
// group is registered with the process guard. It returns only on failure.
func ExecShim(command []string) error {
	opened := os.NewFile(3, "shim")
	if n, _ := opened.Read(make([]byte, 1)); n == 0 {
		return errors.New("the router has gone")
	}
	opened.Close()
	return syscall.Exec(command[0], command, os.Environ())
}
