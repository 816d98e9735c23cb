//go:build linux

package main

import (
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/mcp-metarouter/metarouter/internal/mcptest"
)

// Signals make a server of ours misbehave. They are those that mean nothing to it
// otherwise, and that the Go runtime does not use itself.
const (
	makeNoise   = syscall.SIGUSR1  // write lines to stdout that are no messages
	cutLine     = syscall.SIGUSR2  // write half a line, which spoils the next message
	closeStdout = syscall.SIGWINCH // and go on
	closeStdin  = syscall.SIGPWR   // which ends it after one more message
)

// noise is what servers write to stdout by mistake, and worse.
var noise = strings.Join([]string{
	"Listening on stdio…",
	`{"level":30,"msg":"not a message"}`,
	`{"jsonrpc":"2.0","id":987654321,"result":{}}`,
	`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"nobody asked"}}`,
	`{"jsonrpc":"2.0","method":"notifications/unheard_of"}`,
	"\xff\xfe\x00", "", "null", "[]", strings.Repeat("x", 100_000), "",
}, "\n")

// serveIfAsked plays the fake server and exits if this process was started as one.
func serveIfAsked() {
	asked := make(chan os.Signal, 8)
	signal.Notify(asked, makeNoise, cutLine, closeStdout, closeStdin)
	go misbehave(asked)
	mcptest.ServeIfAsked()
	signal.Stop(asked) // this is no server
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
			syscall.Close(1) // not os.Stdout.Close, which would wait for its readers and writers
		case closeStdin:
			syscall.Close(0)
		}
	}
}
