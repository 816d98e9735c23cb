//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// approvedScript makes a call, a second one that a person has to approve, and a third with what these return.
const approvedScript = `
const first = await call("work:echo", {message: "one"});
const second = await call("work:add", {a: 20, b: 22});
return first.message + " " + (await call("work:echo", {message: "two"})).message + " " + JSON.stringify(second);`

// The official TypeScript SDKs run a script with an approval in the middle: version 1, which is asked while the script
// waits, and version 2, which comes back with the answer.
func TestScriptsOfTypeScriptClients(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	s := prepare(t, entries{"work": fake("-tools", "echo,add")}, map[string]any{
		"mode": "code", "profiles": map[string]any{"default": map[string]any{"tools": map[string]any{"ask": []string{"add"}}}},
	})
	client := sdkProgram(t, "script.mjs")
	router, err := json.Marshal(append([]string{metarouter}, s.command("serve")...))
	expect.OK(t, err)
	for era, revision := range map[string]string{"legacy": "2025-11-25", "modern": "2026-07-28"} {
		cmd := exec.CommandContext(within(t), external.Node22(t), client, era, string(router), approvedScript)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v\n%s", era, err, stderr.String())
			continue
		}
		var did struct {
			Revision  string
			Questions []string
			Result    json.RawMessage
		}
		if err := json.Unmarshal(out, &did); err != nil || did.Revision != revision {
			t.Errorf("%s: %s, %v", era, out, err)
			continue
		}
		if len(did.Questions) != 1 || !strings.Contains(did.Questions[0], "the tool add of the server work") || !strings.Contains(did.Questions[0], "line 3") {
			t.Errorf("%s: the questions are %q", era, did.Questions)
		}
		if r := decode(t, did.Result); r.IsError || !strings.HasPrefix(r.text(), "one two ") {
			t.Errorf("%s: the script ends with %s", era, did.Result)
		}
	}
}

// sdkProgram returns the path of a program in testdata, in a folder where it finds the TypeScript SDK.
func sdkProgram(t *testing.T, name string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err == nil {
		err = os.WriteFile(program, text, 0o600)
	}
	if err == nil {
		err = os.Symlink(external.NPM(t), filepath.Join(filepath.Dir(program), "node_modules"))
	}
	expect.OK(t, err)
	return program
}
