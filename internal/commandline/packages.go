package commandline

import (
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

// Packages are those of a command line that runs a program of a package, which it may have to fetch first.
type Packages struct {
	By    string    // the command: npx, npm, uvx or uv, without its folder
	Specs []Package // at least one
	// Program is the argument that names the program, or the package in place of it; the number of
	// arguments if none does. It is known for uvx and uv alone.
	Program int
	Adds    bool // uvx looks for more packages than that one at each start, or for newer ones
}

// A Package is named by a command line, perhaps with a version, a range or a tag.
type Package struct {
	Text string // as the command line has it
	Arg  int    // the argument that it is in, counted from 0
	From bool   // it is the value of an option, and another argument names the program
}

// ByNPM reports whether it is npm that runs the package.
func (u Packages) ByNPM() bool { return u.By == "npx" || u.By == "npm" }

// KeepsData reports whether the package keeps its data in its own folder, as far as that is
// known: another version would begin without the data. env is the env of the entry.
func (u Packages) KeepsData(env map[string]string) bool {
	const memory = "@modelcontextprotocol/server-memory"
	return env["MEMORY_FILE_PATH"] == "" && slices.ContainsFunc(u.Specs, func(s Package) bool {
		return s.Text == memory || strings.HasPrefix(s.Text, memory+"@")
	})
}

// Bare returns a package without its version.
func Bare(p string) string {
	if at := strings.LastIndex(p, "@"); at > 0 { // the first is that of a scope
		return p[:at]
	}
	return p
}

// PackagesOf returns the packages of a command line. ok is false without any, or if the
// command line has unusual arguments.
func PackagesOf(command string, args []string) (u Packages, ok bool) {
	by := Name(command)
	u.By = by
	switch {
	case by == "npx":
		u.Specs = ofNPM(args, 0)
	case by == "npm" && len(args) > 0 && (args[0] == "exec" || args[0] == "x"):
		u.Specs = ofNPM(args, 1)
	case by == "uvx":
		u.ofUV(args, 0)
	case by == "uv" && len(args) > 1 && args[0] == "tool" && args[1] == "run":
		u.ofUV(args, 2)
	}
	return u, len(u.Specs) > 0
}

// fromRegistry matches a package of npm's registry, with a version, a range or a tag if any.
// It matches no folder, file, URL or alias.
var fromRegistry = lazy.Regexp(`^(@[a-z0-9~_-][a-z0-9._~-]*/)?[a-z0-9~_-][a-z0-9._~-]*(@[a-zA-Z0-9^~<>=|*. +_-]+)?$`)

// ofNPM returns the packages that npx runs with the arguments from that one on.
func ofNPM(args []string, at int) []Package {
	var specs []Package
	for at < len(args) && strings.HasPrefix(args[at], "-") {
		option, value, joined := strings.Cut(args[at], "=")
		switch {
		case option == "--" && !joined:
			return named(specs, args, at+1)
		case option == "-p" || option == "--package":
			if !joined && at+1 < len(args) {
				at++
				value = args[at]
			}
			specs = append(specs, Package{value, at, true})
		case !slices.Contains([]string{"-y", "--yes", "-q", "--quiet", "--prefer-offline", "--prefer-online", "--offline"}, option) || joined:
			return nil
		}
		at++
	}
	return named(specs, args, at)
}

// named returns the packages, or the package of the argument if options name no package. It
// returns no package if any of them may be another thing than a package.
func named(specs []Package, args []string, at int) []Package {
	switch {
	case at >= len(args):
		return nil
	case len(specs) == 0:
		specs = []Package{{args[at], at, false}}
	}
	for _, s := range specs {
		if !fromRegistry().MatchString(s.Text) {
			return nil
		}
	}
	return specs
}

// ofUV notes the package that uvx runs with the arguments from that one on, the value of --from
// or the first argument that is no option, and the place of that argument.
func (u *Packages) ofUV(args []string, at int) {
	for ; at < len(args) && strings.HasPrefix(args[at], "-"); at++ {
		option, value, joined := strings.Cut(args[at], "=")
		if !joined && at+1 < len(args) && slices.Contains([]string{"--from", "--with", "--python", "-p", "--index-url", "--index"}, option) {
			at++
			value = args[at]
		}
		switch {
		case option == "--from" && value != "":
			u.Specs = []Package{{value, at, true}}
		case option == "--from":
			u.Specs = nil
			return
		case option == "--with" || option == "--refresh":
			u.Adds = true
		}
	}
	if u.Program = at; u.Specs == nil && at < len(args) {
		u.Specs = []Package{{args[at], at, false}}
	}
}
