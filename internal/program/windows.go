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

// ForWindows returns the command that a command line for Windows runs: without the shell around it (cmd /c,
// powershell -Command), without the folder on a Windows drive, and without .exe or .cmd. ok is false
// if the line is not for Windows. Text that only a shell understands, such as & and %VAR%, stays.
func ForWindows(command string, args []string) (w Windows, ok bool) {
	if wordsOf := shell(command); wordsOf != nil {
		return withoutShell(wordsOf(args)), true
	}
	name, ok := launcher(command)
	if name != "" {
		w = Windows{name, args, true}
	}
	return w, ok
}

// shell returns the function that finds the words of the command in the arguments of a shell of
// Windows, nil if the command is no such shell.
func shell(command string) func(args []string) []string {
	if windowsBase(command) != command && !windowsPath().MatchString(command) {
		return nil // a path of another system
	}
	switch extension().ReplaceAllString(strings.ToLower(windowsBase(command)), "") {
	case "cmd":
		return cmdWords
	case "powershell":
		return powershellWords
	case "pwsh":
		if windowsBase(command) != command || extension().MatchString(command) { // pwsh itself runs everywhere
			return powershellWords
		}
	}
	return nil
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

// withoutShell returns the command that a shell runs, by its words.
func withoutShell(words []string) (w Windows) {
	if len(words) == 0 || shell(words[0]) != nil || slices.ContainsFunc(words[1:], windowsPath().MatchString) {
		return w // files of a Windows drive are not here
	}
	name, ok := launcher(words[0])
	if !ok && !strings.ContainsAny(words[0], ` /\`) {
		name = words[0]
	}
	if name != "" {
		w = Windows{name, words[1:], slices.Contains(launchers, name)}
	}
	return w
}

// cmdWords returns the words of the command in the arguments of cmd, nil if it is not a plain one.
func cmdWords(args []string) []string {
	for i, arg := range args {
		switch strings.ToLower(arg) {
		case "/d", "/s", "/q":
		case "/c":
			return plainWords(args[i+1:], `&|<>^"!`)
		default:
			return nil
		}
	}
	return nil
}

// powershellWords is cmdWords for PowerShell. Its quotes, variables and operators are not plain.
func powershellWords(args []string) []string {
	for i := 0; i < len(args); i++ {
		switch strings.ToLower(args[i]) {
		case "-noprofile", "-nologo", "-noninteractive":
		case "-executionpolicy", "-ep":
			i++
		case "-command", "-c":
			return plainWords(args[i+1:], "&|<>;$`(){}\"'@,#")
		default:
			return nil
		}
	}
	return nil
}

// plainWords returns the words of a command without any of the signs, and without %VAR%. A command in
// one argument is split at its spaces.
func plainWords(args []string, signs string) []string {
	for _, arg := range args {
		if strings.ContainsAny(arg, signs+"\r\n") || variable().MatchString(arg) {
			return nil
		}
	}
	if len(args) == 1 {
		return strings.Fields(args[0])
	}
	return args
}
