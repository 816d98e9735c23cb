package clients

import (
	"fmt"
	"path/filepath"
	"strings"
)

// schemaURL is the "$schema" of our files. The schema has it as "$id".
const schemaURL = "https://raw.githubusercontent.com/mcp-metarouter/metarouter/main/config/schema.json"

// FirstFile returns a first file of ours, to be written to path, with the bundled servers.
// files says whether one of them shows the files of folder; it does not if that is home or
// the root. A .mcp.json gets no comments, since Claude Code reads it too.
func FirstFile(path, folder, home string) (data []byte, files bool) {
	files = folder != home && filepath.Dir(folder) != folder
	project := filepath.Base(path) == ".mcp.json"
	separator, comment, cwd := ",", "", ""
	if !files {
		folder, separator, comment = "/a/folder", "", "// "
	}
	if project && files {
		folder, cwd = ".", `, "cwd": "."` // the folder of this file, wherever the router starts
	}
	text := fmt.Sprintf(firstFile, quoted(schemaURL), separator, comment, quoted(folder), cwd)
	var b strings.Builder
	for line := range strings.Lines(text) {
		if begin := strings.TrimSpace(line); !project || begin != "" && !strings.HasPrefix(begin, "//") {
			b.WriteString(line)
		}
	}
	return []byte(b.String()), files
}

const firstFile = `{
  "$schema": %s,

  // The MCP servers that metarouter runs. An edit takes effect when this file is saved.
  // 'metarouter check' finds mistakes in it, 'metarouter doctor' tries the servers.
  // More servers: 'metarouter add NAME --write -- npx -y PACKAGE', 'metarouter add NAME URL --write',
  // or 'metarouter import CLIENT --write' for those of Claude, Codex, Cursor, VS Code and others.
  // Write a secret as ${keyring:NAME}, and store it with 'metarouter secret set NAME'.
  "mcpServers": {
    // Bundled with metarouter: converts units, and validates JSON against a schema.
    "utilities": { "command": "metarouter", "args": ["builtin", "utilities"] }%s

    // Bundled too: lists and reads the files of one folder, and changes none.
    %s"files": { "command": "metarouter", "args": ["builtin", "files", %s]%s }
  }
}
`
