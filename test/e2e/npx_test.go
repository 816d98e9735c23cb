//go:build unix

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// An exact version that npx has starts in a new folder without the registry, and its server gets no setting of npm for that.
func TestNPXInNewFolder(t *testing.T) {
	t.Parallel()
	external.NPM(t) // or there is no npm
	registry := external.NewRegistry(t)
	entry := map[string]any{"command": "npx", "args": []string{"-y", "fake-a@1.0.0"}, "cwd": t.TempDir(),
		"env": map[string]string{"npm_config_cache": t.TempDir(), "npm_config_registry": registry.URL}}
	s := prepare(t, entries{"s": entry}, nil)
	asked := 0
	for range 2 {
		if out, errs, code := s.run("call", "s:who"); code != 0 || strings.Contains(out, "offline") {
			t.Fatal(out, errs, code)
		}
		if now := registry.Asked("fake-a"); asked != 0 && now != asked {
			t.Errorf("the registry was asked %d times, at first %d", now, asked)
		} else {
			asked = now
		}
		entry["cwd"] = t.TempDir()
		s.write(entries{"s": entry}, nil)
	}
}

// Published servers that a project has in its node_modules: npx finds them there, and
// does not stay either.
func TestNPXInProject(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	project := filepath.Dir(external.NPM(t))
	all := entries{}
	for name, args := range map[string][]string{
		"mcp-server-everything": nil, "mcp-server-memory": nil, "mcp-server-filesystem": {project}, "mcp-server-sequential-thinking": nil,
	} {
		all[name] = map[string]any{"command": "npx", "args": append([]string{"-y", name}, args...), "cwd": project}
	}
	s := prepare(t, all, nil)
	c := s.serve()
	mcptest.WaitFor(t, "all to be ready", func() bool {
		for _, st := range s.states() {
			if st.State != "ready" {
				return false
			}
		}
		return true
	})
	parents := map[string]bool{}
	for name, st := range s.states() {
		out, err := exec.Command("ps", "-o", "ppid=,args=", "-p", fmt.Sprint(st.PID)).Output()
		said := strings.Fields(string(out))
		if err != nil || len(said) < 2 || filepath.Base(said[1]) != "node" {
			t.Errorf("%s runs %q, %v", name, out, err)
			continue
		}
		parents[said[0]] = true
	}
	expect.Equal(t, len(parents), 1, "they are children of %v", parents) // the router
	expect.Contains(t, mustCall(t, c, "mcp-server-everything:echo", `{"message":"hello"}`).text(), "hello", "echo says")
	expect.OK(t, c.Close())
}

// A router that is killed while npx fetches leaves nothing of npx.
func TestNoOrphanOfFetch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	npm := filepath.Join(dir, "npm")
	pids := filepath.Join(dir, "pids")
	os.MkdirAll(filepath.Join(npm, "bin"), 0o755)
	script := fmt.Sprintf("#!/bin/sh\ntrap '' TERM\necho $$ >> %[1]s\nsleep 1000 & echo $! >> %[1]s\nwhile :; do wait; done\n", pids)
	expect.OK(t, writeFile(filepath.Join(npm, "package.json"), `{"name":"npm","version":"11.0.0"}`))
	expect.OK(t, os.WriteFile(filepath.Join(npm, "bin", "npx"), []byte(script), 0o755))
	s := prepare(t, entries{"a": {"command": filepath.Join(npm, "bin", "npx"), "args": []string{"-y", "pkg"}}}, nil)
	c := s.serve()
	mcptest.WaitFor(t, "npx to run", func() bool { return len(mcptest.PIDs(t, pids)) == 2 })
	mcptest.WaitFor(t, "the router to say so", func() bool {
		st := s.states()["a"]
		return st.State == "starting" && strings.HasPrefix(st.LastError, "npx is fetching pkg, for ")
	})
	c.Cmd.Process.Signal(syscall.SIGKILL)
	mcptest.Gone(t, pids, 2)
}
