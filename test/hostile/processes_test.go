//go:build linux

package hostile

import (
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
)

// processes misbehave as processes. No process may be left in the end.
var processes = map[string]kind{
	"crash on each call": {named: []string{"ended during the call"}, play: func(p *player) { p.onCall(func(message) { fail() }) }},
	"death every 20 calls": {slow: true, calls: 30, named: []string{"doctor: ", "log: "}, play: func(p *player) {
		n := 0
		p.onCall(func(m message) {
			if n++; n > 20 {
				fail()
			}
			p.result(m, text("fine"))
		})
	}, check: (*attack).mostlyAnswered, entry: map[string]any{"timeout": "20s", "startTimeout": "60s"}}, // a call may wait for a start
	"stopped process": {named: []string{"did not answer"}, play: func(p *player) { p.onCall(func(message) { syscall.Kill(os.Getpid(), syscall.SIGSTOP) }) }},
	"fork bomb of 30": {play: func(p *player) {
		p.onCall(func(m message) {
			p.fork(30, false, false)
			p.result(m, text("forked"))
			p.onCall(func(m message) { p.result(m, text("f")) })
		})
	}},
	"children that leave without environment": {play: func(p *player) { p.fork(5, true, true) }},
	"children that leave, and a crash": {named: []string{"doctor: ", "ended"}, play: func(p *player) {
		p.fork(2, true, true)
		p.onCall(func(message) { fail() })
	}},
	"grandchildren without parents": {play: func(p *player) {
		// The shell ends at once, so that its child has no parent that anyone knows.
		p.shell("for i in 1 2 3; do (env -i setsid sh -c 'echo $$ >> \"$0\"; exec sleep 100' \"$0\" >/dev/null 2>&1 </dev/null &) ; done")
	}},
	"SIGTERM ignored": {play: func(p *player) {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		p.remains = true
	}},
	"stdout closed, but living": {named: []string{"doctor: ", "ended"}, play: func(p *player) {
		p.onCall(func(message) { syscall.Close(1); select {} })
	}},
	"pipes held by a child": {named: []string{"doctor: ", "ended"}, play: func(p *player) {
		p.onCall(func(message) {
			c := exec.Command("sleep", "100")
			c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if c.Start() == nil {
				p.note(c.Process.Pid)
			}
			fail()
		})
	}},
}

// fail ends the process as a crash does.
func fail() {
	os.Stderr.WriteString("fatal: hostile\n")
	os.Exit(7)
}

// fork starts sleeping children, which may leave the session and have no environment.
func (p *player) fork(n int, leave, bare bool) {
	for range n {
		c := exec.Command("sleep", strconv.Itoa(int(playerLifetime.Seconds())))
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: leave}
		if bare {
			c.Env = []string{}
		}
		if c.Start() == nil {
			p.note(c.Process.Pid)
		}
	}
}

// shell runs a script, whose $0 is the file for process ids, to its end.
func (p *player) shell(script string) { exec.Command("sh", "-c", script, p.pids).Run() }

// mostlyAnswered checks that a server that dies now and then is not kept from answering.
func (a *attack) mostlyAnswered() {
	if a.calls < 20 || a.failed*5 > a.calls {
		a.t.Errorf("%d of %d calls failed, though the server answers twenty between two deaths", a.failed, a.calls)
	}
}
