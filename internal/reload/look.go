package reload

import (
	"maps"
	"os"
	"path/filepath"
	"time"
)

// interval is the time between two looks at the files. A file that is the same in two looks is not being written.
const interval = 250 * time.Millisecond

// A look is the state of files at one time, by path. It follows links and does not need the folders to exist, so an editor or
// Kubernetes may put another file or link in place of one, and each system and file system will do.
type look map[string]os.FileInfo

// lookAt looks at files and all files in folders. It has no state of a file that is missing.
func lookAt(files, folders []string) look {
	l := make(look)
	for _, folder := range folders {
		entries, _ := os.ReadDir(folder) // a missing folder has none
		for _, entry := range entries {
			files = append(files, filepath.Join(folder, entry.Name()))
		}
	}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			l[file] = info
		}
	}
	return l
}

// equal reports whether the files have not changed between two looks.
func (l look) equal(other look) bool {
	return maps.EqualFunc(l, other, func(a, b os.FileInfo) bool {
		return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
	})
}
