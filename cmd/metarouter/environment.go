package main

import (
	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/oneshot"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/telemetry"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// An environment is what a subcommand works with: the console and the command line of
// the process, and the flags that subcommands share.
type environment struct {
	*console.Console
	files configfile.Source
	local oneshot.Runner

	args []string // the command line after the program's name

	standalone bool    // --standalone
	profile    *string // --profile; nil if it is not given

	guard *supervisor.GuardProcess // was started for the router of this process; nil if it was not

	input   string  // the value of --args once it is read, for a router that carries out the command
	agreed  string  // the question about the call to which the person has agreed, likewise
	running *hosted // set in a router that carries out the command of another process
}

// newEnvironment returns the environment of a command line.
func newEnvironment(c *console.Console, args ...string) *environment {
	env := &environment{Console: c, args: args}
	env.files.Console = c
	env.local = oneshot.Runner{Files: &env.files, Version: version}
	return env
}

// A hosted is the running router that carries out a command.
type hosted struct {
	router *adapter.Parts
	edits  *edits
	mode   string                                // in which it shows its tools: server.Direct or server.Search
	costs  func(*adapter.Parts) []telemetry.Cost // of clients, in tokens

	asks     bool   // that process can ask its person about the call
	agreed   string // the question to which that person has agreed
	question string // that the person is to be asked; "" for none
}
