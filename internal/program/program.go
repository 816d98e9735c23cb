// Package program finds executables in the folders of a PATH, without the relative ones.
//
// A relative folder in PATH, or an empty element, which means the current folder, lets
// the author of the files of that folder choose which program runs: a cloned project
// with a file "npx" would run it. So such folders are skipped, not refused as
// [exec.LookPath] does: the same command may be in a later folder.
package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Folders returns the absolute folders of a PATH, in order.
func Folders(path string) []string {
	return slices.DeleteFunc(filepath.SplitList(path), func(folder string) bool { return !filepath.IsAbs(folder) })
}

// Join returns the PATH of the folders.
func Join(folders []string) string {
	return strings.Join(folders, string(filepath.ListSeparator))
}

// Search returns the first executable with this name in the absolute ones of the
// folders.
func Search(name string, folders []string) (string, bool) {
	for _, folder := range folders {
		if !filepath.IsAbs(folder) {
			continue
		}
		if found, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
			return found, true
		}
	}
	return "", false
}

// Look is [exec.LookPath] without the relative folders of PATH. A name with a separator
// is a path, as there.
func Look(name string) (string, error) {
	if filepath.Base(name) != name {
		return exec.LookPath(name)
	}
	if found, ok := Search(name, Folders(os.Getenv("PATH"))); ok {
		return found, nil
	}
	return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
}
