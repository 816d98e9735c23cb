// Package clients knows the configuration files of MCP clients: where they are on
// each system, how they are written, and how to put our entry into them or take their
// servers over. It backs the commands import and install.
//
// A client's file keeps every byte that is not part of the requested entry: unknown keys,
// comments, order, indentation, line ends. Only Read, File.Write and the functions in
// system.go look at the system; everything else is pure.
package clients

import (
	"cmp"
	"slices"
	"strings"
)

// EntryName is the name of our entry in a client's file.
const EntryName = "metarouter"

// A Client is a program that starts MCP servers named in a file of its own.
type Client struct {
	Name    string // as on the command line
	Title   string // as its vendor writes it
	Restart string // how to make it read the file again

	keys      []string                                     // from the root of the file to the servers
	typed     bool                                         // entries say "type": "stdio"
	withholds bool                                         // its servers get some variables only if their entries name them
	dollar    bool                                         // it replaces $VAR, too
	braces    bool                                         // it replaces {env:VAR} and {file:PATH}, and not ${VAR}
	parts     bool                                         // some of its entries are parts of it, which others can't start: a built-in extension of Zed, or a change that opencode makes to an entry of the organization
	deeper    string                                       // newer files have the servers under this key, one object deeper; only for these counts the mode
	format    format                                       // of its file
	dialect   dialect                                      // nil if package config reads its entries
	entry     func(e RouterEntry, earlier []string) fields // our entry in its dialect; nil for the usual one
	mode      []string                                     // arguments of our entry: how it sees many tools; nil leaves that to the configuration

	// The paths that the user's file may have, the usual one first. A path begins with a name in
	// braces, as [System.folders] has it. Those for Windows, if there are any, take their place there.
	files, windows []string

	projects []string // the files in a project's folder
}

// Find returns the client of that name.
func Find(name string) (Client, bool) {
	for _, c := range table {
		if c.Name == name {
			return c, true
		}
	}
	return Client{}, false
}

// Names returns the names of all clients.
func Names() []string {
	var names []string
	for _, c := range table {
		names = append(names, c.Name)
	}
	return names
}

var claudeKeys = []string{"mcpServers"}

// The modes of clients that do not put the definitions of all tools before the model, but have it search them. docs/clients.md has
// the sources.
var (
	defers = []string{"--mode", "direct"}
	loads  = append(slices.Clone(defers), "--find-tools") // it loads tools by their names, too
)

var table = []Client{
	{
		Name: "claude-desktop", Title: "Claude Desktop", keys: claudeKeys, files: []string{"{claude}/claude_desktop_config.json"},
		Restart: "quit Claude Desktop completely (its tray icon too) and start it again; while it runs, it may overwrite its file",
	},
	{
		Name: "claude-code", Title: "Claude Code", keys: claudeKeys, typed: true, mode: loads,
		files: []string{"{CLAUDE_CONFIG_DIR|~}/.claude.json"}, projects: []string{".mcp.json"},
		Restart: "start claude again (its command /mcp shows the servers); if a session that was running has overwritten the file, repeat this command",
	},
	{
		Name: "gemini", Title: "Gemini CLI", keys: claudeKeys, withholds: true, dollar: true,
		files: []string{"{GEMINI_CLI_HOME|~}/.gemini/settings.json"}, projects: []string{".gemini/settings.json"},
		Restart: "start gemini again in a folder that it trusts (its command /mcp shows the servers); in other folders it starts no servers",
	},
	{
		Name: "cursor", Title: "Cursor", keys: claudeKeys, typed: true,
		files: []string{"{~}/.cursor/mcp.json"}, projects: []string{".cursor/mcp.json"},
		Restart: "turn the server on in Cursor's settings under MCP, or restart Cursor",
	},
	{
		Name: "vscode", Title: "VS Code", keys: []string{"servers"}, typed: true, mode: defers,
		files: []string{"{vscode}/mcp.json"}, projects: []string{".vscode/mcp.json"},
		Restart: "run 'MCP: List Servers' in VS Code and start its entries there",
	},
	{
		Name: "windsurf", Title: "Windsurf", keys: claudeKeys, // the last file is for its plugins in other editors
		files:   []string{"{~}/.codeium/windsurf/mcp_config.json", "{~}/.codeium/windsurf-next/mcp_config.json", "{~}/.codeium/mcp_config.json"},
		Restart: "press Refresh in Windsurf's list of MCP servers, or restart Windsurf",
	},
	{
		Name: "opencode", Title: "opencode", keys: []string{"mcp"}, deeper: "servers", braces: true, parts: true, dialect: opencode, mode: defers, // opencode 1 puts all tools before the model
		entry: func(e RouterEntry, earlier []string) fields {
			return fields{{"type", "local"}, {"command", append([]string{e.Command}, e.arguments(earlier)...)}}
		},
		files:    []string{"{OPENCODE_CONFIG}", "{xdg}/opencode/opencode.json", "{xdg}/opencode/opencode.jsonc"},
		projects: []string{"opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"},
		Restart:  "start opencode again",
	},
	{
		Name: "codex", Title: "Codex", keys: []string{"mcp_servers"}, withholds: true, format: inTOML, dialect: codex, mode: loads,
		entry: func(e RouterEntry, earlier []string) fields {
			all := fields{{"command", e.Command}, {"args", e.arguments(earlier)}}
			if len(e.Variables) > 0 {
				all = append(all, field{"env_vars", e.Variables})
			}
			return all
		},
		files: []string{"{CODEX_HOME|~/.codex}/config.toml"}, projects: []string{".codex/config.toml"},
		Restart: "start codex again (its command /mcp shows the servers)",
	},
	{
		Name: "goose", Title: "Goose", keys: []string{"extensions"}, format: inYAML,
		entry: func(e RouterEntry, earlier []string) fields {
			return fields{{"enabled", true}, {"type", "stdio"}, {"name", cmp.Or(e.Only, EntryName)}, {"description", "MCP servers behind metarouter"},
				{"cmd", e.Command}, {"args", e.arguments(earlier)}, {"timeout", 300}}
		},
		files: []string{"{xdg}/goose/config.yaml"}, windows: []string{"{config}/Block/goose/config/config.yaml"},
		Restart: "start a new session of Goose",
	},
	{
		Name: "zed", Title: "Zed", keys: []string{"context_servers"}, parts: true,
		files:    []string{"{xdg}/zed/settings.json", "{~}/.var/app/dev.zed.Zed/config/zed/settings.json"},
		windows:  []string{"{config}/Zed/settings.json"},
		projects: []string{".zed/settings.json"},
		Restart:  "Zed reads the file at once; its Agent Panel shows the servers",
	},
	{
		Name: "lmstudio", Title: "LM Studio", keys: claudeKeys, files: []string{"{~}/.lmstudio/mcp.json", "{~}/.cache/lm-studio/mcp.json"},
		Restart: "turn the server on in LM Studio, under Program",
	},
	{
		Name: "kilo", Title: "Kilo Code", keys: claudeKeys,
		files: []string{"{vscode}/globalStorage/kilocode.kilo-code/settings/mcp_settings.json"}, projects: []string{".kilocode/mcp.json"},
		Restart: "press the refresh button in Kilo Code's list of MCP servers",
	},
	{
		Name: "roo", Title: "Roo Code", keys: claudeKeys,
		files: []string{"{vscode}/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json"}, projects: []string{".roo/mcp.json"},
		Restart: "press the refresh button in Roo Code's list of MCP servers",
	},
	{
		Name: "amazon-q", Title: "Amazon Q", keys: claudeKeys,
		files: []string{"{~}/.aws/amazonq/mcp.json"}, projects: []string{".amazonq/mcp.json"},
		Restart: "start q chat again (its command /mcp shows the servers)",
	},
}

