//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// The TypeScript SDK logs in by itself, from nothing but the URL.
func TestOAuthTypeScriptSDK(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	external.Node22(t)
	m := newTeam(t, teamOptions{people: true})
	type call struct{ Tool, Text, Error string }
	for _, test := range []struct {
		user, path, scope string
		tools             []string
		logins            int
	}{
		{"ann", "", "", quillTools, 1},
		{"ann", "/p/workbench", "", quillTools, 1},
		{"bob", "", "", slices.Concat(kiteTools, quillTools), 1},
		{"ann", "", "mcp:read", quillTools[:1], 2}, // it asks for more when it calls a tool that writes
	} {
		t.Run(test.user+test.path+" "+test.scope, func(t *testing.T) {
			t.Parallel()
			line := m.runSDK(t, test.user, m.url+test.path, test.scope, "quill__echo", "quill__write_note")
			var did struct {
				Tools, Scopes []string
				Calls         []call
			}
			if err := json.Unmarshal([]byte(line), &did); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			slices.Sort(did.Tools)
			if !slices.Equal(did.Tools, test.tools) || len(did.Scopes) != test.logins || len(did.Calls) != 2 || !strings.Contains(did.Calls[0].Text, "hello") {
				t.Errorf("the SDK did %s", line)
			}
			if last := did.Scopes[len(did.Scopes)-1]; !strings.Contains(did.Calls[1].Text, "hello") || last != "mcp:read mcp:call" {
				t.Errorf("the SDK did %s", line)
			}
		})
	}
}

// runSDK runs testdata/oauth.mjs, and returns its last line. Each URL is visited by the user.
func (m *team) runSDK(t *testing.T, user string, args ...string) (last string) {
	t.Helper()
	p := newPerson(t, true)
	p.fields["login"] = user
	cmd := exec.CommandContext(within(t), external.Node22(t), append([]string{sdkProgram(t, "oauth.mjs")}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, lines := startPiped(t, cmd)
	scanner := bufio.NewScanner(lines)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		if last = scanner.Text(); !strings.HasPrefix(last, "http") {
			continue
		}
		end, err := p.visit(within(t), last)
		if err != nil {
			t.Error(err)
			cmd.Process.Kill()
			break
		}
		fmt.Fprintln(stdin, end)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("oauth.mjs: %v\n%s\n%s", err, stderr.Bytes(), m.router.Stderr())
	}
	return last
}

// The Inspector's command line logs in by itself, from nothing but the URL, and keeps the token.
func TestOAuthInspector(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	external.Node22(t)
	m := newTeam(t, teamOptions{people: true})
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			i := &inspector{team: m, era: era, home: t.TempDir(), person: newPerson(t, false)}
			i.person.fields["login"] = "ann"
			if out := i.run(t, "--method", "tools/list"); !strings.Contains(out, "quill__write_note") || strings.Contains(out, "kite") {
				t.Errorf("the Inspector lists %s", out)
			}
			out := i.run(t, "--method", "tools/call", "--tool-name", "quill__echo", "--tool-arg", "message=hello")
			if !strings.Contains(out, "hello") || i.logins != 1 {
				t.Errorf("after %d logins, the Inspector's call gets %s", i.logins, out)
			}
		})
	}
}

// An inspector is the Inspector's command line with a home folder.
type inspector struct {
	*team
	era, home string
	person    *person
	logins    int
}

// run runs it, and returns what it prints. A URL that it shows is visited.
func (i *inspector) run(t *testing.T, args ...string) string {
	t.Helper()
	line := slices.Concat([]string{
		external.InspectorCLI(t), "--cli", "--transport", "http", "--server-url", i.url, "--protocol-era", i.era,
		"--callback-url", "http://" + mcptest.FreeAddress(t) + "/oauth/callback", "--connect-timeout", "60000",
	}, args)
	node := external.Node22(t)
	cmd := exec.CommandContext(within(t), node, line...)
	cmd.Dir = i.home
	cmd.Env = append(os.Environ(), "HOME="+i.home, "MCP_STORAGE_DIR="+i.home, "MCP_INSPECTOR_SECRET_STORE=file", "MCP_AUTO_OPEN_ENABLED=true", "BROWSER=true",
		"PATH="+filepath.Dir(node)+string(os.PathListSeparator)+os.Getenv("PATH"))
	var out, said bytes.Buffer
	cmd.Stdout = &out
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		fmt.Fprintln(&said, lines.Text())
		if address, ok := strings.CutPrefix(lines.Text(), "Please navigate to: "); ok {
			i.logins++
			if _, err := i.person.visit(within(t), address); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the Inspector: %v\n%s", err, said.Bytes())
	}
	return out.String()
}
