package launch

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/atomicfile"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/program"
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

// A plan is the command that npx would run.
type plan struct {
	Path string   `json:"path"`
	Args []string `json:"args"`
	Set  []string `json:"set"` // variables that npx adds or changes, as NAME=value
}

// apply returns the command to run instead of npx.
func (p *plan) apply(npx process.Command) process.Command {
	return process.Command{Path: p.Path, Args: p.Args, Env: slices.Concat(npx.Env, p.Set), Dir: npx.Dir, KeepStrays: npx.KeepStrays}
}

// canReport reports whether the npx that c runs can be made to report to the program
// reporter. Npm before version 7 starts the server without a shell, and on Windows
// npx and the programs that it runs are batch files.
func canReport(c process.Command, reporter string) bool {
	if runtime.GOOS == "windows" || reporter == "" {
		return false
	}
	if _, err := os.Stat(reporter); err != nil { // it was updated or removed
		return false
	}
	if slices.ContainsFunc(c.Env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.EqualFold(strings.ReplaceAll(name, "-", "_"), process.ShellVariable)
	}) {
		return false
	}
	// Behind a version manager's shim npm's version can't be known.
	script, err := filepath.EvalSymlinks(c.Path)
	if err != nil {
		return false
	}
	npm, ok := readManifest(filepath.Dir(filepath.Dir(script)))
	major, _, _ := strings.Cut(npm.Version, ".")
	n, _ := strconv.Atoi(major)
	return ok && npm.Name == "npm" && n >= 7
}

// plan has npx fetch the packages and report the command that it would run. It returns nil if
// npx has to be run as the entry has it.
//
// An exact version that was fetched once does not change, so npx is not asked again. What is
// kept of it is named after the command as it is written, and has no secrets.
func (l *Launcher) plan(ctx context.Context, c, written process.Command, f fetch, job Job) (*plan, error) {
	exact := len(f.packages) == 1 && exactVersion().MatchString(f.packages[0])
	if exact {
		if p, ok := l.recall(written); ok && p.runs(f.packages[0]) {
			return p, nil
		}
	}
	job.Doing(f.String())
	var random [8]byte
	rand.Read(random[:])
	fence := hex.EncodeToString(random[:])
	asked := c
	asked.Env = append(slices.Clone(c.Env), process.ShellVariable+"="+l.reporter, process.ReportVariable+"="+fence)
	if exact && slices.Contains(f.cached, f.packages[0]) { // else npx asks the registry once more in each folder
		asked.Env = append([]string{offlineVariable + "=true"}, asked.Env...)
	}
	conceal := job.Entry.Launch().Concealer()
	words := process.NewTail(func(text string) string { return conceal(job.hide(text)) })
	out, failure, err := l.starter.Run(ctx, asked, words, job.LogFile)
	failed := func(err error) error {
		return &FetchError{By: f.by, Packages: f.packages, Said: words.Last(process.StderrLines), doing: f.String(), err: err}
	}
	if err != nil {
		return nil, failed(fmt.Errorf("%s: %w%s", f, asNotFound(err), npmReason(words)))
	}
	p, why := readReport(out, fence, c)
	switch {
	case p == nil && failure != "":
		err := failed(fmt.Errorf("%s could not fetch %s: it %s%s", f.by, strings.Join(f.packages, ", "), failure, npmReason(words)))
		if isMissing(words) {
			err = &NotFoundError{err}
		}
		return nil, err
	case p == nil:
		job.Log.Debug("running npx as it is written", zap.String("because", why))
	case exact && p.runs(f.packages[0]):
		l.keep(written, p, job.hide)
	}
	return p, nil
}

// readReport returns the plan in a report in npx's output, or the reason why npx has
// to be run as the entry has it.
func readReport(out []byte, fence string, npx process.Command) (p *plan, why string) {
	var r process.NpxCommand
	_, line, ok := bytes.Cut(out, []byte(fence+" "))
	line, _, _ = bytes.Cut(line, []byte("\n"))
	if !ok || json.Unmarshal(line, &r) != nil {
		return nil, "it did not say what it runs"
	}
	argv, ok := words(string(r.Command))
	if !ok || strings.Contains(argv[0], "=") {
		return nil, "a shell is needed for what it runs"
	}
	p = &plan{Args: argv[1:]}
	search, given := "", make(map[string]bool, len(npx.Env))
	for _, v := range npx.Env {
		given[v] = true
	}
	for _, v := range r.Env {
		variable := string(v)
		name, value, _ := strings.Cut(variable, "=")
		if name == "PATH" {
			search = value
		}
		if !given[variable] && !slices.Contains([]string{process.ReportVariable, process.ShellVariable, offlineVariable, process.MarkVariable}, name) {
			p.Set = append(p.Set, variable)
		}
	}
	if p.Path, ok = searchAbsolute(argv[0], search); !ok || !isScript(p.Path) {
		return nil, "what it runs is no script with a first line that names its interpreter"
	}
	return p, ""
}

