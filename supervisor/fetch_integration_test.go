//go:build unix

package supervisor

import (
	"context"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/launch"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A fakeNPM is an npx that "fetches" a package whose program is the fake server.
type fakeNPM struct {
	dir     string
	version string // of npm
	fetch   string // what it does before, as a shell script
	shebang string // the first line of the package's program
	entry   config.Server
}

// newNPM returns one in a folder of the test.
func newNPM(t *testing.T, name, spec string) *fakeNPM {
	dir := t.TempDir()
	entry := config.Server{
		Name: name, Transport: config.Stdio, StartTimeout: 30 * time.Second,
		Command: filepath.Join(dir, "bin", "npx"), Args: []string{"-y", spec, "an argument"},
		Env: map[string]string{"npm_config_cache": filepath.Join(dir, "cache")},
	}
	return &fakeNPM{dir: dir, version: "11.0.0", shebang: "#!/bin/sh", entry: entry}
}

// file writes a file below its folder.
func (n *fakeNPM) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(n.dir, name)
	expect.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)))
	return path
}

// install writes the scripts and returns the entry. The file "runs" gets a line
// when npx begins, and one when it has fetched.
func (n *fakeNPM) install(t *testing.T) config.Server {
	t.Helper()
	n.file(t, "npm/package.json", fmt.Sprintf(`{"name":"npm","version":%q}`, n.version))
	n.file(t, "pkg/package.json", `{"name":"pkg","version":"1.2.3"}`)
	n.file(t, "pkg/dist/package.json", `{"type":"module"}`)
	command, args := mcptest.Command("-name", n.entry.Name, "-tools", "echo,pid,env", "-pid-file", filepath.Join(n.dir, "servers"))
	// The fake server refuses arguments that it does not know, so they are kept aside.
	program := n.file(t, "pkg/dist/server", fmt.Sprintf("%s\necho \"$*\" > %s/arguments\nexec '%s' '%s'\n", n.shebang, n.dir, command, strings.Join(args, "' '")))
	bin := filepath.Join(n.dir, "bin")
	os.MkdirAll(bin, 0o755)
	expect.OK(t, os.Symlink(program, filepath.Join(bin, "pkg-server")))
	n.file(t, "npm/bin/npx-cli.js", fmt.Sprintf(`#!/bin/sh
cd %q
echo $$ >> npx
echo begin >> runs
%s
echo fetched >> runs
export PATH="%s:$PATH" npm_lifecycle_event=npx npm_config_user_agent=npm/11
"${npm_config_script_shell:-/bin/sh}" -c "'pkg-server' 'an argument'"
`, n.dir, n.fetch, bin))
	expect.OK(t, os.Symlink("../npm/bin/npx-cli.js", n.entry.Command))
	return n.entry
}

// runs returns how often npx began.
func (n *fakeNPM) runs() int {
	b, _ := os.ReadFile(filepath.Join(n.dir, "runs"))
	return strings.Count(string(b), "begin")
}

// Under npx there is nothing but the server: it has npx's environment, its
// arguments, and all signals.
func TestNPXDoesNotStay(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	n := newNPM(t, "a", "pkg")
	// What packages run while they are installed gets a shell.
	n.fetch = `[ -z "$npm_config_script_shell" ] || npm_lifecycle_event=postinstall "$npm_config_script_shell" -c 'echo "[$METAROUTER_REPORT$npm_config_script_shell]" > postinstall'`
	f := superviseProcesses(t, t.TempDir(), n.install(t))
	pid := f.mustCall("a", "pid", "{}")
	if st := f.await("a", status.Ready); fmt.Sprint(st.PID) != pid || st.LastError != "" || st.Doing != "" {
		t.Errorf("the server is %s, the status %+v", pid, st)
	}
	env := f.mustCall("a", "env", "{}")
	for _, want := range []string{"npm_lifecycle_event=npx", "npm_config_user_agent=npm/11", filepath.Join(n.dir, "bin") + ":"} {
		expect.Contains(t, env, want)
	}
	for _, ours := range []string{process.ReportVariable, "npm_config_script_shell"} {
		expect.Equal(t, strings.Contains(env, ours), false, "%s is in the server's environment", ours)
	}
	if b, _ := os.ReadFile(filepath.Join(n.dir, "arguments")); string(b) != "an argument\n" {
		t.Errorf("its arguments are %q", b)
	}
	if b, _ := os.ReadFile(filepath.Join(n.dir, "postinstall")); string(b) != "[]\n" {
		t.Errorf("an install script found %q", b)
	}
	mcptest.Gone(t, filepath.Join(n.dir, "npx"), 1)
	f.stop()
	mcptest.Gone(t, filepath.Join(n.dir, "servers"), 1)
}

