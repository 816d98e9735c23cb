// Package commandline takes the command lines of MCP servers apart, into words and into the commands
// that they wrap; and it quotes words for people to type. It
// finds the packages that npx and uvx are to run, and the containers of docker, podman and nerdctl. It expands nothing,
// starts nothing, and looks at no file. It is a leaf.
package commandline

import (
	"iter"
	"runtime"
	"slices"
	"strings"
	"unicode"

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

const (
	maxWrapped = 20 // programs that are looked for inside each other

	// MaxScript is the most bytes of a script that are looked at.
	MaxScript = 64 << 10
)

// All yields a command with its arguments, and then the commands that it runs, as far as wrappers
// such as env and npx, and shells, show them.
func All(command string, args []string) iter.Seq2[string, []string] {
	return func(yield func(string, []string) bool) { all(command, args, 0, yield) }
}

// all reports whether yield wants more.
func all(command string, args []string, depth int, yield func(string, []string) bool) bool {
	if depth > maxWrapped {
		return true
	}
	if !yield(command, args) {
		return false
	}
	name := Name(command)
	if valued, ok := wrappers[name]; ok {
		rest := AfterOptions(args, valued)
		return len(rest) == 0 || all(rest[0], rest[1:], depth+1, yield)
	}
	if valued, ok := shells[name]; ok {
		script := strings.Join(AfterOptions(args, valued), " ")
		for _, words := range commands(script[:min(len(script), MaxScript)]) {
			if !all(words[0], words[1:], depth+1, yield) {
				return false
			}
		}
	}
	return true
}

// Name returns a command without its folder, .exe and npm's @version.
func Name(command string) string {
	name := strings.ToLower(command[strings.LastIndexAny(command, `/\`)+1:])
	name, _, _ = strings.Cut(name, "@")
	for _, ext := range []string{".exe", ".cmd", ".bat"} {
		name = strings.TrimSuffix(name, ext)
	}
	return name
}

var assigned = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*=`)

// AfterOptions drops options and their values, cmd's /c, and NAME=value.
func AfterOptions(args, valued []string) []string {
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
// everything that may stand between two commands for an end, and drops the part before
// the program.
func commands(script string) (all [][]string) {
	for _, words := range splitCommands(script, " \t", "\n;&|(){}`") {
		if words = AfterOptions(words, nil); len(words) > 0 {
			all = append(all, words)
		}
	}
	return all
}

// splitCommands splits a text at the characters of ends, and each part into words at the characters of
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

// Words splits a command line as a shell would, with quotes and without expansion.
func Words(line string) []string { return splitCommands(line, " \t\n", "")[0] }

// Quote returns a text as one word of a command line of this system.
func Quote(text string) string {
	switch {
	case text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./@:%+=,…", r)
	}):
		return text
	case runtime.GOOS == "windows":
		return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"`
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Flags returns a flag with each of the values, as on a command line: " --config a.json --config b.json".
func Flags(flag string, values []string) (all string) {
	for _, value := range values {
		all += " " + flag + " " + Quote(value)
	}
	return all
}