// searchAbsolute finds a program as a shell does.
func searchAbsolute(name, path string) (string, bool) {
	if strings.ContainsRune(name, filepath.Separator) {
		return name, filepath.IsAbs(name)
	}
	return program.Search(name, filepath.SplitList(path))
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

// words splits a command into words as a shell does. It knows quotes only: ok is false
// if a shell may do more than run a program.
func words(command string) (all []string, ok bool) {
	var word strings.Builder
	within := false // a word
	for rest := command; rest != ""; {
		c := rest[0]
		rest = rest[1:]
		switch {
		case c == ' ':
			if within {
				all = append(all, word.String())
			}
			word.Reset()
			within = false
			continue
		case c == '\'' || c == '"':
			quoted, after, closed := strings.Cut(rest, string(c))
			if !closed || c == '"' && strings.ContainsAny(quoted, "$`\\!") {
				return nil, false
			}
			word.WriteString(quoted)
			rest = after
		case c == '\\' && rest != "" && rest[0] != '\n':
			word.WriteByte(rest[0])
			rest = rest[1:]
		case c < ' ' || strings.IndexByte("\\$&();<>|`*?#~[]{}!^", c) >= 0:
			return nil, false
		default:
			word.WriteByte(c)
		}
		within = true
	}
	if within {
		all = append(all, word.String())
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

// runs reports whether the plan's program exists and belongs to the package, which is
// named with its version.
func (p *plan) runs(exact string) bool { return p.packageOf() == exact }

// packageOf returns the package that the plan's program belongs to, as name@version;
// "" if that is unknown.
func (p *plan) packageOf() string {
	script, err := filepath.EvalSymlinks(p.Path)
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

// planFile returns the file of the plan for the command, "" if plans are not kept. Its
// name is a hash of everything that npx gets.
func (l *Launcher) planFile(c process.Command) string {
	if l.dataDir == "" {
		return ""
	}
	h := sha256.New()
	for _, part := range slices.Concat([]string{c.Path, c.Dir}, c.Args, []string{""}, c.Env) {
		fmt.Fprintf(h, "%d %s", len(part), part)
	}
	return filepath.Join(l.dataDir, "plans", hex.EncodeToString(h.Sum(nil)[:16]))
}

// recall returns the plan that was kept. In a folder that others can write to, anyone may
// have written it, so it does not count.
func (l *Launcher) recall(c process.Command) (p *plan, ok bool) {
	file := l.planFile(c)
	if file == "" || safefile.OwnersOnly(l.dataDir) != nil || safefile.OwnersOnly(filepath.Dir(file)) != nil {
		return nil, false
	}
	b, err := safefile.ReadOwn(file, maxFile)
	return p, err == nil && json.Unmarshal(b, &p) == nil && p != nil
}

// keep keeps the plan for the command, unless hide finds a secret in it.
func (l *Launcher) keep(c process.Command, p *plan, hide func(string) string) {
	file := l.planFile(c)
	b, err := json.Marshal(p)
	if err == nil && hide(string(b)) != string(b) {
		return
	}
	if err == nil && file != "" && os.MkdirAll(filepath.Dir(file), 0o700) == nil {
		atomicfile.Write(file, b, false) // if it fails, npx is asked again
	}
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

// npmReason returns npm's reason for a failure as part of a sentence.
func npmReason(printed *process.Tail) string {
	lines := npmErrors(printed)
	if len(lines) == 0 {
		return printed.Reason()
	}
	return "; npm error " + lines[0] // such as "code E404"
}

// isMissing reports whether npm says that the package does not exist: trying again at
// once is of no use.
func isMissing(printed *process.Tail) bool {
	return slices.ContainsFunc(npmErrors(printed), func(line string) bool {
		return slices.Contains([]string{"code E404", "code ETARGET", "code ENOVERSIONS", "code EINVALIDPACKAGENAME"}, line)
	})
}
