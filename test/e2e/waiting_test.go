//go:build linux

package e2e

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// at starts a subcommand whose terminal is t.
func (p project) at(t *pty, args ...string) *exec.Cmd {
	p.Helper()
	cmd := p.command(args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = t.slave, t.slave, t.slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	expect.OK(p, cmd.Start())
	return cmd
}

// await waits until the terminal shows all the texts, in this order.
func (t *pty) await(test *testing.T, texts ...string) {
	test.Helper()
	mcptest.WaitFor(test, strings.Join(texts, " … ")+" on the terminal", func() bool {
		rest, found := t.shown(), true
		for _, text := range texts {
			if _, rest, found = strings.Cut(rest, text); !found {
				return false
			}
		}
		return true
	})
}

func (t *pty) enter(test *testing.T, line string) {
	test.Helper()
	_, err := t.master.WriteString(line + "\n")
	expect.OK(test, err)
}

const useIt = "Use it? [y/N]"

// servers asks at its own terminal, and the running router takes the edit at once.
func TestServersAsksForTheRouter(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	p := project{t, t.TempDir()}
	p.save("one")
	p.serveHTTP()
	p.save("one", "two")
	mcptest.WaitFor(t, "the edit", func() bool {
		out, _ := p.command("servers").CombinedOutput()
		return strings.Contains(string(out), "added: two")
	})

	refused := openPTY(t, 200, 24)
	cmd := p.at(refused, "servers")
	refused.await(t, "(added: two)", useIt)
	refused.enter(t, "n")
	expect.OK(t, cmd.Wait())
	refused.await(t, useIt, "note: the last edit is not in use", "one ", "ready")

	asks := openPTY(t, 200, 24)
	cmd = p.at(asks, "tools")
	asks.await(t, "(added: two)", useIt)
	asks.enter(t, "n")
	expect.OK(t, cmd.Wait())
	asks.await(t, useIt, "note: the last edit is not in use", "one:unit_convert")
	expect.Equal(t, strings.Contains(asks.shown(), "nothing was started"), false, "a router runs:\n%s", asks.shown())

	approved := openPTY(t, 200, 24)
	cmd = p.at(approved, "servers")
	approved.await(t, "(added: two)", useIt)
	began := time.Now()
	approved.enter(t, "y")
	expect.OK(t, cmd.Wait())
	approved.await(t, useIt, "one ")
	if time.Since(began) < 3*time.Second { // the router has taken the edit in the time that the command waits for that
		approved.await(t, useIt, "one ", "two ")
		if text := approved.shown(); strings.Contains(text, "not in use") {
			t.Errorf("the edit is approved:\n%s", text)
		}
	}
	mcptest.WaitFor(t, "the approved edit to be in use", func() bool {
		out, err := p.command("servers").CombinedOutput()
		return err == nil && strings.Contains(string(out), "two ") && !strings.Contains(string(out), "not in use")
	})

	p.save("one", "two", "three")
	silent := openPTY(t, 200, 24)
	cmd = p.at(silent, "serve")
	if err := cmd.Wait(); err == nil {
		t.Error("serve over stdio uses what is not trusted")
	}
	silent.await(t, "(added: three)", "run: metarouter trust")
	expect.Equal(t, strings.Contains(silent.shown(), useIt), false, "it asks:\n%s", silent.shown())
}

// trust asks at a terminal before it approves.
func TestTrustAsks(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	p := project{t, t.TempDir()}
	p.save("one")
	for _, test := range []struct{ answer, says string }{{"n", "not trusted, nothing was changed"}, {"y", "is trusted. If it changes"}} {
		terminal := openPTY(t, 200, 24)
		cmd := p.at(terminal, "trust")
		terminal.await(t, "it was found in this folder", "builtin utilities", useIt)
		terminal.enter(t, test.answer)
		expect.Equal(t, cmd.Wait() == nil, test.answer == "y")
		terminal.await(t, useIt, test.says)
	}
	p.save("one", "two")
	terminal := openPTY(t, 200, 24)
	cmd := p.at(terminal, "trust")
	terminal.await(t, "(added: two)", "two (new)", useIt)
	terminal.enter(t, "y")
	expect.OK(t, cmd.Wait())
}
