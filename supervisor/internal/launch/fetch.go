package launch

import (
	"context"
	"crypto/sha512"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/config"
)

// A fetch is what npx and uvx do before they run the server: they bring its packages
// into their cache.
type fetch struct {
	by       string // the command, without its folder
	packages []string
}

// fetchOf returns what the entry's command fetches. ok is false if it fetches
// nothing, or has unusual arguments: then it is started as it is.
func fetchOf(entry config.Server) (f fetch, ok bool) {
	by := strings.ToLower(filepath.Base(entry.Command))
	for _, suffix := range []string{".exe", ".cmd"} {
		by = strings.TrimSuffix(by, suffix)
	}
	args := entry.Args
	switch {
	case entry.Transport != config.Stdio:
		return fetch{}, false
	case by == "npm" && len(args) > 0 && (args[0] == "exec" || args[0] == "x"):
		args = args[1:]
		fallthrough
	case by == "npx":
		f = fetch{by, npmPackages(args)}
	case by == "uv" && len(args) > 1 && args[0] == "tool" && args[1] == "run":
		args = args[2:]
		fallthrough
	case by == "uvx":
		f = fetch{by, uvPackages(args)}
	}
	return f, len(f.packages) > 0
}

func (f fetch) String() string { return f.by + " is fetching " + strings.Join(f.packages, ", ") }

// ofNPM reports whether it is npm that fetches.
func (f fetch) ofNPM() bool { return f.by == "npx" || f.by == "npm" }

// fromRegistry matches a package of the registry, with a version, a range or a tag
// if any. It matches no folder, file, URL or alias.
var fromRegistry = regexp.MustCompile(`^(@[a-z0-9~_-][a-z0-9._~-]*/)?[a-z0-9~_-][a-z0-9._~-]*(@[a-zA-Z0-9^~<>=|*. +_-]+)?$`)

// npmPackages returns the packages that npx fetches with these arguments.
func npmPackages(args []string) []string {
	var packages []string
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		option, value, joined := strings.Cut(args[0], "=")
		args = args[1:]
		switch {
		case option == "--" && !joined:
			return named(packages, args)
		case option == "-p" || option == "--package":
			if !joined && len(args) > 0 {
				value, args = args[0], args[1:]
			}
			packages = append(packages, value)
		case !slices.Contains([]string{"-y", "--yes", "-q", "--quiet", "--prefer-offline", "--prefer-online", "--offline"}, option) || joined:
			return nil
		}
	}
	return named(packages, args)
}

// named returns the packages, or the one that the first argument names if options
// name none. It returns none if any of them may be another thing than a package.
func named(packages, args []string) []string {
	switch {
	case len(args) == 0:
		return nil
	case len(packages) == 0:
		packages = args[:1]
	}
	for _, p := range packages {
		if !fromRegistry.MatchString(p) {
			return nil
		}
	}
	return packages
}

// uvPackages returns the package that uvx fetches with these arguments: the value of
// --from, or the first argument that is no option.
func uvPackages(args []string) []string {
	for len(args) > 0 {
		option, value, joined := strings.Cut(args[0], "=")
		args = args[1:]
		if !joined && len(args) > 0 && slices.Contains([]string{"--from", "--with", "--python", "-p", "--index-url", "--index"}, option) {
			value, args = args[0], args[1:]
		}
		if option == "--from" {
			return []string{value}
		} else if !strings.HasPrefix(option, "-") {
			return []string{option}
		}
	}
	return nil
}

// AwaitTurn waits until no other server's package is being fetched, if the entry's
// has to be. Packages that are fetched at the same time are all ready late, each
// takes 200 MB or more meanwhile, and npm fails at times when several of it write its
// cache. done gives the turn back, and so does the passing of a third of the entry's
// startTimeout, so that a fetch that hangs does not delay the others for long.
func (l *Launcher) AwaitTurn(ctx context.Context, job Job) (done func(), err error) {
	f, ok := fetchOf(job.Entry)
	if !ok || l.Cache.Get(job.Entry).Fetched || f.ofNPM() && cachedByNPM(f.packages, job.Entry.Env) {
		return func() {}, nil
	}
	job.Doing("waiting to be fetched")
	return l.fetching.Take(ctx, job.Entry.StartTimeout/3)
}

// Fetch has the entry's package fetched, if that can be done without running the
// server. It returns the command to start instead of the entry's, or nil if that
// command fetches the package when it is started, or fetches none.
func (l *Launcher) Fetch(ctx context.Context, job Job) (*Direct, error) {
	f, ok := fetchOf(job.Entry)
	if !ok {
		return nil, nil
	}
	c, err := l.command(ctx, job.Entry)
	if err != nil {
		return nil, err
	}
	var p *plan
	if f.ofNPM() && canReport(c, l.reporter) {
		if p, err = l.plan(ctx, c, f, job); err != nil {
			return nil, err
		}
	}
	if p == nil {
		job.Doing(f.by + " is fetching or starting " + strings.Join(f.packages, ", "))
		return nil, nil
	}
	return &Direct{Package: p.packageOf(), entry: job.Entry, command: p.apply(c)}, nil
}

// NoteFetched notes that the package of the entry's command, if it has one, is in the
// cache of its package runner.
func (l *Launcher) NoteFetched(entry config.Server) {
	if _, ok := fetchOf(entry); ok {
		l.Cache.Edit(entry, func(r *ProbeResult) { r.Fetched = true })
	}
}

// cachedByNPM reports whether npx seems to have the packages. If npm's files name
// another cache, the start only waits for its turn without need.
func cachedByNPM(packages []string, own map[string]string) bool {
	cache := ""
	for _, name := range []string{"npm_config_cache", "NPM_CONFIG_CACHE"} {
		for _, value := range []string{os.Getenv(name), own[name]} {
			if value != "" {
				cache = value
			}
		}
	}
	if home, err := os.UserHomeDir(); err == nil && cache == "" {
		cache = filepath.Join(home, ".npm")
		if runtime.GOOS == "windows" {
			cache = filepath.Join(os.Getenv("LOCALAPPDATA"), "npm-cache")
		}
	}
	for _, p := range packages {
		name := p
		if at := strings.LastIndex(p, "@"); at > 0 {
			name = p[:at]
		}
		manifest := filepath.Join(cache, "_npx", npxFolder(packages), "node_modules", filepath.FromSlash(name), "package.json")
		if _, err := os.Stat(manifest); err != nil {
			return false
		}
	}
	return true
}

// npxFolder returns the folder of npx's cache in which it keeps the packages, as
// npm's libnpmexec names it.
func npxFolder(packages []string) string {
	sum := sha512.Sum512([]byte(strings.Join(slices.Sorted(slices.Values(packages)), "\n")))
	return hex.EncodeToString(sum[:8])
}
