package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// released is the version of a released program; the linker sets it.
var released string

// version is the version of this program: that of the release, else that of the module
// which 'go install' built, else the next one.
var version = programVersion()

func programVersion() string {
	if released != "" {
		return released
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "0.1.0-dev"
}

// A build says what this program is made of, for bug reports and scripts.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`   // empty if the program was built outside its repository
	Modified bool   `json:"modified,omitempty"` // the source differed from the commit
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func newVersionCommand(env *environment) *cobra.Command {
	cmd := newCommand("version", "Print the version", "  metarouter version\n  metarouter version --json", noArguments,
		func(context.Context, []string) error { return runVersion(env) })
	addJSONFlag(env, cmd)
	return cmd
}

func runVersion(env *environment) error {
	if !env.JSON {
		_, err := fmt.Fprintln(env.Out, "metarouter", version)
		return err
	}
	b := build{Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	return env.PrintJSON(b)
}
