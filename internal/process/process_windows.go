package process

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"go.uber.org/zap"
	"golang.org/x/sys/windows"
)

// RunGuard does nothing: on Windows the kernel kills the servers when the router's
// job object is closed, which the router's death does.
func RunGuard(*os.File) {}

// Open does nothing: programs are no links here, and "start" is no program but a part
// of cmd.
func Open([]string) {}

// An opener would start programs that servers open for the user outside their job objects.
type opener struct{}

func newOpener(string) (*opener, error) { return nil, nil }

func (*opener) files() []string                   { return nil }
func (*opener) environment(env []string) []string { return env }
func (*opener) close()                            {}

// A guard holds the router's own job object. Every process that the router
// starts is in it from its first instruction, and the kernel kills them all when
// the last handle to it is closed: when the router ends, however it ends.
type guard struct{ job windows.Handle }

// A GuardProcess is empty: no guard process runs.
type GuardProcess struct{}

// StartGuard starts nothing.
func StartGuard([]string) *GuardProcess { return nil }

func startGuard(command []string, _ *GuardProcess, _ string, _ []string, _ *zap.Logger) (*guard, error) {
	if len(command) == 0 {
		return nil, nil
	}
	job, err := newJob()
	if err != nil {
		return nil, err
	}
	if err := windows.AssignProcessToJobObject(job, windows.CurrentProcess()); err != nil {
		windows.CloseHandle(job)
		return nil, fmt.Errorf("join the job object: %w", err)
	}
	return &guard{job}, nil
}

// close leaves the handle to the end of the process, which is in the job itself.
func (g *guard) close() {}

func (g *guard) pid() int { return 0 }

func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, fmt.Errorf("create a job object: %w", err)
	}
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{
			LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
		},
	}
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info))); err != nil {
		windows.CloseHandle(job)
		return 0, fmt.Errorf("set up a job object: %w", err)
	}
	return job, nil
}

// A tree is a child with its descendants, all in one job object.
type tree struct {
	job windows.Handle
	cmd *exec.Cmd
}

func (t *tree) start(l launch, _ *guard) (pid int, err error) {
	job, err := newJob()
	if err != nil {
		return 0, err
	}
	t.cmd = l.command()
	t.cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
	if err := t.cmd.Start(); err != nil {
		windows.CloseHandle(job)
		return 0, err
	}
	t.job = job
	return t.cmd.Process.Pid, t.cmd.Process.WithHandle(func(h uintptr) {
		windows.AssignProcessToJobObject(job, windows.Handle(h))
	})
}

func (t *tree) wait() exit {
	t.cmd.Wait()
	windows.CloseHandle(t.job) // which kills everything that the child has left
	return exit{code: t.cmd.ProcessState.ExitCode()}
}

// The processes that the child has left end with its job object.
func (t *tree) follow() (stopped bool) { return false }
func (t *tree) killLeft()              {}

// terminate has nothing to send: Windows has no SIGTERM for programs without a
// console of ours.
func (t *tree) terminate()           {}
func (t *tree) kill(<-chan struct{}) { windows.TerminateJobObject(t.job, 1) }
