package daemon

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"
)

// Program identifies a build of the program: its version, and the program's file as it is
// now. Call it at the start of the process, since an update may replace the file.
func Program(version string) string {
	path, _ := os.Executable()
	info, err := os.Stat(path)
	if err != nil {
		return version
	}
	return fmt.Sprintf("%s %s %d %d", version, path, info.Size(), info.ModTime().UnixNano())
}

// isNewer reports whether the build a takes over from the build b: its file is a later one at the same path, or its version
// is higher. Both are of [Program].
func isNewer(a, b string) bool {
	versionA, pathA, changedA := parts(a)
	versionB, pathB, changedB := parts(b)
	if pathA == pathB {
		return changedA > changedB
	}
	return semver.IsValid(versionA) && semver.IsValid(versionB) && semver.Compare(versionA, versionB) > 0
}

// parts returns the parts of a [Program], zero values if it has no path.
func parts(program string) (version, path string, changed int64) {
	fields := strings.Split(program, " ")
	if len(fields) < 4 {
		return program, program, 0
	}
	changed, _ = strconv.ParseInt(fields[len(fields)-1], 10, 64)
	return fields[0], strings.Join(fields[1:len(fields)-2], " "), changed
}

// Terms are what the clients of a router have in common: values by the names that a person knows them by. Folder,
// variables, and the flags that say how a client sees the router are no terms.
type Terms map[string]string

// differ returns the first name with another value, "" without one.
func (t Terms) differ(other Terms) string {
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if t[name] != other[name] {
			return name
		}
	}
	return ""
}

// Resolved returns the absolute path of a file, without links.
func Resolved(path string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path
}

// Namespaces identifies the container of this process, since the same path may be
// another folder in another container. On other systems than Linux it returns empty
// names.
func Namespaces() (all []string) {
	for _, kind := range []string{"mnt", "net", "pid", "user"} {
		name, _ := os.Readlink("/proc/self/ns/" + kind)
		all = append(all, name)
	}
	return all
}

// During returns a handler that ends its requests when ctx ends.
func During(ctx context.Context, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bounded, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		h.ServeHTTP(w, r.WithContext(bounded))
	})
}
