//go:build linux

package e2e

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeissuer"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// prepareLogin creates a setup whose server "remote" trusts the issuer. The user's own folder is
// empty, and there is no keyring.
func prepareLogin(t *testing.T, issuer *fakeissuer.Issuer, oauth map[string]any) *setup {
	t.Helper()
	home := t.TempDir()
	resource := issuer.Protect(t, fakeissuer.Protection{Flags: []string{"-tool", "look: Looks.", "-tool", "find: Finds."}})
	entry := map[string]any{"type": "http", "url": resource.URL}
	if oauth != nil {
		entry["oauth"] = oauth
	}
	s := prepare(t, entries{"remote": entry}, nil)
	s.home, s.env = home, []string{"BROWSER=", "DISPLAY=", "WAYLAND_DISPLAY=", "SSH_CONNECTION=", "SSH_TTY="}
	return s
}

func follow(t *testing.T, page string) {
	t.Helper()
	status, text, err := fakeissuer.Follow(within(t), page)
	if err != nil || status != 200 {
		t.Fatalf("the browser ends with %d %v: %s", status, err, text)
	}
}

// logIn logs in with a browser, and returns what the command says.
func (s *setup) logIn() string {
	s.t.Helper()
	c := s.begin("login", "remote", "--no-browser")
	follow(s.t, c.line())
	return c.succeed()
}

func wantText(t *testing.T, what, got string, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		if !regexp.MustCompile(pattern).MatchString(got) {
			t.Errorf("%s: nothing matches %s:\n%s", what, pattern, got)
		}
	}
}

// One login in a terminal serves a router that runs, and one that starts later.
func TestLogin(t *testing.T) {
	t.Parallel()
	issuer := fakeissuer.New(t, fakeissuer.Options{})
	s := prepareLogin(t, issuer, nil)
	running := s.serve()
	var stdout, stderr string
	mcptest.WaitFor(t, "the running router to reach the server", func() bool {
		stdout, stderr, _ = s.run("servers")
		return !strings.Contains(stdout, "starting")
	})
	wantText(t, "servers", stdout, `remote +needs_auth .*nobody has logged in to it yet; run: metarouter login remote`)
	stdout, _, code := s.run("doctor")
	wantText(t, "doctor", stdout, `✗ 127.0.0.1:\d+ requires a login, and nobody has logged in to it yet\.`, `→ run: metarouter login remote`)
	expect.Equal(t, code, 1, "doctor ends with")

	said := s.logIn()
	wantText(t, "login", said, `Logged in to remote \(issuer `+regexp.QuoteMeta(issuer.URL)+`\); it has 2 tools\.`)
	mcptest.WaitFor(t, "the running router to use the login", func() bool {
		stdout, stderr, _ = s.run("servers")
		return strings.Contains(stdout, "ready")
	})
	expect.Equal(t, strings.Contains(stdout, "nobody"), false, "after the login:\n%s", stdout)
	stdout, _, _ = s.run("servers", "remote")
	wantText(t, "servers remote", stdout, `login +logged in at `+regexp.QuoteMeta(issuer.URL)+`; renews itself`)
	if stdout, _, code = s.run("call", "remote:look"); code != 0 {
		t.Errorf("a call ends with %d: %s", code, stdout)
	}
	stdout, _, code = s.run("doctor")
	wantText(t, "doctor", stdout, "servers that work: 1 of 1", `logins\.key`)
	expect.Equal(t, code, 0, "doctor ends with")

	running.Kill()
	s.serve()
	if stdout, stderr, code = s.run("call", "remote:look"); code != 0 {
		t.Errorf("after a restart, a call ends with %d: %s%s", code, stdout, stderr)
	}
	stdout, stderr, code = s.run("logout", "remote")
	if wantText(t, "logout", stdout, "^Logged out of remote\\.\n$"); code != 0 {
		t.Errorf("logout ends with %d: %s", code, stderr)
	}
	stdout, stderr, code = s.run("call", "remote:look")
	if wantText(t, "a call", stdout+stderr, "metarouter login remote"); code == 0 {
		t.Error("a call works after the logout")
	}
	if n := issuer.Counts(); n.Authorizations != 1 || n.Registrations != 1 || n.Revocations == 0 {
		t.Errorf("the issuer counts %+v", n)
	}
}

