//go:build linux

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// Signals make a server of the run misbehave. The server and the Go runtime do not use them
// otherwise.
const (
	makeNoise   = syscall.SIGUSR1  // write lines to stdout that are no messages
	cutLine     = syscall.SIGUSR2  // write half a line, which destroys the next message
	closeStdout = syscall.SIGWINCH // and continue
	closeStdin  = syscall.SIGPWR   // the server ends after one more message
	leaveChild  = syscall.SIGIO    // start a process that is hard to find
)

// noise is text that servers write to stdout by mistake.
var noise = strings.Join([]string{
	"Listening on stdio…",
	`{"level":30,"msg":"not a message"}`,
	`{"jsonrpc":"2.0","id":987654321,"result":{}}`,
	`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no such request"}}`,
	`{"jsonrpc":"2.0","method":"notifications/unheard_of"}`,
	"\xff\xfe\x00", "", "null", "[]", strings.Repeat("x", 100_000), "",
}, "\n")

// serveIfAsked plays the fake server and exits if this process was started as one.
func serveIfAsked() {
	asked := make(chan os.Signal, 8)
	signal.Notify(asked, makeNoise, cutLine, closeStdout, closeStdin, leaveChild)
	go misbehave(asked)
	mcptest.ServeIfAsked()
	signal.Stop(asked) // this process is not a server
	close(asked)
}

func misbehave(asked <-chan os.Signal) {
	for s := range asked {
		switch s {
		case makeNoise:
			os.Stdout.WriteString(noise)
		case cutLine:
			os.Stdout.WriteString(`{"jsonrpc":"2.0","id":`)
		case closeStdout:
			syscall.Close(1) // os.Stdout.Close would wait for its readers and writers
		case closeStdin:
			syscall.Close(0)
		case leaveChild:
			leave()
		}
	}
}

// leave starts a process without an environment in a session of its own, and does not wait for
// it. It must end with the server.
func leave() {
	command, args := mcptest.Command("-only-sleep", "-name", childOf+strconv.Itoa(os.Getpid()), "-lifetime", "1h")
	child := exec.Command(command, args...)
	child.Env = []string{}
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		os.Stderr.WriteString("chaos: start a child: " + err.Error() + "\n")
	}
}

// childOf is the beginning of the name of such a process; the server's process id follows.
const childOf = "child-of-"
