package fakeserver

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mcp-metarouter/metarouter/test/internal/filelock"
)

// serve plays the fake server that the flags ask for, on stdin and stdout of this process, and exits.
func serve(args []string) {
	o := parseOptions(systemProcess(), args)
	time.AfterFunc(o.lifetime, func() { os.Exit(0) })
	if o.pidFile != "" {
		o.appendTo(o.pidFile, fmt.Sprintf("%d\n", o.pid))
	}
	if o.ignoreTerm {
		signal.Ignore(syscall.SIGTERM, os.Interrupt, syscall.SIGHUP)
	}
	if o.onlyEra != "" {
		os.Exit(relay(o.onlyEra, o.command))
	}
	if o.onlySleeping {
		os.Stdin.Close() // leaveChild waits for this
		select {}
	}
	o.play()
}

// play plays the server from its first message to its last, and exits.
func (o *options) play() {
	begin(o)
	newServer(o).run()
	if o.ignoreEOF {
		<-o.killed
	}
	o.end(0)
}

// begin does everything that comes before the first message.
func begin(o *options) {
	if o.exit {
		o.fail(3, "fatal: FAKE_TOKEN is not set")
	}
	if o.crashes > 0 && o.countStart(o.state) <= o.crashes {
		o.fail(3, "fatal: crashing at this start")
	}
	if o.exclusive != "" {
		f, err := filelock.Lock(o.exclusive, false)
		if err != nil {
			o.fail(6, "fatal: another instance is running: %v", err)
		}
		o.atExit(func() { f.Close() }) // it holds the lock until then
	}
	if o.grandchild {
		leaveChild(o, false)
	}
	if o.setsid {
		leaveChild(o, true)
	}
	for left := o.stderrFlood; left > 0; left -= 100 {
		fmt.Fprintln(o.stderr, strings.Repeat("!", min(left, 100)-1))
	}
	o.sleep(o.startDelay)
	for _, err := os.Stat(o.startFile); o.startFile != "" && err != nil; _, err = os.Stat(o.startFile) {
		o.sleep(10 * time.Millisecond)
	}
}

// leaveChild starts a process that sleeps for a lifetime and does not wait for it. It
// returns when the child has set up its signals.
func leaveChild(o *options, session bool) {
	command, args := Command("-only-sleep", "-lifetime", o.lifetime.String(),
		"-ignore-term="+strconv.FormatBool(o.ignoreTerm))
	cmd := exec.Command(command, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if session {
		cmd.SysProcAttr = ownSession()
	}
	ready, stdin, err := os.Pipe()
	if err != nil {
		o.fail(1, "start grandchild: %v", err)
	}
	cmd.Stdin = stdin // the write end, which the child only closes
	if err := cmd.Start(); err != nil {
		o.fail(1, "start grandchild: %v", err)
	}
	stdin.Close()
	io.Copy(io.Discard, ready)
	ready.Close()
	if o.pidFile != "" {
		o.appendTo(o.pidFile, fmt.Sprintf("%d\n", cmd.Process.Pid))
	}
}

// countStart appends a line to the file and returns how many lines it has.
func (p *process) countStart(file string) int {
	p.appendTo(file, "start\n")
	b, err := os.ReadFile(file)
	if err != nil {
		p.fail(1, "read -state: %v", err)
	}
	return strings.Count(string(b), "\n")
}

func (p *process) appendTo(file, text string) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
		f.Close()
	}
	if err != nil {
		p.fail(1, "%v", err)
	}
}

func (p *process) fail(status int, format string, args ...any) {
	fmt.Fprintf(p.stderr, format+"\n", args...)
	p.end(status)
}
