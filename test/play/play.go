// Package play has routers run the fake server in the test's own process, so that tests need no process and may have the
// fake time of testing/synctest.
package play

import (
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/test/fakeserver"
)

// Server is a [process.Player] for the commands of mcptest.Command; see [fakeserver.Play].
func Server(c process.Command) *process.Played {
	return played(fakeserver.Play(c.Path, c.Args, c.Dir, c.Env))
}

// Program returns a [process.Player] that runs a program for each command.
func Program(run fakeserver.Program) process.Player {
	return func(c process.Command) *process.Played { return played(fakeserver.PlayProgram(run, c.Dir, c.Env)) }
}

func played(p *fakeserver.Played) *process.Played {
	if p == nil {
		return nil
	}
	return &process.Played{PID: p.PID, Stdin: p.Stdin, Stdout: p.Stdout, Stderr: p.Stderr, Wait: p.Wait, Terminate: p.Terminate, Kill: p.Kill}
}
