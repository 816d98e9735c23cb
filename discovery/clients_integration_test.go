package discovery

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// compileAll is a program that compiles the schemas of a file, one a line, as Ajv for 2020-12 does and as the TypeScript SDK does, with
// one table of identifiers for all, and names those that are refused.
const compileAll = `
import fs from 'fs'
import { createRequire } from 'module'
const [modules, file] = process.argv.slice(-2)
const require = createRequire(modules + '/')
const Ajv = require('ajv/dist/2020').default
const sdk = await import(modules + '/@modelcontextprotocol/sdk/dist/esm/validation/ajv-provider.js')
console.warn = console.error = () => {}
const shared = new sdk.AjvJsonSchemaValidator(), ajv = new Ajv({ strict: false, validateFormats: false })
for (const line of fs.readFileSync(file, 'utf8').trim().split('\n')) {
  const schema = JSON.parse(line)
  try { shared.getValidator(JSON.parse(line)); ajv.compile(schema) } catch (e) { console.log(e.message + ': ' + line) }
}`

// Clients and APIs of models refuse no schema that is shown: of the draft 7 and 2020-12 cases of JSON Schema's own test suite, and of
// the real servers in the folder METAROUTER_REAL_LISTS.
func TestNoClientRefuses(t *testing.T) {
	layer.Integration(t)
	modules := external.NPM(t)
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/google/jsonschema-go").Output()
	expect.OK(t, err)
	files, _ := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "jsonschema", "testdata", "draft*", "*.json"))
	lists, _ := filepath.Glob(filepath.Join(os.Getenv("METAROUTER_REAL_LISTS"), "*.json"))
	var lines []string
	add := func(definition []byte) {
		tool, err := Normalize("s", definition, nil)
		expect.OK(t, err)
		for _, schema := range [][]byte{tool.InputSchema, wire.Member(tool.Definition, "outputSchema"), wire.Member(tool.Flat, "inputSchema")} {
			if schema != nil {
				lines = append(lines, regexp.MustCompile(`\n\s*`).ReplaceAllString(string(schema), ""))
			}
		}
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		expect.OK(t, err)
		var cases []struct{ Schema json.RawMessage }
		expect.OK(t, json.Unmarshal(data, &cases))
		for _, one := range cases {
			object := `{"type":"object","properties":{"a":` + string(one.Schema) + `}}`
			add([]byte(`{"name":"t","inputSchema":` + object + `,"outputSchema":` + object + `}`))
		}
	}
	expect.Equal(t, len(lines) > 500, true, "%d schemas of %s", len(lines), dir)
	for _, file := range lists {
		data, err := os.ReadFile(file)
		expect.OK(t, err)
		_ = wire.Elements(wire.Member(data, "tools"), func(definition []byte) bool { add(definition); return true })
	}
	file := filepath.Join(t.TempDir(), "schemas")
	expect.OK(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600))
	node := exec.CommandContext(t.Context(), "node", "--input-type=module", "-", modules, file)
	node.Stdin = strings.NewReader(compileAll)
	out, err := node.CombinedOutput()
	expect.OK(t, err, "%s", out)
	expect.Equal(t, string(out), "", "refused")
	t.Logf("%d schemas", len(lines))
}
