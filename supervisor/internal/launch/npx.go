package launch

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

// npx runs a shell that runs the server, and stays: two more processes, some 80 MB,
// and signals end at npx. So npx is run with a program of ours as its shell, which
// reports the command that it gets and ends ([process.Report]). Then that command is run
// without npx.
//
// npm still decides everything: whether the newest version is there, which program
// of the package it runs, whether one in the project's node_modules comes first, what
// the environment is. The server gets the same path, arguments and environment; npm's
// variables are among them since packages read some (npm_config_user_agent,
// npm_lifecycle_event).

// offlineVariable is npm's setting to ask the registry only for packages that its cache lacks.
const offlineVariable = "npm_config_prefer_offline"

// askNPX returns the command by which npx reports to the program reporter. ok is false if it can't. Npm before version 7 starts
// the server without a shell.
func askNPX(c process.Command, reporter string, offline bool) (asked process.Command, ok bool) {
	if slices.ContainsFunc(c.Env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.EqualFold(strings.ReplaceAll(name, "-", "_"), process.ShellVariable)
	}) {
		return c, false
	}
	// Behind a version manager's shim npm's version can't be known.
	script, err := filepath.EvalSymlinks(c.Path)
	if err != nil {
		return c, false
	}
	npm, ok := readManifest(filepath.Dir(filepath.Dir(script)))
	major, _, _ := strings.Cut(npm.Version, ".")
	if n, _ := strconv.Atoi(major); !ok || npm.Name != "npm" || n < 7 {
		return c, false
	}
	c.Env = append(slices.Clone(c.Env), process.ShellVariable+"="+reporter)
	if offline { // else npx asks the registry once more in each folder
		c.Env = append([]string{offlineVariable + "=true"}, c.Env...)
	}
	return c, true
}

// isScript reports whether the system runs the file as a shell would: a shell runs
// files without #! itself.
func isScript(path string) bool {
	f, err := safefile.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var first [2]byte
	n, _ := f.Read(first[:])
	return string(first[:n]) == "#!"
}

const (
	// quoted matches the quotes and escapes in a word of a shell that mean nothing else.
	quoted = `'([^']*)'|"([^"$\x60\\!]*)"|\\([^\n])`
	// plainWord matches a word in which a shell does nothing but remove these.
	plainWord = `(?:` + quoted + `|[^\x00-\x20\x60\\'"$&();<>|*?#~\[\]{}!^])+`
)

var (
	quotes    = lazy.Regexp(quoted)
	shellWord = lazy.Regexp(plainWord)
	simple    = lazy.Regexp(`^(?: |` + plainWord + `)*$`)
)

// words splits a command into words as a shell does. It knows quotes only: ok is false
// if a shell may do more than run a program.
func words(command string) (all []string, ok bool) {
	if !simple().MatchString(command) {
		return nil, false
	}
	for _, word := range shellWord().FindAllString(command, -1) {
		all = append(all, quotes().ReplaceAllString(word, "$1$2$3"))
	}
	return all, len(all) > 0
}

// exactVersion matches a package that is named with one version.
var exactVersion = lazy.Regexp(`^.+@[0-9]+\.[0-9]+\.[0-9]+([-+].*)?$`)

// maxFile is the most bytes of a plan or a package.json.
const maxFile = 4 << 20

// A manifest is a package.json.
type manifest struct{ Name, Version string }

func readManifest(folder string) (m manifest, ok bool) {
	b, err := safefile.Read(filepath.Join(folder, "package.json"), maxFile)
	return m, err == nil && json.Unmarshal(b, &m) == nil
}

// npmPackageOf returns the package that a program belongs to, as name@version;
// "" if that is unknown.
func npmPackageOf(program string) string {
	script, err := filepath.EvalSymlinks(program)
	if err != nil {
		return ""
	}
	for folder := filepath.Dir(script); folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
		if m, ok := readManifest(folder); ok && m.Name != "" { // else it says only what kind of scripts are there
			return m.Name + "@" + m.Version
		}
	}
	return ""
}

// npmErrors returns the lines that npm printed as errors, without their prefix.
func npmErrors(printed *process.Tail) []string {
	var errs []string
	for _, line := range printed.Last(process.StderrLines) {
		rest, ok := strings.CutPrefix(line, "npm error ")
		if !ok {
			rest, ok = strings.CutPrefix(line, "npm ERR! ")
		}
		if ok && len(strings.Fields(rest)) > 1 && !strings.HasPrefix(rest, "A complete log") {
			errs = append(errs, rest)
		}
	}
	return errs
}

// reason returns the runner's reason for a failure as part of a sentence.
func reason(printed *process.Tail) string {
	lines := npmErrors(printed)
	if len(lines) == 0 {
		return printed.Reason()
	}
	return "; npm error " + lines[0] // such as "code E404"
}

// isMissing reports whether the runner says that the package does not exist: trying again at
// once is of no use.
func isMissing(printed *process.Tail) bool {
	if slices.ContainsFunc(printed.Last(process.StderrLines), func(line string) bool { return strings.Contains(line, "was not found in the package registry") }) { // uv
		return true
	}
	return slices.ContainsFunc(npmErrors(printed), func(line string) bool {
		return slices.Contains([]string{"code E404", "code ETARGET", "code ENOVERSIONS", "code EINVALIDPACKAGENAME"}, line)
	})
}
