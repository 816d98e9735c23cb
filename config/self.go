package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

// wrappers are programs that run the one that their arguments name, each with
// its options that take a value.
var wrappers = map[string][]string{
	"env":     {"-u", "--unset", "-C", "--chdir"},
	"npx":     {"-p", "--package", "-w", "--workspace"},
	"bunx":    {"-p", "--package"},
	"uvx":     {"--from", "--with", "-p", "--python", "--directory", "--index-url"},
	"sudo":    {"-u", "--user", "-g", "--group", "-C", "-D", "-h", "-p", "-r", "-t"},
	"doas":    {"-u", "-C"},
	"nice":    {"-n", "--adjustment"},
	"nohup":   nil,
	"setsid":  nil,
	"time":    nil,
	"exec":    nil,
	"command": nil,
}

// shells run the text that follows their options.
var shells = map[string][]string{
	"sh": {"-o"}, "bash": {"-o", "--rcfile", "--init-file"}, "zsh": {"-o"}, "dash": {"-o"}, "ksh": {"-o"}, "fish": nil,
	"cmd": nil, "powershell": nil, "pwsh": nil,
}

// startsRouter reports whether the command, or what it wraps, would start
// another one of us. What hides deeper is for METAROUTER_DEPTH to find.
func (e environment) startsRouter(command string, args []string, cwd string) bool {
	return e.wrapsRouter(command, args, cwd, 0)
}

const (
	maxWrapped = 20       // programs that are looked for inside each other
	maxScript  = 64 << 10 // bytes of a script that are looked at
)

func (e environment) wrapsRouter(command string, args []string, cwd string, depth int) bool {
	if depth > maxWrapped {
		return false
	}
	name := programName(command)
	if name == "metarouter" {
		return subcommand(args) != "builtin"
	}
	if e.isOurselves(command, cwd) {
		// Under another name this may be a program that embeds us, so only
		// the word itself counts.
		return slices.Contains(args, "serve")
	}
	if valued, ok := wrappers[name]; ok {
		rest := afterOptions(args, valued)
		return len(rest) > 0 && e.wrapsRouter(rest[0], rest[1:], cwd, depth+1)
	}
	if valued, ok := shells[name]; ok {
		script := strings.Join(afterOptions(args, valued), " ")
		for _, words := range commands(script[:min(len(script), maxScript)]) {
			if e.wrapsRouter(words[0], words[1:], cwd, depth+1) {
				return true
			}
		}
	}
	return false
}

// programName is a command without its folder, .exe and npm's @version.
func programName(command string) string {
	name := strings.ToLower(command[strings.LastIndexAny(command, `/\`)+1:])
	name, _, _ = strings.Cut(name, "@")
	for _, ext := range []string{".exe", ".cmd", ".bat"} {
		name = strings.TrimSuffix(name, ext)
	}
	return name
}

// isOurselves reports whether the command is our own executable, by whatever link.
func (e environment) isOurselves(command, cwd string) bool {
	if e.executable == "" {
		return false
	}
	if !strings.ContainsAny(command, `/\`) {
		found, err := e.lookPath(command)
		if err != nil {
			return false
		}
		command = found
	} else if !filepath.IsAbs(command) {
		command = filepath.Join(cwd, command)
	}
	theirs, err := os.Stat(command)
	if err != nil {
		return false
	}
	ours, err := os.Stat(e.executable)
	return err == nil && os.SameFile(theirs, ours)
}

// subcommand is the first of our arguments that isn't an option.
func subcommand(args []string) string {
	if rest := afterOptions(args, []string{"--config", "--data", "--log-level"}); len(rest) > 0 {
		return rest[0]
	}
	return ""
}

var assigned = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*=`)

// afterOptions drops options and their values, cmd's /c, and NAME=value.
func afterOptions(args, valued []string) []string {
	for len(args) > 0 {
		switch arg := args[0]; {
		case slices.Contains(valued, arg):
			args = args[min(2, len(args)):]
		case strings.HasPrefix(arg, "-"), len(arg) == 2 && arg[0] == '/', assigned().MatchString(arg):
			args = args[1:]
		default:
			return args
		}
	}
	return nil
}

// commands splits a shell script into its simple commands, each into words. It takes
// everything that may stand between two commands for an end, and drops what stands before
// the program.
func commands(script string) (all [][]string) {
	for _, words := range splitCommands(script, " \t", "\n;&|(){}`") {
		if words = afterOptions(words, nil); len(words) > 0 {
			all = append(all, words)
		}
	}
	return all
}

// splitCommands splits a text at the characters of ends, and each part into words at those of
// blanks. It knows quotes, and expands nothing. There is at least one part.
func splitCommands(text, blanks, ends string) (all [][]string) {
	var words []string
	var word strings.Builder
	var quote rune
	inWord := false
	endWord := func() {
		if inWord {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	for _, c := range text {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '"' || c == '\'':
			quote, inWord = c, true
		case strings.ContainsRune(blanks, c):
			endWord()
		case strings.ContainsRune(ends, c):
			endWord()
			all, words = append(all, words), nil
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	endWord()
	return append(all, words)
}
