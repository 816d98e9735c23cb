//go:build linux

package main

import (
	"os"
	"os/signal"
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
	signal.Notify(asked, makeNoise, cutLine, closeStdout, closeStdin)
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
		}
	}
}
