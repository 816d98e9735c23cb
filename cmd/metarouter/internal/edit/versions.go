package edit

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/program"
)

// patience is how long npm or uv has to answer; uv may have to fetch the package first.
const patience = 2 * time.Minute

// A pinned is an argument of a server's command with an exact version.
type pinned struct {
	Arg  int    // counted from 0
	Text string // the new argument
}

// errPinned says that there is nothing to pin: the command runs no package, or its version is
// exact already.
var errPinned = errors.New("there is nothing to pin")

// exact matches one version, as npm and PyPI write them.
var exact = lazy.Regexp(`^[0-9][0-9A-Za-z.+!_-]*$`)

// An asking says how npm and uv are started for an entry.
type asking struct {
	Command string   // of the entry, with the values of variables
	Args    []string // of the entry, with the values of variables
	Dir     string
	Env     []string
}

// findPin returns the pin of an entry, as the file has it without the values of variables. runs
// is the npm package that is known to run, as name@version, or "".
func findPin(ctx context.Context, entry config.Server, start asking, runs string) (pinned, error) {
	use, ok := commandline.PackagesOf(entry.Command, entry.Args)
	if !ok || entry.Transport != config.Stdio || strings.HasPrefix(use.Specs[0].Text, "-") {
		return pinned{}, errPinned
	}
	if len(use.Specs) > 1 {
		return pinned{}, errors.New("it needs several packages; write their versions by hand")
	}
	spec := use.Specs[0]
	if use.KeepsData(entry.Env) {
		return pinned{}, errors.New("its data is in its package's folder; set MEMORY_FILE_PATH first")
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	version := ofUV
	if use.ByNPM() {
		version = ofNPM
	}
	text, err := version(ctx, start, spec, runs)
	if err != nil {
		return pinned{}, err
	}
	if option, _, joined := strings.Cut(entry.Args[spec.Arg], "="); joined && strings.HasPrefix(option, "-") {
		text = option + "=" + text
	}
	return pinned{spec.Arg, text}, nil
}

// npmVersion matches a version of npm: a range such as 1.2 does not match.
var npmVersion = lazy.Regexp(`^[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?$`)

// ofNPM returns the spec with the version that runs, else with the one that npm would take.
func ofNPM(ctx context.Context, start asking, spec commandline.Package, runs string) (string, error) {
	name, version := spec.Text, ""
	if at := strings.LastIndex(name, "@"); at > 0 {
		name, version = name[:at], name[at+1:]
	}
	if npmVersion().MatchString(version) {
		return "", errPinned
	}
	if is, ok := strings.CutPrefix(runs, name+"@"); ok && npmVersion().MatchString(is) {
		return name + "@" + is, nil
	}
	out, err := output(ctx, start, npmOf(start.Command), "view", spec.Text, "version", "dist-tags", "--json")
	if err != nil {
		return "", err
	}
	if version = taken(out); version == "" {
		return "", fmt.Errorf("npm view says no version of %s", spec.Text)
	}
	return name + "@" + version, nil
}

// npmOf returns the npm next to an npx.
func npmOf(command string) string {
	folder, name := filepath.Split(command)
	return folder + "npm" + filepath.Ext(name)
}

// pythonName matches a package of PyPI, perhaps with extras.
var pythonName = lazy.Regexp(`^([A-Za-z0-9][A-Za-z0-9._-]*)(\[[A-Za-z0-9._, -]+\])?`)

// ofUV returns the spec with the version that uvx takes.
func ofUV(ctx context.Context, start asking, spec commandline.Package, _ string) (string, error) {
	match := pythonName().FindStringSubmatch(spec.Text)
	if match == nil {
		return "", errPinned
	}
	whole, name := match[0], match[1]
	switch rest := strings.TrimSpace(spec.Text[len(whole):]); {
	case strings.HasPrefix(rest, "==") && !strings.ContainsAny(rest, "*,"), strings.HasPrefix(rest, "@") && exact().MatchString(strings.TrimSpace(rest[1:])):
		return "", errPinned
	case strings.HasPrefix(rest, "@") && strings.TrimSpace(rest[1:]) != "latest", rest != "" && !strings.ContainsAny(rest[:1], "@<>=~!"):
		return "", errPinned // a URL, a folder or something unknown
	case !spec.From && (rest != "" && rest[0] != '@' || whole != name):
		return "", fmt.Errorf("write %s after --from, so that its version can be pinned", spec.Text)
	}
	before := slices.Clone(start.Args[:spec.Arg])
	if n := len(before); spec.From && n > 0 && before[n-1] == "--from" {
		before = before[:n-1]
	}
	const ask = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
	out, err := output(ctx, start, start.Command, append(before, "--from", spec.Text, "python", "-I", "-c", ask, name)...)
	if err != nil {
		return "", err
	}
	version := strings.TrimSpace(string(out))
	switch {
	case !exact().MatchString(version):
		return "", fmt.Errorf("uv says no version of %s", spec.Text)
	case spec.From:
		return whole + "==" + version, nil
	}
	return name + "@" + version, nil
}

// output returns the text that npm or uv prints. Their processes end with ctx.
func output(ctx context.Context, start asking, command string, args ...string) ([]byte, error) {
	path := command
	if filepath.Base(command) == command {
		var ok bool
		if path, ok = program.Search(command, program.Folders(pathOf(start.Env))); !ok {
			return nil, fmt.Errorf("%s: %w", command, exec.ErrNotFound)
		}
	}
	const most = 1 << 20
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Env = start.Dir, start.Env
	program.Detach(cmd)
	cmd.WaitDelay = time.Second
	var out, errs program.Limited
	out.Left, errs.Left = most, most
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("%s: %w%s", filepath.Base(command), err, reason(errs.Bytes()))
	}
	return out.Bytes(), nil
}

