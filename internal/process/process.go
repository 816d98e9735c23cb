package process

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/keeper"
	"github.com/mcp-metarouter/metarouter/internal/pipe"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

const (
	graceEOF  = 2 * time.Second // for a server to end once its stdin is closed
	graceTerm = 2 * time.Second // and then, after SIGTERM
	// GraceOutput is how long the last output of a dead process may take to arrive.
	GraceOutput = 2 * time.Second
	// ExitWait is how long a process may take to end, and to be reported as ended, after the end of its output.
	ExitWait = 5 * time.Second
)

// A Command is everything that a process is started with.
type Command struct {
	Path string // of the executable
	Args []string
	Env  []string // the whole environment but for the mark
	Dir  string   // "" is the router's own

	// KeepStrays leaves alone the processes that the process starts outside its process group.
	KeepStrays bool

	// Container is stopped when the process has ended; may be nil.
	Container *Container
}

// A Starter starts processes that do not outlive the router.
type Starter struct {
	guardCommand []string
	ending       <-chan struct{}
	log          *zap.Logger
	mark         string // in the environment of every process, with a number after it
	started      atomic.Int64
	guard        *guard  // nil: nothing covers the router's sudden death
	opener       *opener // nil: programs that servers open for the user end with them
	running      sync.WaitGroup

	Play Player // may be nil
}

// NewStarter returns a Starter, which must be opened before use. guardCommand is a
// command line that runs [RunGuard]; empty for no guard. Its program must call [Open]
// first of all. ending is closed when all processes are about to be stopped.
func NewStarter(guardCommand []string, ending <-chan struct{}, log *zap.Logger) *Starter {
	return &Starter{guardCommand: guardCommand, ending: ending, log: log, mark: rand.Text()}
}

// Open starts the process guard, and waits for programs that servers open for the user.
func (s *Starter) Open() (err error) {
	if len(s.guardCommand) > 0 {
		if s.opener, err = newOpener(s.guardCommand[0]); err != nil {
			s.log.Warn("a browser that a server opens will end with the server", zap.Error(err))
		}
	}
	if s.guard, err = startGuard(s.guardCommand, s.mark, s.opener.files(), s.log); err != nil {
		s.opener.close()
	}
	return err
}

// Close kills every process that still carries the mark of this Starter, and then
// ends the process guard. All processes must have been stopped.
func (s *Starter) Close() {
	s.opener.close()
	if s.Started() > 0 {
		keeper.KillMarked(s.mark + ".")
	}
	s.guard.close()
	s.running.Wait()
}

// Started returns how many processes were started so far.
func (s *Starter) Started() int64 { return s.started.Load() }

// A Process is a running child with everything that it started.
type Process struct {
	PID    int
	Born   time.Time
	Stdin  Stdin
	Stdout io.ReadCloser
	Stderr io.ReadCloser
	Exited chan struct{} // closed once the child is reaped and its group is gone

	starter    *Starter
	keepStrays bool
	container  *Container
	stopped    chan struct{} // closed once the container has ended, too
	tree       family
	end        exit // valid after Exited
}

// A Stdin is the end of a pipe to which the router writes; see [pipe.End].
type Stdin interface {
	io.WriteCloser
	TryWrite(p []byte) (int, error)
	SetWriteDeadline(time.Time) error
}

// A family is a process with all that descends from it: a *tree, or Played.
type family interface {
	wait() exit
	follow() (stopped bool)
	terminate()
	kill(exited <-chan struct{})
	killLeft()
}

// A Player returns what stands for the process of a command; nil for a process of the system. It is for tests.
type Player func(Command) *Played

// Played stands for a process. Wait returns when it has ended, with its exit code, or -1 and the signal.
type Played struct {
	PID             int
	Stdin           Stdin
	Stdout, Stderr  io.ReadCloser
	Wait            func() (code int, signal string)
	Terminate, Kill func() // what SIGTERM and SIGKILL do
}

func (p *Played) wait() exit {
	code, signal := p.Wait()
	return exit{code, signal}
}
func (p *Played) follow() bool         { return true }
func (p *Played) terminate()           { p.Terminate() }
func (p *Played) kill(<-chan struct{}) { p.Kill() }
func (p *Played) killLeft()            {}

// An exit is how a process ended.
type exit struct {
	code int    // -1 if a signal ended it
	text string // of the signal
}

