package adapter

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/execute"
)

// placeOf returns where the server of an entry works: in the folders among its arguments and
// its cwd, and at the hosts of its URL, its arguments and its variables.
func placeOf(s config.Server) *execute.Location {
	base := s.Cwd
	if base == "" {
		base, _ = os.Getwd() // without it, relative folders are not known
	}
	values := []string{s.Cwd, s.URL}
	for _, arg := range s.Args {
		if arg == "." || arg == ".." || strings.HasPrefix(arg, "./") || strings.HasPrefix(arg, "../") {
			arg = filepath.Join(base, arg)
		}
		values = append(values, arg)
	}
	for _, value := range s.Env {
		if strings.Contains(value, "://") {
			values = append(values, value)
		}
	}
	return execute.NewLocation(s.Priority, values)
}