// On a terminal the browser is opened. Over SSH it is not, and with --paste the URL can be pasted.
func TestLoginOnTerminal(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	issuer := fakeissuer.New(t, fakeissuer.Options{})
	s := prepareLogin(t, issuer, nil)
	script, seen := filepath.Join(s.dir, "browser"), filepath.Join(s.dir, "seen")
	expect.OK(t, os.WriteFile(script, []byte("#!/bin/sh\nprintf %s \"$1\" > "+seen+".new && mv "+seen+".new "+seen+"\n"), 0o700))
	start := func(p *pty, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(within(t), metarouter, s.command(append([]string{"login", "remote"}, args...)...)...)
		cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = s.dir, p.slave, p.slave, p.slave
		cmd.Env = append(s.environment(), "TERM=xterm", "NO_COLOR=1")
		expect.OK(t, cmd.Start())
		return cmd
	}
	s.env = append(s.env, "BROWSER="+script)
	p := openPTY(t, 200, 24)
	found := func(pattern string) (text string) { // also after the command's end, which may come before its text
		mcptest.WaitFor(t, pattern, func() bool { text = regexp.MustCompile(pattern).FindString(p.shown()); return text != "" })
		return text
	}
	cmd := start(p)
	var page []byte
	mcptest.WaitFor(t, "the browser", func() (ok bool) { page, _ = os.ReadFile(seen); return len(page) > 0 })
	follow(t, string(page))
	expect.OK(t, cmd.Wait(), "%s", p.shown())
	found("it has 2 tools")
	wantText(t, "with a browser", p.shown(), "Your browser opens it now")

	os.Remove(seen)
	s.env = append(s.env, "BROWSER=", "DISPLAY=:10", "SSH_CONNECTION=192.0.2.1 1 192.0.2.2 22")
	p = openPTY(t, 1000, 24)
	cmd = start(p, "--paste")
	url := strings.TrimSpace(found(`http\S+/authorize\S+\s`))
	found("Waiting for you")
	to, err := fakeissuer.Redirected(within(t), url)
	expect.OK(t, err)
	polls := 0
	mcptest.WaitFor(t, "the refusal", func() bool {
		if polls++; polls%200 == 1 { // again and again: input before the command reads is dropped
			io.WriteString(p.master, "nonsense\n")
		}
		return strings.Contains(p.shown(), "does not complete the login")
	})
	io.WriteString(p.master, to+"\n")
	expect.OK(t, cmd.Wait(), "%s", p.shown())
	found("it has 2 tools")

	p = openPTY(t, 1000, 24)
	cmd = start(p)
	found("Waiting for you")
	wantText(t, "over SSH", p.shown(), "logged in to this machine over SSH")
	if _, err := os.Stat(seen); err == nil {
		t.Error("a browser was opened over SSH")
	}
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("Ctrl-C: %v\n%s", err, p.shown())
	}
	found("interrupted")
}

// What keeps a person from logging in is said, with what to do.
func TestLoginRefused(t *testing.T) {
	t.Parallel()
	issuer := fakeissuer.New(t, fakeissuer.Options{NoRegistration: true, NoDevice: true})
	s := prepareLogin(t, issuer, nil)
	resource := issuer.Protect(t, fakeissuer.Protection{})
	s.write(entries{
		"remote":  {"url": resource.URL},
		"header":  {"url": resource.URL, "headers": map[string]any{"authorization": "Bearer x"}},
		"machine": {"url": resource.URL, "oauth": map[string]any{"grant": "client_credentials", "clientId": "c", "clientSecret": "s"}},
		"local":   fake(),
	}, nil)
	for _, tc := range []struct {
		args string
		code int
		want string
	}{
		{"login", 2, "name one server"},
		{"login remot", 2, `did you mean "remote"`},
		{"login local", 2, "local runs on this machine; it needs no login"},
		{"login header", 2, `has the header "authorization", which is sent instead of a login`},
		{"login machine", 2, `needs no login: the router gets its tokens`},
		{"login remote --device --paste", 2, "has no URL to paste"},
		{"login remote", 1, `"clientId": "…", "callbackPort": `},
		{"logout local", 2, "has no login for it"},
		{"logout header", 0, "there is no login at header"},
	} {
		if _, stderr, code := s.run(strings.Fields(tc.args)...); code != tc.code || !strings.Contains(stderr, tc.want) {
			t.Errorf("%s: %d, want %d and %q:\n%s", tc.args, code, tc.code, tc.want, stderr)
		}
	}
	issuer.Change(func(o *fakeissuer.Options) { o.NoRegistration, o.Deny = false, true })
	c := s.begin("login", "remote")
	fakeissuer.Follow(within(t), c.line()) // what the page says is its own
	if stderr, code := c.end(); code != 1 || !strings.Contains(stderr, "access_denied") {
		t.Errorf("denied, it ends with %d: %s", code, stderr)
	}
	issuer.Change(func(o *fakeissuer.Options) { o.Deny = false })
	c = s.begin("login", "remote", "--paste")
	c.line()
	io.WriteString(c.stdin, "what\n")
	c.stdin.Close()
	stderr, code := c.end()
	if wantText(t, "pasting nothing", stderr, "That does not complete the login: .*no such address", "stdin ended before the URL came"); code != 1 {
		t.Errorf("pasting nothing ends with %d", code)
	}
	if _, stderr, code := s.run("login", "remote", "--device"); code != 1 || !strings.Contains(stderr, "device code") {
		t.Errorf("without the device grant it ends with %d: %s", code, stderr)
	}
}
