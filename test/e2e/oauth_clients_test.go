//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// The TypeScript SDK logs in by itself, from nothing but the URL.
func TestOAuthTypeScriptSDK(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	external.Node22(t)
	m := newTeam(t, true)
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
			expect.OK(t, json.Unmarshal([]byte(line), &did), "%s", line)
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
	expect.OK(t, cmd.Wait(), "oauth.mjs: %s\n%s", stderr.Bytes(), m.router.Stderr())
	return last
}