// An exact version is looked for once, a tag at each start, as npx does.
func TestNPXFreshness(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	for spec, want := range map[string]int{"pkg@1.2.3": 1, "pkg@latest": 2, "pkg": 2, "pkg@1.2.4": 2} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			n := newNPM(t, "a", spec)
			f := superviseProcesses(t, t.TempDir(), n.install(t))
			f.await("a", status.Ready)
			expect.OK(t, f.Restart(t.Context(), "a"))
			expect.Equal(t, n.runs(), want, "npx ran … times")
			// Another version in its place is not taken for it.
			n.file(t, "pkg/package.json", `{"name":"pkg","version":"1.2.5"}`)
			if err := f.Restart(t.Context(), "a"); err != nil || n.runs() != want+1 {
				t.Errorf("npx ran %d times, %v", n.runs(), err)
			}
		})
	}
}

// Where npx can't be had to report, it stays.
func TestNPXAsWritten(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	for why, change := range map[string]func(*fakeNPM){
		"an old npm":             func(n *fakeNPM) { n.version = "6.14.18" },
		"a shell of one's own":   func(n *fakeNPM) { n.entry.Env["NPM_CONFIG_SCRIPT_SHELL"] = "/bin/bash" },
		"no #!":                  func(n *fakeNPM) { n.shebang = "# no interpreter" },
		"an unusual option":      func(n *fakeNPM) { n.entry.Args = append([]string{"--no-audit"}, n.entry.Args...) },
		"npx that ends in peace": func(n *fakeNPM) { n.fetch = `[ -z "$METAROUTER_REPORT" ] || exit 0` },
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			n := newNPM(t, "a", "pkg")
			change(n)
			f := superviseProcesses(t, t.TempDir(), n.install(t))
			pid := f.mustCall("a", "pid", "{}")
			if st := f.await("a", status.Ready); fmt.Sprint(st.PID) == pid {
				t.Error("npx did not stay")
			}
			f.stop()
			mcptest.Gone(t, filepath.Join(n.dir, "npx"), 1)
			mcptest.Gone(t, filepath.Join(n.dir, "servers"), 1)
		})
	}
}

// What npm says is the reason why the server fails, and there is no use in asking
// for a package again that is not there.
func TestNPXFails(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	n := newNPM(t, "a", "@a/b@1.0.0")
	n.fetch = `cat >&2 <<-'E'
	npm warn something
	npm error code E404
	npm error 404 Not Found - GET http://registry/@a%2fb
	npm error 404
	npm error 404  The requested resource '@a/b@1.0.0' could not be found
	npm error 404
	npm error 404 Note that you can also install from a
	npm error 404 tarball, folder, http url, or git url.
	npm error A complete log of this run can be found in: /a/log
	E
	exit 1`
	f := superviseProcesses(t, t.TempDir(), n.install(t))
	st := f.await("a", status.Failed)
	expect.Equal(t, st.LastError, "npx could not fetch @a/b@1.0.0: it exited with status 1; npm error code E404", "it failed with")
	expect.Equal(t, n.runs(), 1, "npx ran … times")
	if b, err := os.ReadFile(filepath.Join(f.data, "logs", "a.log")); err != nil || !strings.Contains(string(b), "A complete log") {
		t.Errorf("the server's log says %q, %v", b, err)
	}
}

// A few packages are fetched at a time; what is cached does not wait for them.
func TestFewFetchAtATime(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	var long []*fakeNPM
	var entries []config.Server
	for i := range launch.AtATime {
		n := newNPM(t, fmt.Sprint("long", i), "pkg")
		n.fetch = "while [ ! -e go-on ]; do sleep 0.05; done"
		n.entry.StartTimeout = 10 * time.Minute
		long, entries = append(long, n), append(entries, n.install(t))
	}
	f := superviseProcesses(t, t.TempDir(), entries...)
	for _, n := range long {
		mcptest.WaitFor(t, "npx to run", func() bool { return n.runs() > 0 })
	}
	cold, warm := newNPM(t, "cold", "pkg"), newNPM(t, "warm", "pkg@latest")
	folder := sha512.Sum512([]byte("pkg@latest")) // as npm names it
	warm.file(t, "cache/_npx/"+hex.EncodeToString(folder[:8])+"/node_modules/pkg/package.json", "{}")
	entries = append(entries, cold.install(t))
	f.apply(append(entries, warm.install(t))...)
	f.await("warm", status.Ready)
	if st := f.state("cold"); st.State != status.Starting || st.Doing != "waiting to be fetched" {
		t.Errorf("another waits: %+v", st)
	}
	if st := f.state("long0"); st.State != status.Starting || !strings.HasPrefix(st.LastError, "npx is fetching pkg, for ") {
		t.Errorf("one fetches: %+v", st)
	}
	for _, n := range long {
		n.file(t, "go-on", "")
	}
	for _, e := range entries {
		f.await(e.Name, status.Ready)
	}
}

