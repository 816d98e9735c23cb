package archtest

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// openers are the packages that open files without safefile: files that the user names, that the system has, or in
// folders that were just made. The others may open files of the data folder, where a stranger may have put a link or a pipe.
var openers = []string{
	"cmd/metarouter/internal/cli", "cmd/metarouter/internal/web", // named by a flag
	"internal/keeper", "internal/pipe", // /proc and /dev
	"cmd/metarouter/internal/clients", // a new file
	"internal/safefile",
}

// TestFilesAreOpenedSafely holds all packages but the openers to safefile and atomicfile.
func TestFilesAreOpenedSafely(t *testing.T) {
	opens := regexp.MustCompile(`\bos\.(Open|OpenFile|ReadFile|WriteFile|Create)\(`)
	used := make(map[string]bool)
	for name, folder := range sources(t) {
		top, _, _ := strings.Cut(folder, "/")
		if slices.Contains([]string{"test", "tools", "examples", "docs"}, top) {
			continue
		}
		text, err := os.ReadFile(name)
		expect.OK(t, err)
		switch found := opens.Find(text); {
		case found == nil:
		case slices.Contains(openers, folder):
			used[folder] = true
		default:
			t.Errorf("%s: %s opens a file that may be a link or a pipe; use package safefile", path.Join(folder, path.Base(name)), found)
		}
	}
	expect.Equal(t, len(used), len(openers), "of the openers, only %v open files", used)
}
