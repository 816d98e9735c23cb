package supervisor

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
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/atomicfile"
)

// npx runs a shell that runs the server, and stays: two more processes, some 80 MB,
// and signals end at npx. So npx is run to the point where it would start the shell,
// which is set to be a program of ours that reports what it was to run and ends
// ([Report]). Then that is run without npx.
//
// All decisions are npm's own that way: whether the newest version is there, which
// of the package's programs it is, whether one in the project's node_modules comes
// first, what the environment is. Its path, arguments and environment are the same
// to the byte, so that the server can't tell; npm's variables are among them since
// packages look at some (npm_config_user_agent, npm_lifecycle_event).

// A plan is what npx would run.
type plan struct {
	Path string   `json:"path"`
	Args []string `json:"args"`
	Set  []string `json:"set"` // variables that npx adds or changes, as NAME=value
}

// apply returns the command that is to be run instead of npx.
func (p *plan) apply(npx command) command {
	return command{path: p.Path, args: p.Args, env: append(slices.Clone(npx.env), p.Set...), dir: npx.dir}
}

// canPlan reports whether npx can be had to report. Npm before version 7 starts the
// server without a shell, and on Windows npx and what it runs are batch files.
func (s *server) canPlan(c command) bool {
	if runtime.GOOS == "windows" || s.v.options.Reporter == "" {
		return false
	}
	if _, err := os.Stat(s.v.options.Reporter); err != nil { // it was updated or removed
		return false
	}
	if slices.ContainsFunc(c.env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.EqualFold(strings.ReplaceAll(name, "-", "_"), shellVariable)
	}) {
		return false
	}
	// Behind a version manager's shim it can't be known.
	script, err := filepath.EvalSymlinks(c.path)
	if err != nil {
		return false
	}
	npm, ok := readManifest(filepath.Dir(filepath.Dir(script)))
	major, _, _ := strings.Cut(npm.Version, ".")
	n, _ := strconv.Atoi(major)
	return ok && npm.Name == "npm" && n >= 7
}

// plan has npx fetch what it needs and report what it would run. It returns nil
// where npx has to be run as it is written.
//
// An exact version that was fetched once is what it was, so npx is not asked again.
func (s *server) plan(ctx context.Context, c command, f fetch) (*plan, error) {
	exact := len(f.packages) == 1 && exactVersion.MatchString(f.packages[0])
	if exact {
		if p, ok := s.recall(c); ok && p.runs(f.packages[0]) {
			return p, nil
		}
	}
	s.does(f.String())
	var random [8]byte
	rand.Read(random[:])
	fence := hex.EncodeToString(random[:])
	asked := c
	asked.env = append(slices.Clone(c.env), shellVariable+"="+s.v.options.Reporter, ReportVariable+"="+fence)
	words := tail{conceal: concealer(s.wanted())}
	out, failure, err := s.runToEnd(ctx, asked, &words)
	if err != nil {
		return nil, &fetchError{f, words.last(stderrLines), fmt.Errorf("%s: %w%s", f, err, npmSays(&words))}
	}
	p, why := readReport(out, fence, c)
	switch {
	case p == nil && failure != "":
		var err error = &fetchError{f, words.last(stderrLines),
			fmt.Errorf("%s could not fetch %s: it %s%s", f.by, strings.Join(f.packages, ", "), failure, npmSays(&words))}
		if isMissing(&words) {
			err = &notFoundError{err}
		}
		return nil, err
	case p == nil:
		s.log.Debug("running npx as it is written", zap.String("because", why))
	case exact && p.runs(f.packages[0]):
		s.keep(c, p)
	}
	return p, nil
}

// readReport returns the plan that a report in npx's output amounts to, or why
// there is none.
func readReport(out []byte, fence string, npx command) (p *plan, why string) {
	var r report
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
	search, given := "", make(map[string]bool, len(npx.env))
	for _, v := range npx.env {
		given[v] = true
	}
	for _, v := range r.Env {
		variable := string(v)
		name, value, _ := strings.Cut(variable, "=")
		if name == "PATH" {
			search = value
		}
		if !given[variable] && !slices.Contains([]string{ReportVariable, shellVariable, markVariable}, name) {
			p.Set = append(p.Set, variable)
		}
	}
	if p.Path, ok = searchAbsolute(argv[0], search); !ok || !isScript(p.Path) {
		return nil, "what it runs is no script with a first line that names its interpreter"
	}
	return p, ""
}

// searchAbsolute finds a program as a shell does.
func searchAbsolute(program, path string) (string, bool) {
	if strings.ContainsRune(program, filepath.Separator) {
		return program, filepath.IsAbs(program)
	}
	found, ok := search(program, filepath.SplitList(path))
	return found, ok && filepath.IsAbs(found)
}

// isScript reports whether the system runs the file as a shell would: there are
// files without #! for which a shell stands in itself.
func isScript(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var first [2]byte
	n, _ := f.Read(first[:])
	return string(first[:n]) == "#!"
}

// words takes a command apart as a shell does. It knows quotes and nothing else: ok
// is false where a shell may do more than run a program.
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
var exactVersion = regexp.MustCompile(`^.+@[0-9]+\.[0-9]+\.[0-9]+([-+].*)?$`)

// A manifest is what a package.json says.
type manifest struct{ Name, Version string }

func readManifest(folder string) (m manifest, ok bool) {
	b, err := os.ReadFile(filepath.Join(folder, "package.json"))
	return m, err == nil && json.Unmarshal(b, &m) == nil
}

// runs reports whether the plan's program is there and the named package's, in the
// version that the name bears.
func (p *plan) runs(exact string) bool { return p.whose() == exact }

// whose returns the package that the plan's program belongs to and its version, as
// name@version; "" if that can't be told.
func (p *plan) whose() string {
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

// planFile returns where the plan for the command is kept, "" if nowhere: under a
// hash of all that npx is given.
func (s *server) planFile(c command) string {
	if s.v.options.DataDir == "" {
		return ""
	}
	h := sha256.New()
	for _, part := range slices.Concat([]string{c.path, c.dir}, c.args, []string{""}, c.env) {
		fmt.Fprintf(h, "%d %s", len(part), part)
	}
	return filepath.Join(s.v.options.DataDir, "plans", hex.EncodeToString(h.Sum(nil)[:16]))
}

func (s *server) recall(c command) (p *plan, ok bool) {
	b, err := os.ReadFile(s.planFile(c))
	return p, err == nil && json.Unmarshal(b, &p) == nil && p != nil
}

func (s *server) keep(c command, p *plan) {
	file := s.planFile(c)
	b, err := json.Marshal(p)
	if err == nil && file != "" && os.MkdirAll(filepath.Dir(file), 0o700) == nil {
		atomicfile.Write(file, b, false) // if it fails, npx is asked again
	}
}

// npmErrors returns what npm called an error, without the words before it.
func npmErrors(printed *tail) []string {
	var errs []string
	for _, line := range printed.last(stderrLines) {
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

// npmSays returns npm's reason for a failure as part of a sentence.
func npmSays(printed *tail) string {
	said := npmErrors(printed)
	if len(said) == 0 {
		return lastWords(printed)
	}
	return "; npm error " + strings.Join(said[:min(len(said), 4)], " | ")
}

// isMissing reports whether npm says that there is no such package: trying again
// at once is of no use.
func isMissing(printed *tail) bool {
	return slices.ContainsFunc(npmErrors(printed), func(line string) bool {
		return slices.Contains([]string{"code E404", "code ETARGET", "code ENOVERSIONS", "code EINVALIDPACKAGENAME"}, line)
	})
}