// A fetch that hangs ends with its startTimeout, and is tried again. A call names meanwhile the step that it waits for.
func TestFetchHangs(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	hung := newNPM(t, "hung", "pkg")
	hung.entry.StartTimeout = 30 * time.Second
	hung.fetch = "echo npm error code E404 >&2; sleep 1000 & echo $! >> npx; wait"
	f := superviseProcesses(t, t.TempDir(), hung.install(t))
	mcptest.WaitFor(t, "npx to run", func() bool { return hung.runs() > 0 })
	ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
	defer cancel()
	if _, err := f.Session(ctx, "hung", nil); err == nil || !regexp.MustCompile(`server "hung" is starting: npx is fetching pkg, for [1-9][0-9]*s`).MatchString(err.Error()) {
		t.Errorf("a call says %v", err)
	}
	mcptest.WaitFor(t, "the hung one to fail", func() bool {
		return strings.Contains(f.state("hung").LastError, "npx is fetching pkg: not ready within 30s (startTimeout)")
	})
	expect.Equal(t, f.state("hung").State, status.Restarting, "its state")
	f.stop()
	mcptest.Gone(t, filepath.Join(hung.dir, "npx"), 2)
}

// An edit ends a fetch under way.
func TestFetchEdited(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	n := newNPM(t, "a", "pkg")
	n.fetch = "sleep 1000"
	f := superviseProcesses(t, t.TempDir(), n.install(t))
	mcptest.WaitFor(t, "npx to run", func() bool { return n.runs() > 0 })
	f.apply(fake("a"))
	f.await("a", status.Ready)
	mcptest.Gone(t, filepath.Join(n.dir, "npx"), 1)
}

// Under uvx there is nothing but the server, with uvx's environment and its arguments. One version is asked for once.
func TestUVX(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	n := newNPM(t, "a", "")
	command, args := mcptest.Command("-name", "a", "-tools", "pid,env", "-pid-file", filepath.Join(n.dir, "servers"))
	n.file(t, "env/bin/pkg", fmt.Sprintf("#!/bin/sh\necho \"$*\" > %s/arguments\nexec '%s' '%s'\n", n.dir, command, strings.Join(args, "' '")))
	python := n.file(t, "env/bin/python", "")
	n.file(t, "env/lib/python3.13/site-packages/pkg-1.2.3.dist-info/METADATA", "")
	uvx := n.file(t, "uvx", fmt.Sprintf("#!/bin/sh\necho \"$1 $2\" >> %s/asked\nshift 2\nPATH=\"%[1]s/env/bin:$PATH\" UV=here exec \"$@\"\n", n.dir))
	f := superviseProcesses(t, t.TempDir(), config.Server{Name: "a", Transport: config.Stdio, Command: uvx, Args: []string{"pkg@1.2.3", "an argument"}, StartTimeout: time.Minute})
	pid := f.mustCall("a", "pid", "{}")
	if st := f.await("a", status.Ready); fmt.Sprint(st.PID) != pid || st.Package != "pkg@1.2.3" {
		t.Errorf("the server is %s, the status %+v", pid, st)
	}
	expect.Contains(t, f.mustCall("a", "env", "{}"), "UV=here")
	expect.OK(t, f.Restart(t.Context(), "a"))
	expect.OK(t, os.Remove(python)) // uvx makes another environment
	expect.OK(t, f.Restart(t.Context(), "a"))
	for file, want := range map[string]string{"arguments": "an argument\n", "asked": "--from pkg==1.2.3\n--from pkg==1.2.3\n"} {
		b, _ := os.ReadFile(filepath.Join(n.dir, file))
		expect.Equal(t, string(b), want, "%s", file)
	}
	f.stop()
	mcptest.Gone(t, filepath.Join(n.dir, "servers"), 3)
}
