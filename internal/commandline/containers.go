package commandline

import (
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// A Container is one that a command line runs.
type Container struct {
	At    int    // the argument "run", counted from 0
	Image string // for podman's and nerdctl's --rootfs a folder

	Interactive, Remove, Detached bool   // -i, --rm, -d
	Name, CIDFile                 string // "" if the command line lacks it
}

// graceSeconds is how long a container may take to end after SIGTERM.
const graceSeconds = "2"

// Stop returns the arguments of the commands that stop the container, each without the container's
// ID, which comes last. If the container has --rm, the last command removes it with its anonymous
// volumes: not every engine does so once the client is dead. args are those of the command line.
func (r *Container) Stop(args []string) [][]string {
	before := slices.Clip(args[:r.At])
	commands := [][]string{append(before, "stop", "-t", graceSeconds)}
	if r.Remove {
		commands = append(commands, append(before, "rm", "-f", "-v"))
	}
	return commands
}

// ContainerOf returns the container that a command line runs, nil if it runs none. If an option is not known, it
// is not certain which argument names the image: then ContainerOf returns nil and the option.
func ContainerOf(command string, args []string) (r *Container, unknown string) {
	if !isClient(command) {
		return nil, ""
	}
	ignore := func(string, string) {}
	at, unknown := options(args, 0, switchesBefore, valuesBefore, ignore)
	if unknown != "" && slices.Contains(args[at:], "run") {
		return nil, unknown
	}
	if at < len(args) && args[at] == "container" {
		at++
	}
	if unknown != "" || at >= len(args) || args[at] != "run" {
		return nil, ""
	}
	r = &Container{At: at}
	at, unknown = options(args, at+1, switches, values, r.set)
	switch {
	case unknown != "":
		return nil, unknown
	case at >= len(args):
		return nil, "" // it prints how it is used
	}
	r.Image = args[at]
	return r, ""
}

// isClient reports whether the command is the client of an engine. A program of Windows that Linux
// starts (WSL) does not count: it has other paths.
func isClient(command string) bool {
	name := filepath.Base(command)
	if runtime.GOOS == "windows" {
		name = strings.TrimSuffix(strings.ToLower(name), ".exe")
	}
	return name == "docker" || name == "podman" || name == "nerdctl"
}

func (r *Container) set(option, value string) {
	on, _ := strconv.ParseBool(value)
	switch option {
	case "-i", "--interactive":
		r.Interactive = on
	case "--rm":
		r.Remove = on
	case "-d", "--detach":
		r.Detached = on
	case "--name":
		r.Name = value
	case "--cidfile":
		r.CIDFile = value
	}
}

// options calls f with each option from an argument on, as the three programs read them: the first
// argument that is no option ends them. It returns where they end, and the option that is not known.
func options(args []string, at int, switches, values string, f func(option, value string)) (end int, unknown string) {
	for ; at < len(args); at++ {
		arg := args[at]
		if arg == "--" {
			return at + 1, ""
		}
		if len(arg) < 2 || arg[0] != '-' {
			return at, ""
		}
		for rest := arg[1:]; rest != ""; {
			var option, value string
			var joined bool // with its value, in one argument
			if arg[1] == '-' {
				option, value, joined = strings.Cut(arg, "=")
				rest = ""
			} else { // letters, such as -it or -eNAME=value
				option, rest = "-"+rest[:1], rest[1:]
				if !has(switches, option) || strings.HasPrefix(rest, "=") {
					value, joined, rest = strings.TrimPrefix(rest, "="), rest != "", ""
				}
			}
			switch takes := has(values, option); {
			case joined && (arg[1] == '-' || takes || has(switches, option)):
			case has(switches, option):
				value = "true"
			case takes && at+1 < len(args):
				at++
				value = args[at]
			default:
				return at, option
			}
			f(option, value)
		}
	}
	return at, ""
}

func has(list, option string) bool { return slices.Contains(strings.Fields(list), option) }