// A launch is a start of a process.
type launch struct {
	Command
	stdin, stdout, stderr *os.File
	mark                  string // of the process
	number                int64
}

// command returns the launch as a command of this process.
func (l launch) command() *exec.Cmd {
	return &exec.Cmd{
		Path: l.Path, Args: append([]string{l.Path}, l.Args...), Dir: l.Dir, Env: l.Env,
		Stdin: l.stdin, Stdout: l.stdout, Stderr: l.stderr,
	}
}

// Start starts the command. Its environment gets a mark of its own, which
// everything that it starts inherits, and a PATH that begins with the opener's folder.
func (s *Starter) Start(c Command) (*Process, error) {
	c.Env = s.opener.environment(c.Env)
	return s.start(c)
}

func (s *Starter) start(c Command) (_ *Process, err error) {
	if s.Play != nil {
		if played := s.Play(c); played != nil {
			s.started.Add(1)
			return s.follow(c, &Process{PID: played.PID, Stdin: played.Stdin, Stdout: played.Stdout, Stderr: played.Stderr, tree: played}), nil
		}
	}
	var files [6]*os.File
	defer func() {
		if err != nil {
			err = &StartError{c.Path, err}
			c.Container.Discard()
			for _, f := range files {
				f.Close()
			}
		}
	}()
	for i := 0; i < len(files); i += 2 {
		if files[i], files[i+1], err = os.Pipe(); err != nil {
			return nil, fmt.Errorf("open a pipe: %w", err)
		}
	}
	l := launch{Command: c, stdin: files[0], stdout: files[3], stderr: files[5], number: s.started.Add(1)}
	l.mark = fmt.Sprintf("%s.%d.", s.mark, l.number)
	if !c.KeepStrays {
		l.Env = append(slices.Clip(c.Env), MarkVariable+"="+l.mark)
	}
	t := &tree{}
	pid, err := t.start(l, s.guard)
	if err != nil {
		return nil, err
	}
	for _, i := range []int{0, 3, 5} {
		files[i].Close()
	}
	return s.follow(c, &Process{PID: pid, Stdin: pipe.New(files[1]), Stdout: pipe.New(files[2]), Stderr: files[4], tree: t}), nil
}

// follow completes a process that has started, and waits for its end.
func (s *Starter) follow(c Command, p *Process) *Process {
	p.Born, p.Exited, p.stopped = time.Now(), make(chan struct{}), make(chan struct{})
	p.starter, p.keepStrays, p.container = s, c.KeepStrays, c.Container
	s.running.Go(func() {
		p.end = p.tree.wait()
		close(p.Exited)
		if !p.tree.follow() {
			stopContainer(c.Container)
		}
		close(p.stopped)
	})
	return p
}

// Stop ends the process and everything that it started: it closes stdin, waits,
// sends SIGTERM to the group, waits, and sends SIGKILL. A process that has never
// spoken, such as a package runner that is still downloading, does not wait for the
// end of its stdin, so it gets SIGTERM at once. Stop returns when the child is
// reaped, its container is stopped and its descendants are dead; while the Starter is ending, the descendants
// are left to [Starter.Close], which looks for the processes of all servers at once.
func (p *Process) Stop(spoke bool) {
	p.Stdin.Close()
	if !p.HasExited() && !(spoke && signal.Within(p.Exited, graceEOF)) {
		p.tree.terminate()
		if !signal.Within(p.Exited, graceTerm) {
			p.tree.kill(p.Exited)
			<-p.Exited
		}
	}
	if p.container != nil {
		signal.Within(p.stopped, 3*keeper.ContainerTimeout)
	}
	if !p.keepStrays && !signal.IsClosed(p.starter.ending) {
		p.tree.killLeft()
	}
}

// HasExited reports whether the child is reaped.
func (p *Process) HasExited() bool { return signal.IsClosed(p.Exited) }

// ExitStatus says how the process ended: its exit code, or the signal that ended it.
// It returns 0 and "" while the process runs.
func (p *Process) ExitStatus() (code int, signal string) {
	if !p.HasExited() {
		return 0, ""
	}
	return p.end.code, p.end.text
}

// ExitReason says how the process ended, as "exited with status 1".
func (p *Process) ExitReason() string {
	if !p.HasExited() {
		return "closed its stdout"
	}
	code, signal := p.ExitStatus()
	if code >= 0 {
		return fmt.Sprintf("exited with status %d", code)
	}
	return "was ended by " + signal
}
