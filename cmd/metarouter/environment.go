package main

import (
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/oneshot"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// An environment is what serve works with.
type environment struct {
	*console.Console
	files *configfile.Source
	local *oneshot.Runner
	args  []string // the command line after the program's name

	standalone bool                     // --standalone
	guard      *supervisor.GuardProcess // was started for the router of this process; nil if it was not
}
