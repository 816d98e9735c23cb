package supervisor

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
	"time"

	"github.com/mcp-metarouter/metarouter/config"
)

// A fetch is what some commands do before they run the server: npx and uvx bring
// its package into their cache.
type fetch struct {
	by       string // the command, without its folder
	packages []string
}

// fetchOf returns what the entry's command fetches. ok is false where it fetches
// nothing, or its arguments are other than usual: then it is left alone.
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
// if any: nothing that is a folder, a file, a URL or another name for a package.
var fromRegistry = regexp.MustCompile(`^(@[a-z0-9~_-][a-z0-9._~-]*/)?[a-z0-9~_-][a-z0-9._~-]*(@[a-zA-Z0-9^~<>=|*. +_-]+)?$`)

// npmPackages returns what npx fetches that has these arguments.
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

// named returns the packages, or the one that the first argument names where
// options name none; none if it is unclear what any of them is.
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

// uvPackages returns what uvx fetches that has these arguments: the value of
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

// turnTime is the share of its startTimeout for which a server keeps others from
// fetching.
func turnTime(entry config.Server) time.Duration { return entry.StartTimeout / 3 }

// turn waits until no other server's package is being fetched, if the entry's has
// to be. Those that are fetched at the same time are all ready late, each takes 200
// MB or more meanwhile, and npm fails at times where several of it write its cache.
// done gives the turn back, as does the passing of turnTime, so that one that hangs
// delays nobody for long.
func (s *server) turn(ctx context.Context, entry config.Server) (done func(), err error) {
	f, ok := fetchOf(entry)
	if !ok || s.v.traits.get(entry).Fetched || f.ofNPM() && cachedByNPM(f.packages, entry.Env) {
		return func() {}, nil
	}
	s.does("waiting to be fetched")
	return take(ctx, s.v.fetching, turnTime(entry))
}

// cachedByNPM reports whether npx seems to have the packages. If its cache is
// elsewhere than it seems, as npm's files may say, it only waits for its turn.
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

// prepare has the entry's package fetched, where that can be done without running
// the server. fetched says that it was: others have their turn.
func (s *server) prepare(ctx context.Context, entry config.Server) (fetched bool, err error) {
	s.mu.Lock()
	s.direct, s.status.Package = nil, ""
	s.mu.Unlock()
	f, ok := fetchOf(entry)
	if !ok {
		return false, nil
	}
	c, err := s.command(ctx, entry)
	if err != nil {
		return false, err
	}
	var p *plan
	if f.ofNPM() && s.canPlan(c) {
		if p, err = s.plan(ctx, c, f); err != nil {
			return false, err
		}
	}
	if p == nil { // it fetches when it is started
		s.does(f.by + " is fetching or starting " + strings.Join(f.packages, ", "))
		return false, nil
	}
	runs := p.whose()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.direct, s.status.Package = &direct{entry, p.apply(c)}, runs
	return true, nil
}

// A direct command is what npx would run for an entry.
type direct struct {
	entry   config.Server
	command command
}

// does says what the server's start is waiting for; "" if nothing but the server.
func (s *server) does(what string) {
	s.mu.Lock()
	same := s.doing == what
	s.mu.Unlock()
	if !same {
		s.set(func(*Status) { s.doing, s.since = what, time.Now() })
	}
}

// noteFetched notes that what the entry's command fetches is here.
func (s *server) noteFetched(entry config.Server) {
	if _, ok := fetchOf(entry); ok {
		s.v.traits.edit(entry, func(t *traits) { t.Fetched = true })
	}
}
