package reload

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
)

// A Watcher reports when the text of some files may have changed. It watches folders, not
// files: an editor replaces the file by a new one, and Kubernetes replaces a symlink. The zero value
// watches nothing.
type watcher struct {
	Events <-chan fsnotify.Event
	Errors <-chan error     // after which events may be lost
	Poll   <-chan time.Time // when to read the files; nil while the system reports every change

	log   *zap.Logger
	fs    *fsnotify.Watcher // nil if the system can't watch
	steps map[string]bool   // paths with events that count, as folded by fold
}

// anyFile is the name of a file that stands for all files of its folder.
const anyFile = "*"

const pollInterval = 2 * time.Second

// newWatcher returns a watcher of no file. Where the system can't watch, log says so.
func newWatcher(log *zap.Logger) *watcher {
	w := &watcher{log: log}
	system, err := fsnotify.NewWatcher()
	if err != nil {
		w.pollSince(err)
		return w
	}
	w.fs, w.Events, w.Errors = system, system.Events, system.Errors
	return w
}

// Close ends the watch.
func (w *watcher) Close() {
	if w.fs != nil {
		w.fs.Close()
	}
}

// Follow watches the files, and no others. It reports whether it has begun to watch another
// folder.
func (w *watcher) Follow(files []string) (more bool) {
	if w.fs == nil {
		return false
	}
	w.steps = make(map[string]bool)
	folders := make(map[string]bool)
	for _, file := range files {
		for _, step := range stepsTo(file) {
			folder := filepath.Dir(step)
			folders[folder] = true
			w.steps[fold(step)] = true
			w.steps[fold(folder)] = true // the removal of a folder is an event under its own name
		}
	}
	before := w.fs.WatchList()
	for _, folder := range before {
		if !folders[folder] {
			w.fs.Remove(folder) // it may not exist any more
		}
	}
	var unwatched error
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		// Watched folders are added again: there may be another folder of that name by now.
		if err := w.fs.Add(folder); err != nil {
			unwatched = err
		} else if !slices.Contains(before, folder) {
			more = true
		}
	}
	if unwatched != nil {
		w.pollSince(unwatched)
	} else {
		w.Poll = nil
	}
	return more
}

// Concerns reports whether the event is about a file that is followed.
func (w *watcher) Concerns(event fsnotify.Event) bool {
	return w.steps[fold(event.Name)] || w.steps[fold(filepath.Join(filepath.Dir(event.Name), anyFile))]
}

// fold makes names equal that a file system may take for equal. An event too many does no
// harm.
func fold(path string) string { return strings.ToLower(path) }

func (w *watcher) pollSince(err error) {
	if w.Poll == nil {
		w.log.Info("the configuration is read every two seconds, since it can't be watched", zap.Error(err))
		w.Poll = time.Tick(pollInterval)
	}
}

// stepsTo returns the paths that decide which file is read at path: each symlink on the way, and
// at the end the file, or the first folder that is missing. The folder of each of them
// exists.
func stepsTo(path string) (steps []string) {
	const maxLinks = 40 // as in Linux
	folder, rest := splitRoot(path)
	for len(steps) < maxLinks {
		name, after, _ := strings.Cut(rest, string(filepath.Separator))
		here := filepath.Join(folder, name)
		info, err := os.Lstat(here)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 && after == "" {
			return append(steps, here)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			folder, rest = here, after
			continue
		}
		steps = append(steps, here)
		target, err := os.Readlink(here)
		if err != nil {
			return steps
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(folder, target)
		}
		folder, rest = splitRoot(filepath.Join(target, after))
	}
	return steps
}

func splitRoot(path string) (root, rest string) {
	root = filepath.VolumeName(path) + string(filepath.Separator)
	return root, strings.TrimPrefix(path, root)
}
