//go:build unix

package safefile

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Of a write that was killed before it renamed its copy, the copy goes with the next write of that file. Other files stay.
func TestWriteModeAfterKill(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if os.Getenv("METAROUTER_KILLED") != "" {
		rename = func(string, string) error { os.Exit(9); return nil }
		WriteMode(os.Getenv("METAROUTER_KILLED"), []byte("secret"), 0o600)
	}
	kept := []string{"g.metarouter-tmp-1", "tmp-1", "f", "f.bak"}
	for _, name := range kept {
		expect.OK(t, os.WriteFile(at(name), nil, 0o600))
	}
	killed := exec.Command(os.Args[0], "-test.run=^TestWriteModeAfterKill$")
	killed.Env = append(os.Environ(), "METAROUTER_KILLED="+at("f"))
	if killed.Run(); killed.ProcessState.ExitCode() != 9 {
		t.Fatalf("the write ended with %v", killed.ProcessState)
	}
	if left, _ := os.ReadDir(dir); len(left) != len(kept)+1 {
		t.Fatalf("after the kill: %v", left)
	}
	expect.OK(t, WriteMode(at("f"), []byte("a"), 0o600))
	if left, _ := os.ReadDir(dir); len(left) != len(kept) {
		t.Errorf("left behind: %v", left)
	}
}
