package launch

import (
	"cmp"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// A fetch is the work of npx and uvx before they run the server: they look its packages up, and
// bring them into their cache if they are not there.
type fetch struct {
	use      commandline.Packages
	packages []string
	cached   []string // those that npx or uvx had before, as name@version
	before   bool     // they were fetched for this entry before
}

// fetchOf returns the fetch of the entry's command. ok is false if it fetches
// nothing, or has unusual arguments: then it is started as it is.
func fetchOf(entry config.Server) (f fetch, ok bool) {
	if entry.Transport != config.Stdio {
		return fetch{}, false
	}
	use, ok := commandline.PackagesOf(entry.Command, entry.Args)
	f.use = use
	for _, spec := range use.Specs {
		f.packages = append(f.packages, spec.Text)
	}
	if use.ByNPM() {
		f.cached = cachedByNPM(f.packages, entry.Env)
	} else if ok {
		f.cached = cachedByUV(f.packages[0], entry.Env)
	}
	return f, ok
}

func (f fetch) String() string {
	does := " is fetching "
	if f.cached != nil || f.before {
		does = " is looking up "
	}
	return f.use.By + does + strings.Join(f.packages, ", ")
}

// AwaitTurn waits until few other servers' packages are being fetched, if the entry's
// has to be. npm takes 220 MB and most of a core for each, so that many at a time are all ready late. done gives
// the turn back, and so does the passing of a third of the entry's startTimeout, so that a fetch that hangs does
// not delay the others for long.
func (l *Launcher) AwaitTurn(ctx context.Context, job Job) (done func(), err error) {
	f, ok := fetchOf(job.Entry)
	if !ok || l.Cache.Get(job.Entry).Fetched || f.cached != nil {
		return func() {}, nil
	}
	return l.fetching.Take(ctx, signal.Turn{
		Limit: job.Entry.StartTimeout / 3, Wanted: job.Wanted,
		Waits: func() { job.Doing("waiting to be fetched") },
	})
}

// Fetch has the entry's package fetched, if that can be done without running the
// server. It returns the command to start instead of the entry's, or nil if that
// command fetches the package when it is started, or fetches nothing.
func (l *Launcher) Fetch(ctx context.Context, job Job) (*Direct, error) {
	f, ok := fetchOf(job.Entry)
	if !ok {
		return nil, nil
	}
	f.before = l.Cache.Get(job.Entry).Fetched
	written, err := commandOf(job.Entry)
	if err != nil {
		return nil, err
	}
	c, err := commandOf(job.Resolved)
	if err != nil {
		return nil, err
	}
	p, err := l.plan(ctx, c, written, f, job)
	if err != nil {
		return nil, err
	}
	if p == nil {
		job.Doing(strings.Replace(f.String(), " is ", " is starting or ", 1))
		return nil, nil
	}
	runs := f.packageOf(p)
	return &Direct{Package: runs, Cached: slices.Contains(f.cached, runs), entry: job.Entry, args: c.Args, plan: p}, nil
}

// NoteFetched notes that the package of the entry's command, if it has one, is in the
// cache of its package runner.
func (l *Launcher) NoteFetched(entry config.Server) {
	if _, ok := fetchOf(entry); ok {
		l.Cache.Edit(entry, func(r *ProbeResult) { r.Fetched = true })
	}
}

// cachedByNPM returns the packages that npx has, as name@version; nil if it seems to lack one.
// If npm's files name another cache, the start only waits for its turn without need.
func cachedByNPM(specs []string, own map[string]string) (all []string) {
	cache := cmp.Or(own["NPM_CONFIG_CACHE"], os.Getenv("NPM_CONFIG_CACHE"), own["npm_config_cache"], os.Getenv("npm_config_cache"))
	if home, err := os.UserHomeDir(); err == nil && cache == "" {
		cache = filepath.Join(home, ".npm")
		if runtime.GOOS == "windows" {
			cache = filepath.Join(os.Getenv("LOCALAPPDATA"), "npm-cache")
		}
	}
	for _, p := range specs {
		name := commandline.Bare(p)
		m, ok := readManifest(filepath.Join(cache, "_npx", npxFolder(specs), "node_modules", filepath.FromSlash(name)))
		if !ok {
			return nil
		}
		all = append(all, m.Name+"@"+m.Version)
	}
	return all
}

// npxFolder returns the folder of npx's cache in which it keeps the packages, as
// npm's libnpmexec names it.
func npxFolder(packages []string) string {
	sum := sha512.Sum512([]byte(strings.Join(slices.Sorted(slices.Values(packages)), "\n")))
	return hex.EncodeToString(sum[:8])
}
