//go:build unix

package supervisor

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// gate makes sure that the guard knows of the command before it executes; open
// is called once it was told of the process group, shut if there is none.
//
// On Linux there is nothing to do: a forked child holds a copy of the router's
// end of the guard's pipe until it executes, so the guard sees the pipe close
// only after that, and then the child's environment bears the mark that the
// guard looks for.
func gate(cmd *exec.Cmd, g *guard) (open, shut func(), err error) {
	if g == nil || runtime.GOOS == "linux" {
		return func() {}, func() {}, nil
	}
	return behindGate(cmd, g)
}

// behindGate has the guard's program wait for a line on descriptor 3, and then
// become the command: elsewhere the environment of programs that the system
// protects can't be read for the mark. If the router dies in between, the end of
// file makes the gate go away.
func behindGate(cmd *exec.Cmd, g *guard) (open, shut func(), err error) {
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

// Gate is the other side of the gate: it becomes the command once the guard was
// told. It returns only if it can't.
func Gate(command []string) error {
	opened := os.NewFile(3, "gate")
	if n, _ := opened.Read(make([]byte, 1)); n == 0 {
		return errors.New("the router has gone")
	}
	opened.Close()
	return syscall.Exec(command[0], command, os.Environ())
}
