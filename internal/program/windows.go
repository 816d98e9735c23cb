package program

import (
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

// launchers are the programs of which a Windows path, or a name such as npx.cmd, means the same
// program on other systems.
var launchers = []string{"npx", "npm", "node", "uvx", "uv", "python", "python3", "docker", "podman", "bun", "bunx", "deno", "pnpm", "yarn", "pipx", "dotnet", "java"}

var (
	windowsPath = lazy.Regexp(`^(?:[A-Za-z]:[\\/]|\\\\)`)
	extension   = lazy.Regexp(`(?i)\.(?:exe|cmd|bat)$`)
	variable    = lazy.Regexp(`%[^%\s]+%`)
)

// A Windows is a command line for Windows.
type Windows struct {
	Command string   // that it runs, under its name on other systems; "" if it can't be run there
	Args    []string // of Command
	Known   bool     // Command is a program that usually starts servers
}

// ForWindows returns the command that a command line for Windows runs: without cmd /c around it, without the folder on a Windows drive,
// and without .exe or .cmd. ok is false if the line is not for Windows. Text that only a shell understands, such as & and %VAR%, can't be
// run.
func ForWindows(command string, args []string) (w Windows, ok bool) {
	if !isShell(command) {
		name, ok := launcher(command)
		if name != "" {
			w = Windows{name, args, true}
		}
		return w, ok
	}
	words := cmdWords(args)
	if len(words) == 0 || isShell(words[0]) || slices.ContainsFunc(words[1:], windowsPath().MatchString) {
		return w, true // files of a Windows drive are not here
	}
	name, ok := launcher(words[0])
	if !ok && !strings.ContainsAny(words[0], ` /\`) {
		name = words[0]
	}
	if name != "" {
		w = Windows{name, words[1:], slices.Contains(launchers, name)}
	}
	return w, true
}

// isShell reports whether a command is a shell of Windows.
func isShell(command string) bool {
	name := extension().ReplaceAllString(strings.ToLower(windowsBase(command)), "")
	ofOther := windowsBase(command) != command && !windowsPath().MatchString(command) // a path of another system
	return !ofOther && (name == "cmd" || name == "powershell")
}

// launcher returns the name on other systems of a launcher that is named as on Windows. ok is false
// for other names, and name is "" for other programs on a Windows drive.
func launcher(command string) (name string, ok bool) {
	name = extension().ReplaceAllString(strings.ToLower(windowsBase(command)), "")
	known := slices.Contains(launchers, name)
	if ok = windowsPath().MatchString(command) || known && extension().MatchString(command) && windowsBase(command) == command; !ok || !known {
		name = ""
	}
	return name, ok
}

// windowsBase returns the last element of a path of Windows or of another system.
func windowsBase(path string) string { return path[strings.LastIndexAny(path, `/\`)+1:] }

// cmdWords returns the words of the command in the arguments of cmd, nil if it is not a plain one. A command in one argument is split at
// its spaces.
func cmdWords(args []string) []string {
	for len(args) > 0 && slices.Contains([]string{"/d", "/s", "/q"}, strings.ToLower(args[0])) {
		args = args[1:]
	}
	if len(args) == 0 || strings.ToLower(args[0]) != "/c" {
		return nil
	}
	args = args[1:]
	if slices.ContainsFunc(args, func(arg string) bool { return strings.ContainsAny(arg, "&|<>^\"!\r\n") || variable().MatchString(arg) }) {
		return nil
	}
	if len(args) == 1 {
		return strings.Fields(args[0])
	}
	return args
}
