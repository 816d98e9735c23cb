//go:build unix

package stored

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A link may lead to another file of the project, and no further; no FIFO is waited for.
func TestReadLinks(t *testing.T) {
	secret := filepath.Join(folder(t, map[string]string{"a.js": hello}), "scripts")
	dir := folder(t, map[string]string{"a.js": hello})
	at := func(name string) string { return filepath.Join(dir, name) }
	expect.OK(t, errors.Join(
		os.Rename(at("scripts/a.js"), at("a.txt")),
		os.Symlink("../a.txt", at("scripts/inside.js")),
		os.Symlink(filepath.Join(secret, "a.js"), at("scripts/absolute.js")),
		os.Symlink("../../"+filepath.Base(filepath.Dir(secret))+"/scripts/a.js", at("scripts/relative.js")),
		os.Symlink("loop.js", at("scripts/loop.js")),
		os.Symlink("/dev/zero", at("scripts/zero.js")),
		syscall.Mkfifo(at("scripts/fifo.js"), 0o600),
		os.Symlink(secret, at("outside")),
		os.Symlink("scripts", at("link")),
		syscall.Mkfifo(at("fifo"), 0o600),
	))
	for _, path := range []string{"scripts", "link"} {
		f := Read(dir, path)
		tools, problems := names(f)
		if f.Err != nil || len(tools) != 1 || tools[0] != "inside" || len(problems) != 5 {
			t.Errorf("%s: %v, %v, %v", path, tools, problems, f.Err)
		}
		for _, p := range f.Problems {
			if p.Text != nil || !strings.Contains(p.Err.Error(), "can't be read") {
				t.Errorf("%s: %v", p.File, p.Err)
			}
		}
	}
	for _, path := range []string{"outside", "fifo"} {
		if f := Read(dir, path); f.Err == nil || f.Scripts != nil {
			t.Errorf("%s: %d scripts, %v", path, len(f.Scripts), f.Err)
		}
	}
}
