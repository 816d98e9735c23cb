//go:build unix

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A configuration and an envFile are regular files. Nothing waits for a FIFO or reads a
// device.
func TestIrregularFiles(t *testing.T) {
	dir := t.TempDir()
	fifo, device, large := filepath.Join(dir, "fifo"), filepath.Join(dir, "device"), filepath.Join(dir, "large")
	expect.OK(t, syscall.Mkfifo(fifo, 0o600))
	expect.OK(t, os.Symlink("/dev/zero", device))
	write(t, large, "")
	expect.OK(t, os.Truncate(large, 1<<40))
	for path, want := range map[string]string{fifo: "not a regular file", device: "not a regular file", large: "larger than 4 MiB"} {
		for _, load := range []func(...string) (Config, error){Load, LoadText} {
			_, err := inTime(t, func() (Config, error) { return load(path) })
			expect.Error(t, err, want, "%s", path)
		}
		file := filepath.Join(dir, ".mcp.json")
		write(t, file, fmt.Sprintf(`{"mcpServers": {"a": {"command": "x", "envFile": %q}}}`, path))
		c, err := inTime(t, func() (Config, error) { return Load(file) })
		if err != nil || len(c.Problems) != 1 || !strings.Contains(c.Problems[0].Message, want) || c.Servers[0].Misconfigured == "" {
			t.Errorf("envFile %s: %v, %v", path, err, c.Problems)
		}
	}
}

// Approvals count only if other users can't have written them.
func TestTrustNeedsAnOwnFolder(t *testing.T) {
	dir := t.TempDir()
	file, data := filepath.Join(dir, ".mcp.json"), filepath.Join(dir, "data")
	write(t, file, `{"mcpServers": {"a": {"command": "x"}}}`)
	c := loaded(t, file)
	expect.OK(t, c.Text.Trust(data))
	for _, path := range []string{data, filepath.Join(data, "trust.json")} {
		info, err := os.Stat(path)
		expect.OK(t, err)
		expect.Equal(t, info.Mode().Perm()&0o077, 0, "%s was made with mode %v", path, info.Mode())
		expect.OK(t, os.Chmod(path, info.Mode().Perm()|0o020))
		expect.Error(t, c.Text.Trusted(data), "chmod go-w '"+path+"'", "others can write to %s", path)
		if err := c.Text.Trust(data); err == nil {
			t.Errorf("others can write to %s, and an approval was added to theirs", path)
		}
		expect.OK(t, os.Chmod(path, info.Mode().Perm()))
	}
	expect.OK(t, c.Text.Trusted(data))
}