// A System is the machine of a client, as far as the paths of its files depend on it.
type System struct {
	OS   string              // as runtime.GOOS
	Home string              // the user's folder
	Env  func(string) string // the environment
	Glob func(pattern string) []string
}

// native returns a path with the separators of the system, which need not be ours.
func (s System) native(path string) string {
	if s.OS == "windows" {
		return strings.ReplaceAll(path, "/", `\`)
	}
	return path
}

// config returns the system's folder for configuration.
func (s System) config() string {
	switch s.OS {
	case "darwin", "ios":
		return s.Home + "/Library/Application Support"
	case "windows":
		return cmp.Or(s.Env("APPDATA"), s.Home+`\AppData\Roaming`)
	}
	return s.xdg()
}

// xdg returns the folder for configuration of programs that use the same one on all systems.
func (s System) xdg() string {
	if folder := s.Env("XDG_CONFIG_HOME"); strings.HasPrefix(folder, "/") {
		return folder
	}
	return s.Home + s.native("/.config")
}

// folders returns the folders of a name: "~" is the user's folder, "config" and "xdg" are for
// configuration, and "claude" and "vscode" belong to these programs. Other names are variables:
// "NAME|~/x" stands for the value, or for ~/x without one.
func (s System) folders(name string) (all []string) {
	switch name {
	case "config":
		return []string{s.config()}
	case "xdg":
		return []string{s.xdg()}
	case "claude": // an app from the store of Windows has a folder of its own, and never reads the usual one
		if s.OS == "windows" {
			all = s.Glob(cmp.Or(s.Env("LOCALAPPDATA"), s.Home+`\AppData\Local`) + `\Packages\Claude_*\LocalCache\Roaming\Claude`)
		}
		if len(all) == 0 {
			all = []string{s.config() + s.native("/Claude")}
		}
		return all
	case "vscode":
		for _, edition := range []string{"/Code", "/Code - Insiders", "/VSCodium"} {
			all = append(all, s.config()+s.native(edition+"/User"))
		}
		return all
	}
	variable, usual, _ := strings.Cut(name, "|")
	if variable == "~" {
		return []string{s.Home}
	} else if folder := s.Env(variable); folder != "" {
		return []string{folder}
	} else if usual != "" {
		return []string{s.Home + s.native(usual[1:])}
	}
	return nil
}

// Files returns the paths that the user's file may have, the usual one first.
func (c Client) Files(s System) (paths []string) {
	all := c.files
	if s.OS == "windows" && c.windows != nil {
		all = c.windows
	}
	for _, path := range all {
		name, rest, _ := strings.Cut(path[1:], "}")
		for _, folder := range s.folders(name) {
			paths = append(paths, folder+s.native(rest))
		}
	}
	return paths
}
