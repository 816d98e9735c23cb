package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
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

// Hash returns a hash of values that JSON can encode.
func Hash(values ...any) string {
	encoded, err := json.Marshal(values)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
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
