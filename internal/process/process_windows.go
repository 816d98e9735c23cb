package process

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"unsafe"

	"go.uber.org/zap"
	"golang.org/x/sys/windows"
)

// RunGuard does nothing: the kernel kills the servers when the router's job object is closed.
func RunGuard(*os.File) {}

// Open does nothing: programs are no links here, and "start" is a part of cmd.
func Open([]string) {}

// An opener would start programs that servers open for the user outside their job objects.
type opener struct{}

func newOpener(string) (*opener, error) { return nil, nil }

func (*opener) files() []string                   { return nil }
func (*opener) environment(env []string) []string { return env }
func (*opener) close()                            {}

// A guard holds the router's own job object. Every process that the router starts is in it from
// its first instruction, and the kernel kills them all when the router ends, however it ends.
type guard struct{ job windows.Handle }

func startGuard(command []string, _ string, _ []string, _ *zap.Logger) (*guard, error) {
	if len(command) == 0 {
		return nil, nil
	}
	job, err := newJob()
	if err == nil {
		err = windows.AssignProcessToJobObject(job, windows.CurrentProcess())
	}
	if err != nil {
		windows.CloseHandle(job)
		return nil, fmt.Errorf("have servers end with this process: %w", err)
	}
	return &guard{job}, nil
}

// close leaves this process in a job without limits: what it starts from now on may outlive it.
func (g *guard) close() {
	if g != nil && limit(g.job, 0) == nil {
		windows.CloseHandle(g.job)
	}
}

// newJob returns a job: the kernel kills its processes when its last handle is closed.
func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err == nil {
		err = limit(job, windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE)
	}
	if err != nil {
		windows.CloseHandle(job)
		return 0, fmt.Errorf("make a job object: %w", err)
	}
	return job, nil
}

func limit(job windows.Handle, flags uint32) error {
	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	info.BasicLimitInformation.LimitFlags = flags
	_, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	return err
}

// A tree is a child with its descendants, all in one job object.
type tree struct {
	cmd *exec.Cmd
	mu  sync.Mutex     // guards job
	job windows.Handle // 0 once it is closed: its number may be another job's
}

func (t *tree) start(l launch, _ *guard) (pid int, err error) {
	if t.job, err = newJob(); err != nil {
		return 0, err
	}
	t.cmd = l.command()
	t.cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
	if err := t.cmd.Start(); err != nil {
		windows.CloseHandle(t.job)
		return 0, err
	}
	return t.cmd.Process.Pid, t.cmd.Process.WithHandle(func(h uintptr) {
		windows.AssignProcessToJobObject(t.job, windows.Handle(h)) // fails if the child has ended
	})
}

func (t *tree) wait() exit {
	t.cmd.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	windows.CloseHandle(t.job) // which kills everything that the child has left
	t.job = 0
	return exit{code: t.cmd.ProcessState.ExitCode()}
}

// The processes that the child has left end with its job object.
func (t *tree) follow() (stopped bool) { return false }
func (t *tree) killLeft()              {}

// terminate does nothing: Windows has no SIGTERM for programs without a console of ours.
func (t *tree) terminate() {}

func (t *tree) kill(<-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	windows.TerminateJobObject(t.job, 1)
}

// detach does nothing.
func detach(*exec.Cmd) {}
