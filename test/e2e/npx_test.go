//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// Ten packages that npx fetches for the first time: all start, one is fetched after the other, and the
// only process of each is node, which gets the signals.
func TestNPX(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	external.NPM(t) // or there is no npm
	registry := external.NewRegistry(t)
	env := map[string]string{"npm_config_cache": t.TempDir(), "npm_config_registry": registry.URL}
	all := entries{}
	for i := range 10 {
		spec := fmt.Sprint("fake-", i)
		if i < 5 {
			spec += "@1.0.0"
		}
		all[fmt.Sprint("s", i)] = map[string]any{"command": "npx", "args": []string{"-y", spec, "an argument", "$HOME"}, "env": env}
	}
	all["missing"] = map[string]any{"command": "npx", "args": []string{"-y", "nowhere"}, "env": env}
	s := prepare(t, all, nil)
	pids := checkNPX(t, s)
	if n := registry.MostAtOnce(); n != 1 {
		t.Errorf("%d packages were fetched at once", n)
	}
	for _, pid := range pids {
		if mcptest.Alive(pid) {
			t.Errorf("%d outlives the router", pid)
		}
	}
	logs, err := filepath.Glob(filepath.Join(s.dir, "data", "logs", "s?.log"))
	if err != nil || len(logs) != 10 || !slices.ContainsFunc(logs, func(log string) bool { return count(log, "ended by SIGTERM") > 0 }) {
		t.Errorf("no log of %q says that SIGTERM came, %v", logs, err)
	}

	// The second time exact versions are not asked for, and all others are.
	before := map[string]int{}
	for i := range 10 {
		before[fmt.Sprint("fake-", i)] = registry.Asked(fmt.Sprint("fake-", i))
	}
	checkNPX(t, s)
	for i := range 10 {
		name := fmt.Sprint("fake-", i)
		if asked := registry.Asked(name) > before[name]; asked != (i >= 5) {
			t.Errorf("%s was asked for: %v", name, asked)
		}
	}
}

// checkNPX runs the router until all that can be ready is, and returns the servers'
// processes.
func checkNPX(t *testing.T, s *setup) (pids []int) {
	t.Helper()
	c := s.serve()
	var states map[string]state
	for deadline := time.Now().Add(8 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		states = s.states()
		ready := 0
		for _, st := range states {
			if st.State == "ready" {
				ready++
			}
		}
		if ready == 10 && states["missing"].State == "failed" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not ready: %+v\n%s", states, c.Stderr())
		}
	}
	if st := states["missing"]; !strings.Contains(st.LastError, "npx could not fetch nowhere: it exited with status 1; npm error code E404") {
		t.Errorf("one that is not there: %+v", st)
	}
	if out, _, _ := s.run("servers"); !strings.Contains(out, "npm does not find the package nowhere") || strings.Contains(out, "npm error") {
		t.Errorf("servers prints %s", out)
	}
	router := 0
	for i := range 10 {
		name := fmt.Sprint("s", i)
		var who struct {
			PID, Parent int
			Arguments   []string
			Event       string
		}
		if err := json.Unmarshal([]byte(mustCall(t, c, name+":who", "{}").text()), &who); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			router = who.Parent // which may be shared, so that it is not c's process
		}
		if who.Parent != router || who.PID != states[name].PID {
			t.Errorf("%s is %+v, the router %d, the state %+v", name, who, router, states[name])
		}
		if !slices.Equal(who.Arguments, []string{"an argument", "$HOME"}) || who.Event != "npx" {
			t.Errorf("%s was given %+v", name, who)
		}
		pids = append(pids, who.PID)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	return pids
}

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
	if len(parents) != 1 { // the router
		t.Errorf("they are children of %v", parents)
	}
	if text := mustCall(t, c, "mcp-server-everything:echo", `{"message":"hello"}`).text(); !strings.Contains(text, "hello") {
		t.Errorf("echo says %q", text)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A router that is killed while npx fetches leaves nothing of npx.
func TestNoOrphanOfFetch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	npm := filepath.Join(dir, "npm")
	pids := filepath.Join(dir, "pids")
	os.MkdirAll(filepath.Join(npm, "bin"), 0o755)
	script := fmt.Sprintf("#!/bin/sh\ntrap '' TERM\necho $$ >> %[1]s\nsleep 1000 & echo $! >> %[1]s\nwhile :; do wait; done\n", pids)
	if err := writeFile(filepath.Join(npm, "package.json"), `{"name":"npm","version":"11.0.0"}`); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(npm, "bin", "npx"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	s := prepare(t, entries{"a": {"command": filepath.Join(npm, "bin", "npx"), "args": []string{"-y", "pkg"}}}, nil)
	c := s.serve()
	mcptest.WaitFor(t, "npx to run", func() bool { return len(mcptest.PIDs(t, pids)) == 2 })
	mcptest.WaitFor(t, "the router to say so", func() bool {
		return strings.Contains(c.Stderr(), "0 of 1 server ready, 1 starting: a (npx is fetching pkg)")
	})
	if st := s.states()["a"]; st.State != "starting" || !strings.HasPrefix(st.LastError, "npx is fetching pkg, for ") {
		t.Errorf("its state is %+v", st)
	}
	c.Cmd.Process.Signal(syscall.SIGKILL)
	mcptest.Gone(t, pids, 2)
}
