package main

import (
	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/cli"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/oneshot"
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
}

// newEnvironment returns the environment of a command line.
func newEnvironment(c *console.Console, args ...string) *environment {
	env := &environment{Console: c, args: args}
	env.files.Console = c
	env.local = oneshot.Runner{Files: &env.files, Version: version}
	return env
}

// asking returns what commands that ask a router work with.
func (env *environment) asking() *cli.Env {
	return &cli.Env{Console: env.Console, Files: &env.files, Local: env.local, Program: program(), Standalone: env.standalone, Profile: env.profile}
}

// addProfileFlag gives cmd the flag --profile.
func addProfileFlag(env *environment, cmd *cobra.Command) {
	addNamedProfileFlag(env, cmd, "Show and use only what the `profile` of this name allows, as its clients do; \"\" is everything. (default the profile \"default\" if there is one, else everything)")
}

// addNamedProfileFlag gives cmd the flag --profile with a meaning of its own.
func addNamedProfileFlag(env *environment, cmd *cobra.Command, usage string) {
	cmd.Flags().Func("profile", usage, func(name string) error { env.profile = &name; return nil })
}