// pathOf returns the PATH of an environment, in which the last one counts.
func pathOf(env []string) (path string) {
	for _, variable := range env {
		if name, value, _ := strings.Cut(variable, "="); strings.EqualFold(name, "PATH") {
			path = value
		}
	}
	return path
}

// reason returns the first line that says why a program failed, as the end of a sentence.
func reason(printed []byte) string {
	for line := range strings.Lines(string(printed)) {
		for _, prefix := range []string{"npm error ", "npm ERR! ", "error: ", "  ╰─▶ ", "  × "} {
			if rest, ok := strings.CutPrefix(line, prefix); ok && !strings.HasPrefix(rest, "code ") {
				return "; " + strings.TrimSpace(rest)
			}
		}
	}
	return ""
}

// maxAsked is how many package managers are asked at the same time: each is a process of
// 100 MB.
const maxAsked = 4

// findPins returns the pins of these servers of a configuration, which is only read as text. It
// notes which packages can't be pinned. start says how npm and uv are asked for an entry. runs
// are the npm packages that are known to run, by server.
func findPins(ctx context.Context, out *console.Console, c config.Config, servers []string, start func(config.Server) (asking, error), runs map[string]string) (map[string]pinned, error) {
	pins := make(map[string]pinned)
	failed := make(map[string]error)
	var mu sync.Mutex // guards both
	var g errgroup.Group
	g.SetLimit(maxAsked)
	for _, s := range c.Servers {
		if s.Disabled || !slices.Contains(servers, s.Name) {
			continue
		}
		g.Go(func() error {
			var p pinned
			how, err := start(s)
			if err == nil {
				p, err = findPin(ctx, s, how, runs[s.Name])
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				pins[s.Name] = p
			case !errors.Is(err, errPinned):
				failed[s.Name] = err
			}
			return nil
		})
	}
	_ = g.Wait()
	for _, s := range c.Servers {
		if err := failed[s.Name]; err != nil {
			out.Note("not pinned: %s: %v", s.Name, err)
		}
	}
	return pins, ctx.Err()
}
