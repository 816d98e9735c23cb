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
	"strings"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/program"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

// A plan is the command that npx or uvx would run.
type plan struct {
	Path string   `json:"path"`
	Args []string `json:"args"`
	Set  []string `json:"set"` // variables that the runner adds or changes, as NAME=value
}

// packageOf returns the package of the plan's program, as name@version; "" if that is unknown, or the Python that runs it is gone.
func (f fetch) packageOf(p *plan) string {
	if f.use.ByNPM() {
		return npmPackageOf(p.Path)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(p.Path), "python")); err != nil {
		return ""
	}
	return pythonPackageOf(p.Path, f.packages[0])
}

// exact returns the package as name@version if the entry names one version of one package.
func (f fetch) exact() string {
	switch {
	case len(f.packages) != 1 || !f.use.ByNPM() && f.use.Adds:
		return ""
	case !f.use.ByNPM():
		return exactPython(f.packages[0])
	case exactVersion().MatchString(f.packages[0]):
		return f.packages[0]
	}
	return ""
}

// asking returns the command by which the runner reports to the program reporter instead of running the server. ok is false
// if it can't be had to. On Windows the runners and the programs that they run are batch files and launchers.
func (f fetch) asking(c process.Command, reporter string) (asked process.Command, ok bool) {
	if runtime.GOOS == "windows" || reporter == "" {
		return c, false
	}
	if _, err := os.Stat(reporter); err != nil { // it was updated or removed
		return c, false
	}
	if f.use.ByNPM() {
		return askNPX(c, reporter, slices.Contains(f.cached, f.exact()))
	}
	return askUVX(c, f.use, reporter)
}

// plan has the runner fetch the packages and report the command that it would run. It returns nil if
// the runner has to be run as the entry has it.
//
// An exact version that was fetched once does not change, so the runner is not asked again. The plan
// that is kept is named after the command as it is written, and has no secrets.
func (l *Launcher) plan(ctx context.Context, c, written process.Command, f fetch, job Job) (*plan, error) {
	asked, ok := f.asking(c, l.reporter)
	if !ok {
		return nil, nil
	}
	exact := f.exact()
	if exact != "" {
		if p, ok := l.recall(written); ok && f.packageOf(p) == exact {
			return p, nil
		}
	}
	job.Doing(f.String())
	fence := rand.Text()
	asked.Env = append(slices.Clip(asked.Env), process.ReportVariable+"="+fence)
	conceal := job.Entry.Launch().Concealer()
	words := process.NewTail(func(text string) string { return conceal(job.Hide(text)) })
	out, failure, err := l.starter.Run(ctx, asked, words, job.LogFile)
	failed := func(err error) *FetchError {
		return &FetchError{By: f.use.By, Packages: f.packages, Said: words.Last(process.StderrLines), Doing: f.String(), err: err}
	}
	if err != nil { // it did not start, or took too long
		return nil, failed(fmt.Errorf("%s: %w%s", f, err, reason(words)))
	}
	p, why := f.read(out, fence, c)
	missing := isMissing(words)
	switch {
	case p == nil && failure != "" && (f.use.ByNPM() || missing): // a program called uvx may be a script that takes some options alone
		err := failed(fmt.Errorf("%s could not fetch %s: it %s%s", f.use.By, strings.Join(f.packages, ", "), failure, reason(words)))
		err.missing = missing
		return nil, err
	case p == nil:
		job.Log.Debug("running "+f.use.By+" as it is written", zap.String("because", why))
	case exact != "" && f.packageOf(p) == exact:
		l.keep(written, p, job.Hide)
	}
	return p, nil
}

// read returns the plan in a report in the runner's output, or the reason why the runner has
// to be run as the entry has it.
func (f fetch) read(out []byte, fence string, runner process.Command) (p *plan, why string) {
	var r process.Reported
	_, line, ok := bytes.Cut(out, []byte(fence+" "))
	line, _, _ = bytes.Cut(line, []byte("\n"))
	if !ok || json.Unmarshal(line, &r) != nil {
		return nil, "it did not say what it runs"
	}
	p = new(plan)
	search, given := "", make(map[string]bool, len(runner.Env))
	for _, v := range runner.Env {
		given[v] = true
	}
	for _, v := range r.Env {
		variable := string(v)
		name, value, _ := strings.Cut(variable, "=")
		if name == "PATH" {
			search = value
		}
		if !given[variable] && (f.use.ByNPM() || setByUV(name)) && !slices.Contains([]string{process.ReportVariable, process.ShellVariable, offlineVariable, process.MarkVariable}, name) {
			p.Set = append(p.Set, variable)
		}
	}
	if f.use.ByNPM() {
		argv, ok := words(string(r.Command))
		if !ok || strings.Contains(argv[0], "=") {
			return nil, "a shell is needed for what it runs"
		}
		if p.Path, ok = searchAbsolute(argv[0], search); !ok || !isScript(p.Path) {
			return nil, "what it runs is no script with a first line that names its interpreter"
		}
		p.Args = argv[1:]
		return p, ""
	}
	p.Args = runner.Args[f.use.Program+1:]
	if p.Path, ok = pythonProgram(runner.Args[f.use.Program], search); !ok {
		return nil, "the package has no program of its name"
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

// planFile returns the file of the plan for the command, "" if plans are not kept. Its
// name is a hash of everything that the runner gets.
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
		safefile.Write(file, b, false) // if it fails, the runner is asked again
	}
}
