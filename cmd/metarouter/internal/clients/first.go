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
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	comment := func(format string, args ...any) {
		if !project {
			line(format, args...)
		}
	}
	line("{")
	line(`  "$schema": %s,`, quoted(schemaURL))
	comment("")
	comment("  // The MCP servers that metarouter runs. An edit takes effect when this file is saved.")
	comment("  // 'metarouter check' finds mistakes in it, 'metarouter doctor' tries the servers.")
	comment("  // More servers: 'metarouter add NAME --write -- npx -y PACKAGE', 'metarouter add NAME URL --write',")
	comment("  // or 'metarouter import CLIENT --write' for those of Claude, Codex, Cursor, VS Code and others.")
	comment("  // Write a secret as ${keyring:NAME}, and store it with 'metarouter secret set NAME'.")
	line(`  "mcpServers": {`)
	comment("    // Bundled with metarouter: units, summaries, personal data in texts, JSON Schema.")
	separator := ""
	if files {
		separator = ","
	}
	line(`    "utilities": { "command": "metarouter", "args": ["builtin", "utilities"] }%s`, separator)
	shown := folder
	if project {
		shown = "."
	}
	if !files {
		shown = "/a/folder"
	}
	cwd := ""
	if project {
		cwd = `, "cwd": "."` // the folder of this file, wherever the router starts
	}
	entry := fmt.Sprintf(`"files": { "command": "metarouter", "args": ["builtin", "files", %s]%s }`, quoted(shown), cwd)
	comment("")
	comment("    // Bundled too: reads and searches the files of one folder, and changes none.")
	if files {
		line("    %s", entry)
	} else {
		comment("    // %s", entry)
	}
	line("  }")
	line("}")
	return []byte(b.String()), files
}
