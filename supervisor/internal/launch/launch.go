package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"runtime"
	"slices"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// AtATime is how many packages are fetched at a time.
var AtATime = min(max(runtime.NumCPU(), 2), 4)

// A Launcher starts the processes of entries. It is shared by all servers.
type Launcher struct {
	Cache *Cache

	starter  *process.Starter
	reporter string        // path of a program that calls Report; "" runs npx and uvx as entries have them
	dataDir  string        // "" keeps nothing
	fetching *signal.Turns // of package runners
}

// New returns a Launcher that starts processes with starter. reporter is the path of
// a program that calls [process.Report]; may be "". dataDir is where results are kept;
// "" keeps them in memory.
func New(starter *process.Starter, reporter, dataDir string) *Launcher {
	return &Launcher{
		Cache: newCache(dataDir), starter: starter, reporter: reporter, dataDir: dataDir,
		fetching: signal.NewTurns(AtATime, 1),
	}
}

// A Job is one start of a server.
type Job struct {
	Entry    config.Server
	Resolved config.Server       // the entry with the values of its references to secrets, for Fetch
	Hide     func(string) string // replaces these values in a text
	Doing    func(what string)   // called with the step that the start waits for; "" is the server itself
	Wanted   <-chan struct{}     // closed when someone waits for the server; nil for never
	LogFile  *process.LogFile    // for the stderr of package runners
	Log      *zap.Logger
}

// A Direct is the command that npx or uvx would run for an entry, which is started without
// them.
type Direct struct {
	Package string // as name@version; "" if it is unknown
	Cached  bool   // npx had the package before, and only asked npm for its newest version

	entry config.Server
	args  []string // with the values of references, for which the plan was made
	plan  *plan
}

// Start starts the process of the entry. resolved is the entry with the values of its
// references to secrets. d is the result of [Launcher.Fetch] for the entry, or for one
// before an edit; it may be nil.
func (l *Launcher) Start(entry, resolved config.Server, d *Direct) (*process.Process, error) {
	c, err := commandOf(resolved)
	if err != nil {
		return nil, err
	}
	if d != nil && SameProcess(d.entry, entry) && slices.Equal(d.args, c.Args) {
		if _, err := os.Stat(d.plan.Path); err == nil {
			c = process.Command{Path: d.plan.Path, Args: d.plan.Args, Env: slices.Concat(c.Env, d.plan.Set), Dir: c.Dir, KeepStrays: c.KeepStrays}
		}
	}
	return l.starter.Start(contain(c, resolved))
}

// commandOf returns the entry's command as it is written.
func commandOf(entry config.Server) (process.Command, error) {
	path, search, err := process.Find(entry.Command, entry.Cwd, entry.Env["PATH"])
	if err != nil {
		return process.Command{}, err
	}
	if entry.Cwd != "" {
		if info, err := os.Stat(entry.Cwd); err != nil || !info.IsDir() {
			return process.Command{}, &FolderError{entry.Cwd}
		}
	}
	return process.Command{
		Path: path, Args: entry.Args, Dir: entry.Cwd, KeepStrays: entry.KeepStrays,
		Env: process.Environment(os.Environ(), entry.InheritEnv, search, entry.Env, append([]string{entry.Command}, entry.Args...)),
	}, nil
}

// SameProcess reports whether two entries ask for the same process, or the same remote server
// with the same login.
func SameProcess(a, b config.Server) bool {
	return a.Hash() == b.Hash() && slices.Equal(a.InheritEnv, b.InheritEnv) && a.KeepStrays == b.KeepStrays && reflect.DeepEqual(a.Roots, b.Roots) && a.SameSecrets(b) && reflect.DeepEqual(a.OAuth, b.OAuth)
}

// IsMissing reports whether a start has failed because a command, folder or package does not exist:
// trying again at once is of no use.
func IsMissing(err error) bool {
	_, command := errors.AsType[*process.MissingError](err)
	_, folder := errors.AsType[*FolderError](err)
	_, start := errors.AsType[*process.StartError](err)
	fetch, ok := errors.AsType[*FetchError](err)
	return command || folder || start && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)) || ok && fetch.missing
}

// A FolderError is a working directory that is no folder.
type FolderError struct{ Folder string }

func (e *FolderError) Error() string {
	return fmt.Sprintf("its working directory %s is no folder", e.Folder)
}

// A FetchError is a package that could not be fetched.
type FetchError struct {
	By       string   // the command that fetches, without its folder
	Packages []string // as the entry names them
	Said     []string // the last lines on stderr of the command
	Doing    string   // the step that failed, as "npx is fetching pkg"

	err     error
	missing bool // the command has ended since the package does not exist
}

func (e *FetchError) Error() string { return e.err.Error() }
func (e *FetchError) Unwrap() error { return e.err }
