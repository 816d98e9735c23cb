//go:build unix

package launch

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A plan names a program that is run. In a folder that others can write to, it does not
// count.
func TestPlanInAnExposedFolder(t *testing.T) {
	dir := t.TempDir()
	l := &Launcher{dataDir: dir}
	c := process.Command{Path: "npx", Args: []string{"pkg@1.2.3"}}
	l.keep(c, &plan{Path: "/bin/planned"}, func(text string) string { return text })
	if p, ok := l.recall(c); !ok || p.Path != "/bin/planned" {
		t.Fatalf("%v, %v", p, ok)
	}
	for _, folder := range []string{dir, filepath.Join(dir, "plans")} {
		expect.OK(t, os.Chmod(folder, 0o770))
		if p, ok := l.recall(c); ok {
			t.Errorf("others can write to %s, and %v is used", folder, p)
		}
		expect.OK(t, os.Chmod(folder, 0o700))
	}
}
